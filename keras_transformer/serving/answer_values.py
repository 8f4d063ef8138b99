"""The values in a model server's answer: each is what it must be, or a `ValueError`."""

import math
import sys

from keras_transformer.errors import SCORES_NOT_FINITE
from keras_transformer.serving.export_contract import NO_SCORE
from keras_transformer.serving.serving_errors import InvalidAnswer, short_repr
from keras_transformer.text.sentence_batches import without_surrogates

INT32, INT64 = (range(-(2**bits), 2**bits) for bits in (31, 63))


def whole_number(value, least=0):
    """A 64-bit integer that is not too small, which JSON may hold as a string."""
    # A string of more digits than any such number may have as many as the answer has bytes.
    number = int(value) if isinstance(value, str) and len(value) < 32 else value
    if not _is_int(number) or number not in INT64 or number < least:
        raise ValueError(f"no 64-bit integer >= {least}: {short_repr(value)}")
    return number


def string(value):
    """A string, without halves of surrogate pairs."""
    if not isinstance(value, str):
        raise ValueError(f"no string: {short_repr(value)}")
    return without_surrogates(value)


def checked_column(place, signature, found, name, kind, num_rows):
    """One output of a signature, if it is what the signature promises: `num_rows` of a kind.

    `found` is a dict of outputs by name; a single one may be named None. `kind` is str, int, float,
    or a list of one of them. `place`, the server and the model, is for the message.
    """
    values = found.get(name, found.get(None))
    if not _is_of(values, [kind]) or len(values) != num_rows:
        raise InvalidAnswer(
            f"{place}: the signature `{signature}` must answer {num_rows} rows of `{name}`. "
            f"Received: {short_repr(values)}. Is it a model of `export_saved_model`?"
        )
    return values


def check_scores(place, scores):
    """Require numbers; a damaged model must not pass for one that finds all equally bad."""
    if not all(map(math.isfinite, scores)):
        raise InvalidAnswer(f"{place}: the {SCORES_NOT_FINITE}")


def check_best_scores(place, scores):
    """Require that each sentence has a translation, whose score is that of none otherwise."""
    check_scores(place, [score if score > NO_SCORE else math.nan for score in scores])


def cut(place, rows, lengths):
    """The rows without their padding."""
    for row, length in zip(rows, lengths, strict=True):
        if not 0 <= length <= len(row):
            raise InvalidAnswer(
                f"{place}: a row of {len(row)} ids cannot have the length {length}. Is it a model "
                "of `export_saved_model`?"
            )
    return [row[:length] for row, length in zip(rows, lengths, strict=True)]


def paired(place, texts, scores):
    """For each sentence, the pairs of a text and its score."""
    if list(map(len, texts)) != list(map(len, scores)):
        raise InvalidAnswer(
            f"{place}: each translation must have one score. Is it a model of `export_saved_model`?"
        )
    return [list(zip(*row, strict=True)) for row in zip(texts, scores, strict=True)]


def _is_of(value, kind):
    """Whether a value is of a type, or a list of entries of the type in a list of one."""
    if isinstance(kind, list):
        return isinstance(value, list) and all(_is_of(entry, kind[0]) for entry in value)
    if kind is float and _is_int(value):
        return abs(value) <= sys.float_info.max
    return _is_int(value) and value in INT32 if kind is int else isinstance(value, kind)


def _is_int(value):
    return isinstance(value, int) and not isinstance(value, bool)
