"""The SentencePiece tokenizer as TensorFlow operations, for `tf.data` and exported graphs."""

import hashlib

import tensorflow as tf
import tensorflow_text


class TensorFlowSentencePieceTokenizer(tf.Module):
    """`SentencePieceTokenizer` inside a TensorFlow graph, with the same ids.

    Make it after `keras.utils.set_random_seed`, which drops the resources of older ones.

    Args:
        model_bytes: `SentencePieceTokenizer.model_bytes`.
    """

    def __init__(self, model_bytes: bytes) -> None:
        super().__init__()
        # Unique, since a loaded SavedModel shares vocabularies of the same name.
        name = f"sentencepiece_{hashlib.sha256(model_bytes).hexdigest()}"
        # FastSentencepieceTokenizer silently gives wrong ids for BPE models.
        self._tokenizer = tensorflow_text.SentencepieceTokenizer(
            model_bytes, out_type=tf.int32, name=name
        )

    @property
    def vocabulary_size(self) -> tf.Tensor:
        """Number of ids, a scalar int32 tensor."""
        return self._tokenizer.vocab_size()

    def tokenize(self, sentences: tf.Tensor) -> tf.RaggedTensor:
        """Turn sentences into token ids, without begin or end of sentence.

        Args:
            sentences: string tensor `(sentences,)`.

        Returns:
            An int32 `tf.RaggedTensor` `(sentences, None)`.
        """
        return self._tokenizer.tokenize(sentences)

    def detokenize(self, ids: tf.RaggedTensor) -> tf.Tensor:
        """Turn token ids into sentences.

        Args:
            ids: int32 `tf.RaggedTensor` `(sentences, None)`.

        Returns:
            A string tensor `(sentences,)`, equal to `SentencePieceTokenizer.decode` except that
            it drops spaces at the start of a sentence with `normalization="identity"`.
        """
        return self._tokenizer.detokenize(ids)
