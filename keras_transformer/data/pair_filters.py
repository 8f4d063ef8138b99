"""Filters that drop unsuitable sentence pairs from a corpus."""

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

# Descriptions of the reasons for dropping pairs, as shown in reports.
REASONS: dict[Reason, str] = {
    "empty": "with an empty side",
    "too_long": "too long",
    "length_ratio": "of uneven lengths",
    "duplicate": "repeated",
    "copy": "copied from the source",
}


@dataclasses.dataclass(frozen=True)
class PairFilters:
    """Filters for sentence pairs. Pairs with an empty side are always dropped.

    Args:
        max_tokens: drop pairs with more than this many subword tokens on either side, excluding
            EOS. None keeps long pairs.
        max_ratio: drop pairs whose longer side has more than `max_ratio` times as many subword
            tokens as the shorter side. None keeps pairs of uneven length.
        duplicates: whether to drop pairs that occurred earlier.
        copies: whether to drop pairs whose target is identical to the source.

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
    """Return a mask of pairs to keep and the number of pairs dropped by each filter.

    A pair that matches several filters is counted once, under the first matching reason: empty,
    copy, duplicate, too long, length ratio. White space around sentences is ignored, unless the
    tokenizer counts it.

    Args:
        filters: the filters to apply.
        sources, targets: the sentences of the pairs.
        lengths: subword counts of the source and target sentences, `(2, pairs)`.
        repeated: mask of pairs to drop because they occurred earlier; None keeps duplicates.
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
    """Yield each active filter's reason and mask of matching pairs, in the order of checks."""
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
    """Return hashes of sentence pairs for finding duplicates, ignoring surrounding white space."""
    lines = (f"{len(one)} {one}{other}".encode() for one, other in _stripped(sources, targets))
    digests = (hashlib.blake2b(line, digest_size=8).digest() for line in lines)
    return np.frombuffer(b"".join(digests), "<u8")


def _stripped(sources: Sequence[str], targets: Sequence[str]) -> list[tuple[str, str]]:
    pairs = zip(sources, targets, strict=True)
    return [(source.strip(), target.strip()) for source, target in pairs]


class SeenHashes:
    """A set of 64-bit hashes that needs one eighth of the memory of a Python set.

    The set is a list of sorted arrays, each more than twice as long as the next. The list is
    therefore short, and adding hashes rarely merges more than the last few arrays.
    """

    def __init__(self) -> None:
        self._runs: list[NDArray[np.uint64]] = []

    def add(self, hashes: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Add hashes; return a mask of hashes that occurred earlier in this or a previous array."""
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
