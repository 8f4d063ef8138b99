"""Tokenizing and filtering the pairs of a text, chunk by chunk."""

import itertools
from collections.abc import Iterator, Mapping
from typing import NamedTuple, Protocol, TypeVar

import numpy as np
import tqdm
from numpy.typing import NDArray

from keras_transformer.data.corpus_writer import PackedRows
from keras_transformer.data.pair_filters import PairFilters, PairSieve, Reason
from keras_transformer.data.parallel_text import ParallelText
from keras_transformer.files.standard_streams import is_quiet

CHUNK_PAIRS = 10_000

_T = TypeVar("_T")


class CorpusTokenizer(Protocol):
    """A tokenizer for `prepare_corpus`, such as a `SentencePieceTokenizer`."""

    @property
    def fingerprint(self) -> str: ...

    @property
    def vocabulary_size(self) -> int: ...

    def encode(self, sentences: list[str], /) -> list[list[int]]: ...


class Chunk(NamedTuple):
    """Consecutive pairs of a text, and the numbers of the pairs in the text."""

    numbers: NDArray[np.int64]
    sources: list[str]
    targets: list[str]


class KeptPairs(NamedTuple):
    """What is left of a chunk.

    Args:
        numbers: numbers of the pairs in the text, from 1.
        ids: token ids by side.
        texts: sentences by side; empty if they are not kept.
        dropped: how many pairs each filter dropped.
    """

    numbers: NDArray[np.integer]
    ids: dict[str, PackedRows]
    texts: dict[str, PackedRows]
    dropped: dict[Reason, int]


class PairSifter(NamedTuple):
    """Tokenizes and filters chunks; can be sent to another process.

    Args:
        tokenizers: tokenizers by side.
        filters: which pairs to drop.
        keep_text: whether to keep the sentences.
    """

    tokenizers: Mapping[str, CorpusTokenizer]
    filters: PairFilters
    keep_text: bool

    def sift(
        self,
        chunk: Chunk,
        sieve: PairSieve | None = None,
        repeated: NDArray[np.bool_] | None = None,
    ) -> KeptPairs:
        """What is left of a chunk.

        Args:
            chunk: the pairs.
            sieve: a sieve that has seen the text before the chunk; defaults to a new sieve.
            repeated: with `filters.duplicates`, which pairs occurred earlier; by default the pairs
                that the sieve has seen.
        """
        sieve = sieve or PairSieve(self.filters)
        before = dict(sieve.dropped)
        texts = {"source": chunk.sources, "target": chunk.targets}
        ids = {side: self.tokenizers[side].encode(texts[side]) for side in texts}
        source_lengths, target_lengths = (
            np.fromiter(map(len, rows), "int64", len(rows)) for rows in ids.values()
        )
        keep = sieve.keep(chunk.sources, chunk.targets, source_lengths, target_lengths, repeated)
        return KeptPairs(
            chunk.numbers[keep],
            {side: PackedRows.of_ids(_kept(ids[side], keep)) for side in ids},
            {side: PackedRows.of_texts(_kept(texts[side], keep)) for side in texts}
            if self.keep_text
            else {},
            {reason: number - before[reason] for reason, number in sieve.dropped.items()},
        )


def sift(text: ParallelText, sifter: PairSifter) -> Iterator[KeptPairs]:
    """Yield what is left of a text, in order."""
    sieve = PairSieve(sifter.filters)
    with progress_bar(text, "Tokenizing") as progress:
        for chunk in chunks(text):
            yield sifter.sift(chunk, sieve)
            progress.update(len(chunk.sources))


def chunks(text: ParallelText) -> Iterator[Chunk]:
    """Yield the pairs of a text in chunks, in order."""
    pairs, numbers = iter(text), iter(text.line_numbers())
    while chunk := list(itertools.islice(pairs, CHUNK_PAIRS)):
        sources, targets = zip(*chunk, strict=True)
        own = np.fromiter(itertools.islice(numbers, len(chunk)), "int64", len(chunk))
        yield Chunk(own, list(sources), list(targets))


def progress_bar(text: ParallelText, work: str) -> tqdm.tqdm:
    """A progress bar for the pairs of a text, on stderr if that is a terminal."""
    return tqdm.tqdm(
        total=text.num_pairs,
        desc=f"{work} {text.name}",
        unit=" pairs",
        disable=is_quiet() or None,
    )


def _kept(rows: list[_T], keep: NDArray[np.bool_]) -> list[_T]:
    return list(itertools.compress(rows, keep))
