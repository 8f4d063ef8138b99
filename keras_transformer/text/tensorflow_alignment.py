"""Word alignments in Pharaoh format from TensorFlow operations."""

import tensorflow as tf

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
        """Align each target word with at most one source word.

        Args:
            source_ids: int32 (batch, source), tokens, EOS and padding.
            target_ids: int32 (batch, target), tokens and padding.
            weights: float32 (batch, target, source), the attention from each target token to each
                source token; 0 in rows of padding.

        Returns:
            Strings (batch,), such as `"0-0 2-1"`, as returned by `Alignment.pharaoh` for guided
            alignments.
        """
        is_eos = source_ids == self._source_eos
        is_end = tf.cumsum(tf.cast(is_eos, tf.int32), axis=1) > 0
        of_source, num_sources = self._source.membership(source_ids, ~is_end)
        is_token = tf.reduce_sum(weights, axis=2) > 0
        of_target, num_targets = self._target.membership(target_ids, is_token)
        # The mean over the tokens of a target word has the same maximum as their sum.
        weights = tf.matmul(of_target, weights, transpose_a=True)  # (batch, target words, source)
        of_eos = tf.reduce_sum(tf.where(is_eos[:, tf.newaxis], weights, 0.0), axis=2)
        weights = tf.matmul(weights, of_source)
        is_word = tf.range(tf.shape(weights)[2]) < num_sources[:, tf.newaxis]  # (batch, words)
        weights = tf.where(is_word[:, tf.newaxis], weights, -1.0)
        source = tf.argmax(weights, axis=2, output_type=tf.int32)  # (batch, target words)

        number = tf.shape(weights)[1]
        target = tf.range(number)
        is_link = (target < num_targets[:, tf.newaxis]) & (tf.reduce_max(weights, axis=2) >= of_eos)
        links = tf.sort(tf.where(is_link, source * number + target, tf.int32.max), axis=1)
        lengths = tf.reduce_sum(tf.cast(is_link, tf.int32), axis=1)
        links = tf.RaggedTensor.from_tensor(links, lengths)
        sides = tf.as_string(links.flat_values // number), tf.as_string(links.flat_values % number)
        return tf.strings.reduce_join(
            links.with_flat_values(tf.strings.join(sides, "-")), axis=1, separator=" "
        )


class _TokenWords(tf.Module):
    """Divides the tokens of sentences into words, separated by spaces."""

    def __init__(self, tokenizer: SentencePieceTokenizer) -> None:
        super().__init__()
        pieces = tokenizer.pieces(range(tokenizer.vocabulary_size))
        self._starts_with_space = tf.constant([piece.startswith(SPACE) for piece in pieces])
        self._ends_with_space = tf.constant([piece.endswith(SPACE) for piece in pieces])
        self._has_text = tf.constant([bool(piece.strip(SPACE)) for piece in pieces])
        self._right_to_left = tokenizer.right_to_left

    def membership(self, ids: tf.Tensor, is_token: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Return which tokens belong to which words.

        Args:
            ids: int32 (batch, length).
            is_token: bool (batch, length), False for EOS and padding.

        Returns:
            `(membership, numbers)`: float32 (batch, length, words), 1 where a token belongs to a
            word, otherwise 0; int32 (batch,), the number of words. `words` is at least 1.
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
        count = tf.reduce_sum(begins, axis=1)
        words = tf.maximum(1, tf.reduce_max(count))
        return tf.one_hot(tf.where(has_text, numbers, -1), words), count
