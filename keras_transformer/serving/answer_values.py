"""Checks of the values in a model server's answer; wrong ones are a `ValueError`."""

import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeGuard

from keras_transformer.errors import SCORES_NOT_FINITE
from keras_transformer.serving.export_contract import NO_SCORE
from keras_transformer.serving.serving_errors import InvalidAnswer, short_repr
from keras_transformer.text.sentence_batches import without_surrogates

INT32, INT64 = (range(-(2**bits), 2**bits) for bits in (31, 63))
Outputs = Mapping[str | None, Any]  # of a signature by name; a single one may be named None
VersionState = tuple[int, str, str]  # version, state, error message
# By name of the signature, "inputs" or "outputs", name of the tensor, "dtype" or "shape".
Signatures = dict[str, dict[str, dict[str, dict[str, Any]]]]


def whole_number(value: object, least: int = 0) -> int:
    """A 64-bit integer of at least `least`; JSON may hold it as a string."""
    # Longer strings are not converted: they may have as many digits as the answer has bytes.
    number = int(value) if isinstance(value, str) and len(value) < 32 else value
    if not _is_int(number) or number not in INT64 or number < least:
        raise ValueError(f"not a 64-bit integer >= {least}: {short_repr(value)}")
    return number


def string(value: object) -> str:
    """A string; unpaired surrogates become U+FFFD."""
    if not isinstance(value, str):
        raise ValueError(f"not a string: {short_repr(value)}")
    return without_surrogates(value)


def checked_column(
    place: str,
    signature: str,
    found: Outputs,
    name: str,
    kind: type | list[Any],
    num_rows: int,
) -> list[Any]:
    """One of a signature's outputs, checked: `num_rows` values of a kind.

    `kind` is str, int, float, or a list of one of them. Messages begin with `place`, the server
    and the model; so in the other functions.
    """
    values = found.get(name, found.get(None))
    if not _is_of(values, [kind]) or len(values) != num_rows:
        raise InvalidAnswer(
            f"{place}: the signature `{signature}` must answer {num_rows} rows of `{name}`. "
            f"Received: {short_repr(values)}. Is it a model of `export_saved_model`?"
        )
    return values


def check_scores(place: str, scores: Iterable[float]) -> None:
    """Require finite numbers, which a damaged model does not give."""
    if not all(map(math.isfinite, scores)):
        raise InvalidAnswer(f"{place}: the {SCORES_NOT_FINITE}")


def check_best_scores(place: str, scores: Iterable[float]) -> None:
    """Require finite numbers above `NO_SCORE`: every sentence has a translation."""
    check_scores(place, [score if score > NO_SCORE else math.nan for score in scores])


def cut(place: str, rows: Sequence[list[int]], lengths: Sequence[int]) -> list[list[int]]:
    """The rows without their padding."""
    for row, length in zip(rows, lengths, strict=True):
        if not 0 <= length <= len(row):
            raise InvalidAnswer(
                f"{place}: a row of {len(row)} ids cannot have the length {length}. Is it a model "
                "of `export_saved_model`?"
            )
    return [row[:length] for row, length in zip(rows, lengths, strict=True)]


def paired(
    place: str, texts: Sequence[list[str]], scores: Sequence[list[float]]
) -> list[list[tuple[str, float]]]:
    """The pairs of a text and its score for each sentence."""
    if list(map(len, texts)) != list(map(len, scores)):
        raise InvalidAnswer(
            f"{place}: each translation must have one score. Is it a model of `export_saved_model`?"
        )
    return [list(zip(*row, strict=True)) for row in zip(texts, scores, strict=True)]


def _is_of(value: object, kind: type | list[Any]) -> bool:
    """Whether a value is of a type; with `[type]`, whether it is a list of such values."""
    if isinstance(kind, list):
        return isinstance(value, list) and all(_is_of(entry, kind[0]) for entry in value)
    if kind is float and _is_int(value):
        return abs(value) <= sys.float_info.max
    return _is_int(value) and value in INT32 if kind is int else isinstance(value, kind)


def _is_int(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)
