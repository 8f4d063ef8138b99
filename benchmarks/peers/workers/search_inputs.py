"""Decoding inputs as read by the workers. Special ids are the defaults of `SpecialTokens`.

Axes in the shape comments:
    batch    sentences
    length   tokens of the longest source of the batch
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

PAD, BOS, EOS, UNK = 0, 1, 2, 3
FIRST_TOKEN = 4
ALPHA = 0.6


class Batch(NamedTuple):
    """Sentences to decode in one call."""

    tokens: np.ndarray  # int32 (batch, length), without EOS, padded
    num_tokens: np.ndarray  # int32 (batch,)
    output_lengths: np.ndarray  # int32 (batch,), output tokens without EOS

    @property
    def ended(self) -> np.ndarray:
        """The sources with EOS and padding: int32 (batch, length + 1)."""
        ids = np.pad(self.tokens, ((0, 0), (0, 1)), constant_values=PAD)
        ids[np.arange(len(ids)), self.num_tokens] = EOS
        return ids

    @property
    def mean_length(self) -> int:
        """The mean output length, which produces the same total number of tokens."""
        return round(float(self.output_lengths.mean()))

    def rows(self) -> list[list[int]]:
        """Return the ids of each source, without EOS."""
        return [
            row[:length].tolist() for row, length in zip(self.tokens, self.num_tokens, strict=True)
        ]


def read_batches(path: str, row: Mapping[str, Any]) -> list[Batch]:
    """Return the batches of a row in file order, repeated `row["repeats"]` times."""
    with np.load(path) as arrays:
        tokens, num_tokens = arrays["tokens"], arrays["num_tokens"]
        output_lengths = arrays["output_lengths"]
    starts = range(0, len(tokens), row["batch_size"])
    parts = (slice(start, start + row["batch_size"]) for start in starts)
    batches = [
        Batch(tokens[part, : num_tokens[part].max()], num_tokens[part], output_lengths[part])
        for part in parts
    ]
    return batches * row["repeats"]


def parts(batches: Sequence[Batch], only_first: bool) -> Iterator[Batch]:
    """Yield all batches, or only the first sentence."""
    if not only_first:
        yield from batches
        return
    yield Batch(*(array[:1] for array in batches[0]))


def batches_at_once(batches: Sequence[Batch], threads: int) -> int:
    """Return the number of batches to run in parallel: one per thread if there are several."""
    return threads if len(batches) > 1 else 1


def total_of(search: Callable[[Batch], int], batches: Iterable[Batch], at_once: int) -> int:
    """Decode all batches in `at_once` parallel threads. Return the total number of tokens."""
    if at_once == 1:
        return sum(map(search, batches))
    with ThreadPoolExecutor(at_once) as threads:
        return sum(threads.map(search, batches))


def num_tokens(rows: np.ndarray) -> int:
    """Count the tokens in outputs (batch, length) up to and including the first EOS."""
    is_end = rows == EOS
    ends = np.where(is_end.any(axis=1), is_end.argmax(axis=1) + 1, rows.shape[1])
    return int(ends.sum())
