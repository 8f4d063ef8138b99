"""Which tokens translate which: expected counts of IBM Model 1 over a parallel text.

Axes in the shape comments:
    links     pairs of a target token and a source token of its sentence, or the empty token
    entries   different pairs of tokens
"""

from collections.abc import Iterable
from typing import Any

import numpy as np

_LINKS = 4_000_000  # of the sentences that are aligned at a time
_ROUNDS = 4
_LEAST = 0.01  # expected counts below are forgotten


def best_translations(
    source_rows: Iterable[Any],
    target_rows: Iterable[Any],
    source_size: int,
    target_size: int,
    best: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The most probable target tokens of each source token.

    Sentences are aligned in blocks, as many as fit into memory; each block starts from the counts
    of those before it.

    Args:
        source_rows, target_rows: ids of the sentences, lists or arrays.
        source_size, target_size: numbers of tokens in the vocabularies.
        best: most target tokens of a source token.

    Returns:
        `(offsets, translations, frequencies)`: int64 (source_size + 1,) and int32, the target
        tokens of source token `i` in ascending order being `translations[offsets[i]:offsets[i +
        1]]`; int64 (target_size,), how often each target token occurs.

    Raises:
        ValueError: the numbers of rows differ.
    """
    keys: Any = np.zeros(0, "int64")  # (entries,)
    counts: Any = np.zeros(0)
    frequencies = np.zeros(target_size, "int64")
    for sources, targets in _blocks(source_rows, target_rows):
        frequencies += np.bincount(np.concatenate(targets), minlength=target_size)
        new_keys, new_counts = _align(sources, targets, source_size, target_size, keys, counts)
        keys, places = np.unique(np.concatenate([keys, new_keys]), return_inverse=True)
        counts = np.bincount(places, np.concatenate([counts, new_counts]))
        keys, counts = keys[counts >= _LEAST], counts[counts >= _LEAST]

    source, target = np.divmod(keys, target_size)
    order = np.lexsort((target, -counts, source))
    order = order[source[order] < source_size]  # without the empty token
    source, target = source[order], target[order]
    ranks = np.arange(len(source)) - np.searchsorted(source, source)
    source, target = source[ranks < best], target[ranks < best]
    order = np.lexsort((target, source))
    offsets = np.searchsorted(source, np.arange(source_size + 1))
    return offsets, target[order].astype("int32"), frequencies


def _blocks(
    source_rows: Iterable[Any], target_rows: Iterable[Any]
) -> Iterable[tuple[list[np.ndarray], list[np.ndarray]]]:
    """Yield sources and targets of consecutive pairs; pairs with an empty side are left out."""
    sources: list[np.ndarray] = []
    targets: list[np.ndarray] = []
    links = 0
    for source, target in zip(source_rows, target_rows, strict=True):
        if not len(source) or not len(target):
            continue
        sources.append(np.asarray(source, "int64"))
        targets.append(np.asarray(target, "int64"))
        links += (len(source) + 1) * len(target)
        if links >= _LINKS:
            yield sources, targets
            sources, targets, links = [], [], 0
    if sources:
        yield sources, targets


def _align(
    sources: list[np.ndarray],
    targets: list[np.ndarray],
    source_size: int,
    target_size: int,
    known_keys: np.ndarray,
    known_counts: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Expected counts in some pairs; entry `source * target_size + target` is a pair of tokens."""
    sources = [np.append(row, source_size) for row in sources]  # the empty token of each source
    lengths = np.array([len(row) for row in sources])
    starts = np.cumsum(lengths) - lengths  # of each source
    pair = np.repeat(np.arange(len(targets)), [len(row) for row in targets])
    widths = lengths[pair]  # number of links of each target token
    ends = np.cumsum(widths)
    first = ends - widths
    places = np.arange(ends[-1]) + np.repeat(starts[pair] - first, widths)  # (links,)
    keys = np.concatenate(sources)[places] * target_size
    keys += np.repeat(np.concatenate(targets), widths)
    keys, entry = np.unique(keys, return_inverse=True)

    known = np.searchsorted(known_keys, keys)
    found = known < len(known_keys)
    found[found] = known_keys[known[found]] == keys[found]
    prior = np.full(len(keys), _LEAST)
    prior[found] += known_counts[known[found]]
    counts: Any = np.zeros(len(keys))
    source = keys // target_size
    for _ in range(_ROUNDS):
        totals = np.bincount(source, prior + counts, source_size + 1)
        probabilities = ((prior + counts) / totals[source])[entry]  # (links,)
        probabilities /= np.repeat(np.add.reduceat(probabilities, first), widths)
        counts = np.bincount(entry, probabilities, len(keys))
    return keys, counts
