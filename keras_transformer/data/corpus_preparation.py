"""Prepare a corpus from text: tokenize, filter and write sentence pairs in chunks."""

import collections
import dataclasses
import functools
import hashlib
import json
import os
import pathlib
from collections.abc import Callable, Iterator, Mapping
from itertools import compress, islice
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
import tqdm
from numpy.typing import NDArray

from keras_transformer.argument_checks import check_bool
from keras_transformer.data.pair_filters import (
    REASONS,
    PairFilters,
    Reason,
    SeenHashes,
    apply_filters,
    pair_hashes,
)
from keras_transformer.data.parallel_corpus import (
    FORMAT_VERSION,
    SIDES,
    CorpusWriter,
    PackedRows,
    ParallelCorpus,
    advice,
    drop_listing,
    lengths_of,
)
from keras_transformer.data.parallel_text import ParallelText
from keras_transformer.errors import UserInputError
from keras_transformer.files import file_lock, is_quiet, note, scratch_directory, sync, writing
from keras_transformer.text.sentence_encoding import Encoder
from keras_transformer.types import PathLike

CHUNK_PAIRS = 10_000


class CorpusTokenizer(Encoder, Protocol):
    """A tokenizer for `prepare_corpus`, such as a `SentencePieceTokenizer`."""

    @property
    def fingerprint(self) -> str: ...

    @property
    def vocabulary_size(self) -> int: ...


@dataclasses.dataclass(frozen=True)
class Chunk:
    """A chunk of consecutive sentence pairs.

    Args:
        numbers: line numbers of the pairs in the text, counted from 1.
        sources, targets: the sentences of the pairs.
        repeated: mask of pairs that occurred earlier; None if duplicates are kept.
    """

    numbers: NDArray[np.int64]
    sources: list[str]
    targets: list[str]
    repeated: NDArray[np.bool_] | None


@dataclasses.dataclass(frozen=True)
class KeptPairs:
    """The pairs of a chunk that pass the filters.

    Args:
        numbers: line numbers of the pairs in the text, counted from 1.
        rows: token ids (`source_ids`, `target_ids`) and, if text is kept, sentences
            (`source_text`, `target_text`).
        dropped: number of pairs dropped by each filter.
    """

    numbers: NDArray[np.integer]
    rows: dict[str, PackedRows]
    dropped: dict[Reason, int]


class PairSifter(NamedTuple):
    """Tokenizes and filters chunks; instances can be pickled.

    Args:
        tokenizers: the tokenizer of each side.
        filters: filters that determine which pairs to drop.
        keep_text: whether to keep the sentences.
    """

    tokenizers: Mapping[str, CorpusTokenizer]
    filters: PairFilters
    keep_text: bool

    def sift(self, chunk: Chunk) -> KeptPairs:
        """Tokenize a chunk and return the pairs that pass the filters."""
        texts = {"source": chunk.sources, "target": chunk.targets}
        ids = {side: self.tokenizers[side].encode(texts[side]) for side in texts}
        lengths = np.stack([*map(lengths_of, ids.values())])
        keep, dropped = apply_filters(
            self.filters, chunk.sources, chunk.targets, lengths, chunk.repeated
        )
        rows = {f"{side}_ids": PackedRows.of_ids([*compress(ids[side], keep)]) for side in SIDES}
        if self.keep_text:
            for side in SIDES:
                rows[f"{side}_text"] = PackedRows.of_texts(compress(texts[side], keep))
        return KeptPairs(chunk.numbers[keep], rows, dropped)


def sift(text: ParallelText, sifter: PairSifter) -> Iterator[KeptPairs]:
    """Tokenize and filter a text, and yield the remaining pairs of each chunk in order."""
    with progress_bar(text) as progress:
        for chunk in chunks(text, sifter.filters):
            yield sifter.sift(chunk)
            progress.update(len(chunk.sources))


def chunks(text: ParallelText, filters: PairFilters) -> Iterator[Chunk]:
    """Yield the pairs of a text in chunks, in order."""
    pairs, numbers, seen = iter(text), iter(text.line_numbers()), SeenHashes()
    while chunk := list(islice(pairs, CHUNK_PAIRS)):
        sources, targets = zip(*chunk, strict=True)
        own = np.fromiter(islice(numbers, len(chunk)), "int64", len(chunk))
        repeated = seen.add(pair_hashes(sources, targets)) if filters.duplicates else None
        yield Chunk(own, list(sources), list(targets), repeated)


def progress_bar(text: ParallelText) -> tqdm.tqdm:
    """Return a progress bar for the pairs of a text, on stderr if stderr is a terminal."""
    what, is_off = f"Tokenizing {text.name}", is_quiet() or None
    return tqdm.tqdm(total=text.num_pairs, desc=what, unit=" pairs", disable=is_off)


_CONTENT_VERSION = 2  # increment this when the same text yields different pairs


# Yields the remaining pairs of each chunk of a text, in order.
SiftPairs: TypeAlias = Callable[[ParallelText, PairSifter], Iterator[KeptPairs]]


