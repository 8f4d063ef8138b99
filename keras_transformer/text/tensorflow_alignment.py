"""Word alignments in Pharaoh format from TensorFlow operations."""

import tensorflow as tf

from keras_transformer.text.alignment import LINK_WEIGHT
from keras_transformer.text.sentencepiece_tokenizer import SentencePieceTokenizer
from keras_transformer.text.subword_sampler import SPACE


class TensorFlowWordAligner(tf.Module):
    """An `Alignment` for TensorFlow graphs that produces the same links of words.

    Args:
        source_tokenizer, tokenizer: the tokenizers of the source and of the target.
    """

    def __init__(
        self, source_tokenizer: SentencePieceTokenizer, tokenizer: SentencePieceTokenizer
    ) -> None:
        super().__init__()
        self._source, self._target = _TokenWords(source_tokenizer), _TokenWords(tokenizer)
        self._source_eos = source_tokenizer.special_tokens.eos

    def pharaoh(
        self, source_ids: tf.Tensor, target_ids: tf.Tensor, weights: tf.Tensor
    ) -> tf.Tensor:
        """Align target words with source words.

        Args:
            source_ids: int32 (batch, source), tokens, EOS and padding.
            target_ids: int32 (batch, target), tokens and padding.
            weights: float32 (batch, target, source), the attention from each target token to each
                source token; 0 in rows of padding.

        Returns:
            Strings (batch,), such as `"0-0 2-1"`, as returned by `Alignment.pharaoh` for guided
            alignments.
        """
        is_end = tf.cumsum(tf.cast(source_ids == self._source_eos, tf.int32), axis=1) > 0
        of_source = self._source.membership(source_ids, ~is_end)
        of_target = self._target.membership(target_ids, tf.reduce_sum(weights, axis=2) > 0)
        of_target = tf.math.divide_no_nan(
            of_target, tf.reduce_sum(of_target, axis=1, keepdims=True)
        )
        weights = tf.matmul(weights, of_target, transpose_a=True)  # (batch, source, target words)
        weights = tf.matmul(of_source, weights, transpose_a=True)  # (batch, words, target words)
        row, source, target = tf.unstack(tf.where(weights > LINK_WEIGHT), axis=1)
        links = tf.strings.join([tf.as_string(source), tf.as_string(target)], "-")
        links = tf.RaggedTensor.from_value_rowids(links, row, tf.shape(weights, tf.int64)[0])
        return tf.strings.reduce_join(links, axis=1, separator=" ")


class _TokenWords(tf.Module):
    """Divides the tokens of sentences into words, separated by spaces."""

    def __init__(self, tokenizer: SentencePieceTokenizer) -> None:
        super().__init__()
        pieces = tokenizer.pieces(range(tokenizer.vocabulary_size))
        self._starts_with_space = tf.constant([piece.startswith(SPACE) for piece in pieces])
        self._ends_with_space = tf.constant([piece.endswith(SPACE) for piece in pieces])
        self._has_text = tf.constant([bool(piece.strip(SPACE)) for piece in pieces])
        self._right_to_left = tokenizer.right_to_left

    def membership(self, ids: tf.Tensor, is_token: tf.Tensor) -> tf.Tensor:
        """Return which tokens belong to which words.

        Args:
            ids: int32 (batch, length).
            is_token: bool (batch, length), False for EOS and padding.

        Returns:
            float32 (batch, length, words), 1 where a token belongs to a word, otherwise 0.
        """
        ids = tf.where(is_token, ids, 0)  # the padding may be no id of this vocabulary
        has_text = is_token & tf.gather(self._has_text, ids)
        ends = tf.gather(self._ends_with_space, ids) | ~is_token
        if self._right_to_left:  # the tokens are in reverse order
            ends_before = tf.pad(ends[:, 1:], [[0, 0], [0, 1]], constant_values=True)
        else:
            ends_before = tf.pad(ends[:, :-1], [[0, 0], [1, 0]], constant_values=True)
        begins = has_text & (tf.gather(self._starts_with_space, ids) | ends_before)
        begins = tf.cast(begins, tf.int32)
        numbers = tf.cumsum(begins, axis=1, reverse=self._right_to_left) - 1
        words = tf.maximum(0, tf.reduce_max(tf.reduce_sum(begins, axis=1)))
        return tf.one_hot(tf.where(has_text, numbers, -1), words)
