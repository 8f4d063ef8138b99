"""Required terms of sentences as arrays for searches."""

from collections.abc import Sequence

import numpy as np

from keras_transformer.types import FIRST_TOKEN, TermForm, hypotheses_needed


def array_of_terms(rows: Sequence[Sequence[TermForm]], *, few_shapes: bool = False) -> np.ndarray:
    """Return the `forms` of `RequiredTerms` for the forms of several sentences.

    With `few_shapes`, sizes are powers of 2, because XLA compiles each shape separately.
    """
    number = max([1, *map(len, rows)])
    length = max([1, *(len(form.tokens) for row in rows for form in row)])
    if few_shapes:
        number, length = (1 << (each - 1).bit_length() for each in (number, length))
    array = np.full((len(rows), number, FIRST_TOKEN + length), -1, "int32")
    array[:, :, :FIRST_TOKEN] = 0
    for forms, row in zip(array, rows, strict=True):
        for values, form in zip(forms, row, strict=False):
            values[:FIRST_TOKEN] = form[:FIRST_TOKEN]
            values[FIRST_TOKEN : FIRST_TOKEN + len(form.tokens)] = form.tokens
    return array


def tokens_needed(forms: Sequence[TermForm]) -> int:
    """Return at most how many tokens the terms of a sentence need, with gaps between them."""
    return sum(form.times * (len(form.tokens) + 1) for form in shortest_forms(forms))


def shortest_forms(forms: Sequence[TermForm]) -> list[TermForm]:
    """Return the shortest form of each term of a sentence."""
    by_term: dict[int, TermForm] = {}
    for form in forms:
        best = by_term.setdefault(form.term, form)
        if len(form.tokens) < len(best.tokens):
            by_term[form.term] = form
    return list(by_term.values())


def hypotheses_of(forms: Sequence[TermForm], beam_size: int) -> int | None:
    """Return the number of hypotheses for a sentence with the given terms, or None without."""
    num_terms = sum(form.times for form in shortest_forms(forms))
    longest = max((len(form.tokens) for form in forms), default=1)
    return hypotheses_needed(num_terms, longest, beam_size) if num_terms else None
