"""Filters that drop useless pairs from a corpus."""

import dataclasses
import hashlib
import math
from collections.abc import Iterator, Sequence
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from keras_transformer.argument_checks import (
    check_bool,
    check_positive_int,
    is_number,
    python_number,
)
from keras_transformer.errors import refuse

Reason: TypeAlias = Literal["empty", "too_long", "length_ratio", "duplicate", "copy"]

# The reasons for dropping pairs, in the words of reports.
REASONS: dict[Reason, str] = {
    "empty": "with an empty side",
    "too_long": "too long",
    "length_ratio": "of uneven lengths",
    "duplicate": "repeated",
    "copy": "copied from the source",
}


@dataclasses.dataclass(frozen=True)
class PairFilters:
    """Which pairs to drop. Pairs with an empty side are always dropped.

    Args:
        max_tokens: drop pairs with more than this many subword tokens on a side, not counting the
            end of sentence. None keeps long pairs.
        max_ratio: drop pairs whose longer side has more than `max_ratio` times as many subword
            tokens as the shorter side. None keeps uneven pairs.
        duplicates: whether to drop pairs that occurred earlier.
        copies: whether to drop pairs whose target equals the source.

    Raises:
        ValueError: `max_tokens` is not a positive integer, `max_ratio` is not a number >= 1, or
            `duplicates` or `copies` is not True or False.

    Example:
        >>> PairFilters(max_tokens=100, max_ratio=3, copies=True)
        PairFilters(max_tokens=100, max_ratio=3, duplicates=False, copies=True)
    """

    max_tokens: int | None = None
    max_ratio: float | None = None
    duplicates: bool = False
    copies: bool = False

    def __post_init__(self) -> None:
        if self.max_tokens is not None:
            check_positive_int("max_tokens", self.max_tokens)
        ratio = self.max_ratio
        if ratio is not None and not (is_number(ratio) and 1 <= ratio < math.inf):
            refuse("max_ratio", "be a number >= 1", ratio)
        check_bool("duplicates", self.duplicates)
        check_bool("copies", self.copies)
        for name in ("max_tokens", "max_ratio"):
            object.__setattr__(self, name, python_number(getattr(self, name)))


def apply_filters(
    filters: PairFilters,
    sources: Sequence[str],
    targets: Sequence[str],
    lengths: NDArray[np.integer],
    repeated: NDArray[np.bool_] | None = None,
) -> tuple[NDArray[np.bool_], dict[Reason, int]]:
    """Which pairs to keep, and how many each filter drops.

    A pair that several filters would drop is counted once, under the first matching reason: empty,
    copy, duplicate, too long, length ratio. White space around sentences is ignored, unless the
    tokenizer counts it.

    Args:
        filters: which pairs to drop.
        sources, targets: their sentences.
        lengths: their numbers of subwords, `(2, pairs)`.
        repeated: which pairs occurred earlier and are dropped; None keeps them.
    """
    dropped: dict[Reason, int] = dict.fromkeys(REASONS, 0)
    keep = np.ones(len(sources), dtype=bool)
    for reason, broken in _broken(filters, sources, targets, lengths, repeated):
        dropped[reason] = int(np.count_nonzero(keep & broken))
        keep &= ~broken
    return keep, dropped


def _broken(
    filters: PairFilters,
    sources: Sequence[str],
    targets: Sequence[str],
    lengths: NDArray[np.integer],
    repeated: NDArray[np.bool_] | None,
) -> Iterator[tuple[Reason, NDArray[np.bool_]]]:
    """Yield the pairs that each active filter drops, in the order of the checks."""
    pairs = _stripped(sources, targets)
    shorter, longer = lengths.min(axis=0), lengths.max(axis=0)
    has_text = np.fromiter((bool(a and b) for a, b in pairs), bool, len(pairs))
    yield "empty", ~has_text | (shorter == 0)
    if filters.copies:
        yield "copy", np.fromiter((a == b for a, b in pairs), bool, len(pairs))
    if repeated is not None:
        yield "duplicate", repeated
    if filters.max_tokens is not None:
        yield "too_long", longer > filters.max_tokens
    if filters.max_ratio is not None:
        yield "length_ratio", longer > filters.max_ratio * shorter


def pair_hashes(sources: Sequence[str], targets: Sequence[str]) -> NDArray[np.uint64]:
    """Hashes of sentence pairs, to find repeated pairs; surrounding white space is ignored."""
    lines = (f"{len(one)} {one}{other}".encode() for one, other in _stripped(sources, targets))
    digests = (hashlib.blake2b(line, digest_size=8).digest() for line in lines)
    return np.frombuffer(b"".join(digests), "<u8")


def _stripped(sources: Sequence[str], targets: Sequence[str]) -> list[tuple[str, str]]:
    pairs = zip(sources, targets, strict=True)
    return [(source.strip(), target.strip()) for source, target in pairs]


class SeenHashes:
    """A set of 64-bit hashes that takes an eighth of the memory of a Python set.

    The set is a list of sorted arrays, each more than twice as long as the next. The list is
    therefore short, and adding hashes rarely merges more than the last arrays.
    """

    def __init__(self) -> None:
        self._runs: list[NDArray[np.uint64]] = []

    def add(self, hashes: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Add hashes; returns which occurred earlier, in this array or in previous arrays."""
        _, first = np.unique(hashes, return_index=True)
        seen = np.ones(len(hashes), dtype=bool)
        seen[first] = False
        for run in self._runs:
            places = np.minimum(np.searchsorted(run, hashes), len(run) - 1)
            seen |= run[places] == hashes
        if not seen.all():
            self._append(np.sort(hashes[~seen]))
        return seen

    def _append(self, run: NDArray[np.uint64]) -> None:
        while self._runs and len(self._runs[-1]) <= 2 * len(run):
            run = np.concatenate([self._runs.pop(), run])
            run.sort(kind="stable")  # merges sorted runs
        self._runs.append(run)