def prepare_corpus(
    text: ParallelText,
    tokenizer: CorpusTokenizer,
    cache_directory: PathLike,
    *,
    source_tokenizer: CorpusTokenizer | None = None,
    filters: PairFilters | None = None,
    keep_text: bool = False,
    sift: SiftPairs = sift,
) -> ParallelCorpus:
    """Tokenize sentence pairs into memory-mapped arrays, or open the arrays from an earlier call.

    The text is streamed, so it may be larger than memory. The arrays are stored in a subfolder of
    `cache_directory`, named after a hash of the text, the tokenizers and the other arguments. The
    subfolder gets its final name only when it is complete. A process that is killed leaves behind
    a folder with `.partial-` in its name, which is never read and is removed when the same corpus
    is prepared again. If several processes need the same corpus, even on different machines with a
    shared folder, one process prepares it and the others wait. The numbers of dropped pairs are
    printed to stderr.

    Args:
        text: the sentence pairs, such as `SentencePairs`, `ParallelFiles` or `TfdsPairs`.
        tokenizer: target tokenizer with `encode`, `fingerprint` and `vocabulary_size`.
        cache_directory: folder for prepared corpora; created if missing.
        source_tokenizer: source tokenizer; defaults to `tokenizer`.
        filters: filters that drop pairs; by default, only pairs with an empty side are dropped.
        keep_text: whether to also store the sentences; required for subword sampling.
        sift: function that tokenizes and filters the pairs; by default, this runs in the current
            process. Use a `cluster.RaySifter` to run it on a cluster.

    Returns:
        The prepared corpus.

    Raises:
        UserInputError: the text cannot be read, or all pairs are dropped.
        ValueError: `text` is not a `ParallelText`, or `keep_text` is not True or False.
    """
    check_bool("keep_text", keep_text)
    if not isinstance(text, ParallelText):
        raise ValueError(
            "`text` must be a ParallelText, such as SentencePairs(sources, targets). "
            f"Received: text of type {type(text).__name__}"
        )
    tokenizers = {"source": source_tokenizer or tokenizer, "target": tokenizer}
    check_special_tokens(tokenizer, tokenizers["source"])
    sifter = PairSifter(tokenizers, filters or PairFilters(), keep_text)
    cache_directory = pathlib.Path(cache_directory)
    known = _known_metadata(text, sifter)
    directory = cache_directory / f"{known['content']}-{FORMAT_VERSION}"
    if not directory.is_dir():
        cache_directory.mkdir(parents=True, exist_ok=True)
        _prepare_once(directory, text, sifter, sift, known)
    corpus = ParallelCorpus.open(directory, name=text.name, unit=text.unit)
    if any(corpus.metadata.get(key) != value for key, value in known.items()):
        raise UserInputError(
            f"The prepared corpus in {directory} belongs to a different text or tokenizer. "
            + advice(directory)
        )
    if sifter.filters != PairFilters() or any(corpus.dropped.values()):
        note(f"{text.name}: {corpus.report()}")
    return corpus


def check_special_tokens(tokenizer: object, source_tokenizer: object) -> None:
    """Require that the special tokens have the same ids in both vocabularies."""
    target, source = (
        getattr(side, "special_tokens", None) for side in (tokenizer, source_tokenizer)
    )
    if source != target:
        raise UserInputError(
            "`tokenizer` and `source_tokenizer` must agree on the ids of the special tokens. "
            f"Received: {target}, {source}"
        )


def _prepare_once(
    directory: pathlib.Path,
    text: ParallelText,
    sifter: PairSifter,
    sift: SiftPairs,
    known: dict[str, Any],
) -> None:
    """Write the corpus, or wait if another process is writing it."""
    say = functools.partial(note, f"{text.name}: waiting for another process that is preparing it")
    with file_lock(directory.with_name(f"{directory.name}.partial-lock"), say):
        if directory.is_dir():
            return
        with scratch_directory(directory.parent) as partial:
            with CorpusWriter(partial, directory) as writer:
                _write_pairs(writer, sift(text, sifter), text.name, known)
            if _content_key(text, sifter) != known["content"]:
                raise UserInputError(f"{text.name} changed while it was being read. Start again.")
            with writing(directory):
                for path in [*partial.iterdir(), partial]:
                    sync(path)
                os.rename(partial, directory)


def _write_pairs(
    writer: CorpusWriter, chunks: Iterator[KeptPairs], name: str, known: dict[str, Any]
) -> None:
    dropped: collections.Counter[Reason] = collections.Counter(dict.fromkeys(REASONS, 0))
    for kept in chunks:
        dropped.update(kept.dropped)
        if len(kept.numbers):
            writer.append(kept.numbers, kept.rows)
    if not writer.pairs:
        listing = drop_listing(dropped)
        raise UserInputError(
            f"No pair of {name} is left: {listing}"
            if listing
            else f"{name} contains no sentence pairs"
        )
    writer.finish(dropped=dropped, **known)


def _content_key(text: ParallelText, sifter: PairSifter) -> str:
    content = {
        "format_version": _CONTENT_VERSION,
        "text": text.fingerprint(),
        "tokenizers": [sifter.tokenizers[side].fingerprint for side in SIDES],
        "filters": dataclasses.asdict(sifter.filters),
        "keep_text": sifter.keep_text,
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _known_metadata(text: ParallelText, sifter: PairSifter) -> dict[str, Any]:
    """Return the metadata of a corpus that is determined by the arguments."""
    known: dict[str, Any] = {"content": _content_key(text, sifter)}
    for prefix, side in (("", "target"), ("source_", "source")):
        known[f"{prefix}vocabulary_size"] = sifter.tokenizers[side].vocabulary_size
        known[f"{prefix}tokenizer_fingerprint"] = sifter.tokenizers[side].fingerprint
    return known
