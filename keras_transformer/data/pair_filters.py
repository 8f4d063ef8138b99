"""Which pairs of a text teach nothing and are left out of a corpus."""

import dataclasses
import hashlib

import numpy as np

from keras_transformer.argument_checks import check_positive_int, is_number

# Why a pair may be dropped, and what a report calls it.
REASONS = {
    "empty": "with an empty side",
    "too_long": "too long",
    "length_ratio": "of uneven lengths",
    "duplicate": "repeated",
    "copy": "copied from the source",
}


@dataclasses.dataclass(frozen=True)
class PairFilters:
    """Says which pairs to drop besides those with an empty side, which always are.

    Args:
        max_tokens: drop pairs with a side of more subword tokens, end of sentence not counted.
            None: keep long pairs.
        max_ratio: drop pairs whose longer side has more than so many times the subword tokens of
            the shorter one. None: keep uneven pairs.
        duplicates: whether to drop pairs that stood in the text before.
        copies: whether to drop pairs whose target is its source.

    Raises:
        ValueError: `max_tokens` is no positive integer, or `max_ratio` no number >= 1.

    Example:
        >>> PairFilters(max_tokens=100, max_ratio=3, copies=True)
        PairFilters(max_tokens=100, max_ratio=3, duplicates=False, copies=True)
    """

    max_tokens: int | None = None
    max_ratio: float | None = None
    duplicates: bool = False
    copies: bool = False

    def __post_init__(self):
        if self.max_tokens is not None:
            check_positive_int("max_tokens", self.max_tokens)
        ratio = self.max_ratio
        if ratio is not None and not (is_number(ratio) and ratio >= 1):
            raise ValueError(f"`max_ratio` must be a number >= 1. Received: max_ratio={ratio!r}")


class PairSieve:
    """Applies `PairFilters` to a text, chunk by chunk, and counts what each dropped.

    A pair that several filters would drop counts for the first of: empty, copy, duplicate, too
    long, length ratio. White space around a sentence does not make it another one.
    """

    def __init__(self, filters):
        self.filters = filters
        self.dropped = dict.fromkeys(REASONS, 0)
        self._seen = _SeenHashes()

    def keep(self, sources, targets, source_lengths, target_lengths):
        """Which of the next pairs stay, by sentences and subword tokens: bool array `(pairs,)`."""
        sources = [line.strip() for line in sources]
        targets = [line.strip() for line in targets]
        shorter = np.minimum(source_lengths, target_lengths)
        longer = np.maximum(source_lengths, target_lengths)
        keep = np.ones(len(sources), dtype=bool)
        for reason, broken in self._broken(sources, targets, shorter, longer):
            self.dropped[reason] += int(np.count_nonzero(keep & broken))
            keep &= ~broken
        return keep

    def _broken(self, sources, targets, shorter, longer):
        """Yield `(reason, bool array)` of every filter that is on, in the order of the checks."""
        filters, pairs = self.filters, list(zip(sources, targets, strict=True))
        has_text = np.fromiter((bool(a and b) for a, b in pairs), bool, len(pairs))
        yield "empty", ~has_text | (shorter == 0)
        if filters.copies:
            yield "copy", np.fromiter((a == b for a, b in pairs), bool, len(pairs))
        if filters.duplicates:
            yield "duplicate", self._seen.add(np.fromiter(map(_hash, pairs), "uint64", len(pairs)))
        if filters.max_tokens is not None:
            yield "too_long", longer > filters.max_tokens
        if filters.max_ratio is not None:
            yield "length_ratio", longer > filters.max_ratio * shorter


class _SeenHashes:
    """64-bit hashes in 8 bytes each, where a Python set would take eight times as many.

    They lie in sorted arrays, each more than twice as long as the next. So there are few, and
    an addition seldom merges more than the last ones.
    """

    def __init__(self):
        self._runs = []

    def add(self, hashes):
        """Bool array: which of the hashes stood earlier in the same array or in those before."""
        _, first = np.unique(hashes, return_index=True)
        seen = np.ones(len(hashes), dtype=bool)
        seen[first] = False
        for run in self._runs:
            places = np.minimum(np.searchsorted(run, hashes), len(run) - 1)
            seen |= run[places] == hashes
        if not seen.all():
            self._append(np.sort(hashes[~seen]))
        return seen

    def _append(self, run):
        while self._runs and len(self._runs[-1]) <= 2 * len(run):
            run = np.concatenate([self._runs.pop(), run])
            run.sort(kind="stable")  # merges what is sorted
        self._runs.append(run)


def _hash(pair):
    source, target = pair
    digest = hashlib.blake2b(f"{len(source)} {source}{target}".encode(), digest_size=8)
    return int.from_bytes(digest.digest(), "little")
