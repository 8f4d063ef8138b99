"""A SentencePiece tokenizer built from TensorFlow operations, for `tf.data` and exported graphs."""

import hashlib

import tensorflow as tf

from keras_transformer.installation import requiring_tensorflow_text
from keras_transformer.text.sentencepiece_model import TAG, PieceVocabulary
from keras_transformer.text.subword_sampler import SPACE

with requiring_tensorflow_text():
    import tensorflow_text


class TensorFlowSentencePieceTokenizer(tf.Module):
    """A `SentencePieceTokenizer` for TensorFlow graphs that produces the same ids.

    Create it after calling `keras.utils.set_random_seed`, which invalidates existing tokenizers.

    Args:
        model_bytes: serialized model, from `SentencePieceTokenizer.model_bytes`.
    """

    def __init__(self, model_bytes: bytes) -> None:
        super().__init__()
        # The name must be unique, because loaded SavedModels share vocabularies by name.
        name = f"sentencepiece_{hashlib.sha256(model_bytes).hexdigest()}"
        vocabulary = PieceVocabulary.of(model_bytes)
        self._lookup = None if vocabulary is None else _PieceLookup(vocabulary)
        out_type = tf.int32 if vocabulary is None else tf.string
        # FastSentencepieceTokenizer silently returns wrong ids for BPE models.
        self._tokenizer = tensorflow_text.SentencepieceTokenizer(
            model_bytes, out_type=out_type, name=name
        )

    @property
    def vocabulary_size(self) -> tf.Tensor:
        """Return the number of ids as a scalar int32 tensor."""
        if self._lookup is not None:
            return tf.constant(len(self._lookup.vocabulary.pieces))
        return self._tokenizer.vocab_size()

    def tokenize(self, sentences: tf.Tensor) -> tf.RaggedTensor:
        """Convert sentences to token ids, without BOS or EOS.

        Args:
            sentences: string tensor `(sentences,)`.

        Returns:
            An int32 `tf.RaggedTensor` `(sentences, None)`.
        """
        if self._lookup is None:
            return self._tokenizer.tokenize(sentences)
        tags, sentences = self._lookup.split_tags(sentences)
        pieces = self._tokenizer.tokenize(sentences)
        ids = pieces.with_flat_values(self._lookup.ids(pieces.flat_values))
        return self._lookup.ordered(tf.concat([tags, ids], 1))

    def detokenize(self, ids: tf.RaggedTensor) -> tf.Tensor:
        """Convert token ids to sentences.

        Args:
            ids: int32 `tf.RaggedTensor` `(sentences, None)`.

        Returns:
            A string tensor `(sentences,)`. The result matches `SentencePieceTokenizer.decode`,
            except that leading spaces of a sentence are dropped with
            `normalization="identity"`.
        """
        if self._lookup is None:
            return self._tokenizer.detokenize(ids)
        texts = self._tokenizer.detokenize(self._lookup.pieces(ids))
        # Pieces found only in the other side's model are left unchanged.
        return tf.strings.regex_replace(tf.strings.regex_replace(texts, SPACE, " "), "^ +| +$", "")


class _PieceLookup(tf.Module):
    """A `PieceVocabulary` implemented with TensorFlow operations."""

    def __init__(self, vocabulary: PieceVocabulary) -> None:
        super().__init__()
        numbers = tf.range(len(vocabulary.pieces))
        pairs = tf.lookup.KeyValueTensorInitializer(tf.constant(vocabulary.pieces), numbers)
        self._table = tf.lookup.StaticHashTable(pairs, default_value=vocabulary.unk)
        self.vocabulary = vocabulary

    def ids(self, pieces: tf.Tensor) -> tf.Tensor:
        """Look up the ids of pieces; the shape stays the same."""
        return self._table.lookup(pieces)

    def ordered(self, ids: tf.RaggedTensor) -> tf.RaggedTensor:
        """Convert ids from text order to model order, or vice versa."""
        return tf.reverse(ids, [1]) if self.vocabulary.right_to_left else ids

    def pieces(self, ids: tf.RaggedTensor) -> tf.RaggedTensor:
        """Return pieces in text order, without special tokens other than the unknown token."""
        special = self.vocabulary.special_tokens
        is_text = tf.logical_and(ids != special.pad, ids != special.eos)
        ids = tf.ragged.boolean_mask(ids, tf.logical_and(is_text, ids != special.bos))
        ids = self.ordered(ids)
        pieces = tf.constant(self.vocabulary.pieces)
        return ids.with_flat_values(tf.gather(pieces, ids.flat_values))

    def split_tags(self, sentences: tf.Tensor) -> tuple[tf.RaggedTensor, tf.Tensor]:
        """Return the tag ids of sentences (at most one per row) and the sentences without tags."""
        if not self.vocabulary.tags:
            return tf.RaggedTensor.from_row_lengths(
                tf.zeros([0], tf.int32), tf.zeros_like(sentences, tf.int64)
            ), sentences
        tags = tf.strings.regex_replace(sentences, f"(?s)^{TAG}.*$", r"\1")
        is_tag = tf.reduce_any(tf.expand_dims(tags, 1) == tf.constant(self.vocabulary.tags), 1)
        is_tag = tf.logical_and(is_tag, tf.strings.regex_full_match(sentences, f"(?s){TAG}.*"))
        rest = tf.strings.regex_replace(sentences, f"^{TAG}", "")
        return tf.RaggedTensor.from_row_lengths(
            self.ids(tf.boolean_mask(tags, is_tag)), tf.cast(is_tag, tf.int64)
        ), tf.where(is_tag, rest, sentences)
