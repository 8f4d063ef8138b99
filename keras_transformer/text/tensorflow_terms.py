"""Required terms of sentences from strings, built from TensorFlow operations."""

import numpy as np
import tensorflow as tf

from keras_transformer.text.sentencepiece_tokenizer import SentencePieceTokenizer
from keras_transformer.text.tensorflow_sentencepiece import TensorFlowSentencePieceTokenizer
from keras_transformer.text.words import form_without_space

NO_FORM, WITHOUT_FIRST = -2, -1  # in place of the first token of a form without a space


class TensorFlowTermEncoder(tf.Module):
    """A `TermEncoder` for TensorFlow graphs that produces the same forms.

    Args:
        tokenizer: target tokenizer.
        tokens: the same tokenizer for graphs.
    """

    def __init__(
        self, tokenizer: SentencePieceTokenizer, tokens: TensorFlowSentencePieceTokenizer
    ) -> None:
        super().__init__()
        self._tokens = tokens
        self._unk = tokenizer.special_tokens.unk
        first_tokens = np.full(tokenizer.vocabulary_size, NO_FORM, "int32")
        for token in range(tokenizer.vocabulary_size):
            form = form_without_space(tokenizer, [token, token])
            if form is not None:
                first_tokens[token] = form[0] if len(form) == 2 else WITHOUT_FIRST
        self._first_tokens = tf.constant(first_tokens)

    def forms(self, terms: tf.Tensor) -> tf.Tensor:
        """Convert the terms of texts to their forms.

        Args:
            terms: strings (batch,), the terms of each text, one in each line, with `|` between the
                targets of a term. A line that is repeated must occur as often in the output.

        Returns:
            int32 (batch, forms, 3 + form_length), as in `decoding.RequiredTerms`. A term that the
            vocabulary cannot write has a form without tokens or with the unknown token.
        """
        batch_size = tf.shape(terms, tf.int64)[0]
        lines = _stripped(tf.strings.split(terms, "\n"))
        text, lines, counts = _distinct(lines)
        targets = _stripped(tf.strings.split(lines, "|"))
        # A form that several terms share goes to the term with the fewest targets.
        number = targets.row_lengths()
        order = tf.argsort(text * (tf.maximum(tf.reduce_max(number), 0) + 1) + number, stable=True)
        order = order[tf.gather(number, order) > 0]
        text, counts, targets = (tf.gather(each, order) for each in (text, counts, targets))

        rows = self._tokens.tokenize(targets.flat_values)  # (targets, length)
        lengths, term = rows.row_lengths(), targets.value_rowids()
        is_right = ~tf.reduce_any(rows == self._unk, axis=1) & (lengths > 0)
        tokens = rows.to_tensor(-1)
        tokens = tf.pad(tokens, [[0, 0], [0, 1]], constant_values=-1)
        first = tf.gather(self._first_tokens, tf.maximum(tokens[:, 0], 0))
        rest = tf.concat([tokens[:, 1:], tf.fill([tf.shape(tokens)[0], 1], -1)], axis=1)
        other = tf.concat([first[:, tf.newaxis], tokens[:, 1:]], axis=1)
        drops_first = first == WITHOUT_FIRST
        other = tf.where(drops_first[:, tf.newaxis], rest, other)
        has_other = is_right & tf.where(drops_first, lengths > 1, first >= 0)
        # Keep one form of a term that has none.
        is_of = tf.math.unsorted_segment_max(tf.cast(is_right, tf.int32), term, tf.shape(text)[0])
        is_first = term != tf.concat([[tf.constant(-1, term.dtype)], term[:-1]], axis=0)
        is_kept = is_right | (is_first & (tf.gather(is_of, term) < 1))

        is_there = tf.reshape(tf.stack([is_kept, has_other], axis=1), [-1])
        tokens = tf.reshape(tf.stack([tokens, other], axis=1), [-1, tf.shape(tokens)[1]])
        tokens, term = tokens[is_there], tf.repeat(term, 2)[is_there]
        of_text = tf.gather(text, term)
        starts = tf.searchsorted(text, tf.range(batch_size))  # number of the first term of a text
        columns = [
            tf.cast(term, tf.int32) - tf.gather(starts, of_text),
            tf.gather(counts, term),
            tf.zeros_like(term, tf.int32),
        ]
        # Padding is 0 here, so that rows of padding have no tokens.
        forms = tf.concat([tf.stack(columns, axis=1), tokens + 1], axis=1)
        forms = tf.RaggedTensor.from_value_rowids(forms, of_text, batch_size).to_tensor()
        return tf.concat([forms[:, :, :3], forms[:, :, 3:] - 1], axis=2)


def _stripped(texts: tf.RaggedTensor) -> tf.RaggedTensor:
    """Return the texts with single spaces between words, and without empty texts."""
    words = tf.strings.regex_replace(texts.flat_values, r"\s+", " ")
    texts = texts.with_flat_values(tf.strings.strip(words))
    return tf.ragged.boolean_mask(texts, texts != "")


def _distinct(lines: tf.RaggedTensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Return the distinct lines of all texts: text numbers, lines, and how often each occurs."""
    array = lines.to_tensor("")  # (batch, lines)
    is_same = array[:, :, tf.newaxis] == array[:, tf.newaxis]
    place = tf.range(tf.shape(array)[1])
    is_repeated = tf.reduce_any(is_same & (place[:, tf.newaxis] > place), axis=2)
    is_there = ~is_repeated & (array != "")
    counts = tf.reduce_sum(tf.cast(is_same, tf.int32), axis=2)
    return tf.where(is_there)[:, 0], array[is_there], counts[is_there]
