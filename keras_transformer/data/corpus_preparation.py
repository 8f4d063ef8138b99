"""Tokenizing parallel text once: later runs open the files of the first."""

import dataclasses
import functools
import hashlib
import itertools
import json
import os
import pathlib
import shutil
import sys
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol, TypeVar

import numpy as np
import tqdm
from numpy.typing import NDArray

from keras_transformer.data.corpus_writer import CorpusWriter
from keras_transformer.data.pair_filters import PairFilters, PairSieve
from keras_transformer.data.parallel_corpus import (
    FORMAT_VERSION,
    ParallelCorpus,
    advice,
    drop_listing,
)
from keras_transformer.data.parallel_text import ParallelText
from keras_transformer.errors import UserInputError
from keras_transformer.files.file_lock import file_lock
from keras_transformer.files.whole_files import writing
from keras_transformer.types import PathLike

_CHUNK_PAIRS = 10_000
_CONTENT_VERSION = 2  # to be raised when the same text gives other pairs

_T = TypeVar("_T")
_Rows = dict[str, list[_T]]  # of both sides


class CorpusTokenizer(Protocol):
    """A tokenizer for `prepare_corpus`, such as a `SentencePieceTokenizer`."""

    @property
    def fingerprint(self) -> str: ...

    @property
    def vocabulary_size(self) -> int: ...

    def encode(self, sentences: list[str], /) -> list[list[int]]: ...


def prepare_corpus(
    text: ParallelText,
    tokenizer: CorpusTokenizer,
    cache_directory: PathLike,
    *,
    source_tokenizer: CorpusTokenizer | None = None,
    filters: PairFilters | None = None,
    keep_text: bool = False,
) -> ParallelCorpus:
    """Tokenize sentence pairs into memory-mapped arrays, or open those of an earlier call.

    The text is read as a stream, so it may be larger than memory. The arrays are in a folder of
    `cache_directory` named after a hash of the text, the tokenizers and the other arguments. The
    folder gets its name only when it is complete: a killed process leaves one with `.partial-` in
    its name, which is never read and is removed when the same corpus is prepared again. Of several
    processes, also on machines that share the folder, one prepares it and the others wait. The
    numbers of dropped pairs are printed to stderr.

    Args:
        text: the sentence pairs, such as `SentencePairs`, `ParallelFiles` or `TfdsPairs`.
        tokenizer: tokenizer of the targets, with `encode`, `fingerprint` and `vocabulary_size`.
        cache_directory: folder of the prepared corpora; made if missing.
        source_tokenizer: tokenizer of the sources; defaults to `tokenizer`.
        filters: which pairs to drop; by default only those with an empty side.
        keep_text: whether to keep the sentences too, as subword sampling needs.

    Returns:
        The prepared corpus.

    Raises:
        UserInputError: the text cannot be read, or all its pairs are dropped.
        ValueError: `text` is not a `ParallelText`.
    """
    if not isinstance(text, ParallelText):
        raise ValueError(
            "`text` must be a ParallelText, such as SentencePairs(sources, targets). "
            f"Received: text of type {type(text).__name__}"
        )
    filters = filters or PairFilters()
    tokenizers = {"source": source_tokenizer or tokenizer, "target": tokenizer}
    special_tokens = [getattr(side, "special_tokens", None) for side in tokenizers.values()]
    if special_tokens[0] != special_tokens[1]:
        raise UserInputError(
            "`tokenizer` and `source_tokenizer` must agree on the ids of the special tokens. "
            f"Received: {special_tokens[1]}, {special_tokens[0]}"
        )
    cache_directory = pathlib.Path(cache_directory)
    content = _content_key(text, tokenizers, filters, keep_text)
    directory = cache_directory / f"{content}-{FORMAT_VERSION}"
    known = _known_metadata(content, tokenizers)
    if not directory.is_dir():
        cache_directory.mkdir(parents=True, exist_ok=True)
        write = functools.partial(_write_corpus, text, tokenizers, filters, keep_text, known)
        _prepare_once(directory, text.name, write)
    corpus = ParallelCorpus.open(directory, name=text.name, unit=text.unit)
    if any(corpus.metadata.get(key) != value for key, value in known.items()):
        raise UserInputError(
            f"The prepared corpus in {directory} is of another text or tokenizer. "
            + advice(directory)
        )
    if filters != PairFilters() or any(corpus.dropped.values()):
        print(f"{text.name}: {corpus.report()}", file=sys.stderr)
    return corpus


def _prepare_once(
    directory: pathlib.Path, name: str, write: Callable[[pathlib.Path], None]
) -> None:
    """Write the corpus, or wait while another process does."""

    def say() -> None:
        print(f"{name}: waiting for another process that prepares it", file=sys.stderr)

    partial = directory.with_name(f"{directory.name}.partial-{uuid.uuid4().hex[:8]}")
    with file_lock(directory.with_name(f"{directory.name}.partial-lock"), say) as locked:
        if directory.is_dir():
            return
        if locked:
            # Left by killed processes, since the lock keeps others out.
            for left in directory.parent.glob(f"{directory.name}.partial-*/"):
                shutil.rmtree(left, ignore_errors=True)
        partial.mkdir()
        try:
            write(partial)
            _publish(partial, directory)
        except OSError as error:
            if error.filename is not None:  # e.g. a file of the text
                raise
            with writing(directory):
                raise
        finally:
            shutil.rmtree(partial, ignore_errors=True)


def _content_key(
    text: ParallelText,
    tokenizers: Mapping[str, CorpusTokenizer],
    filters: PairFilters,
    keep_text: bool,
) -> str:
    content = {
        "format_version": _CONTENT_VERSION,
        "text": text.fingerprint(),
        "tokenizers": [tokenizers[side].fingerprint for side in ("source", "target")],
        "filters": dataclasses.asdict(filters),
        "keep_text": keep_text,
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _known_metadata(content: str, tokenizers: Mapping[str, CorpusTokenizer]) -> dict[str, Any]:
    """The part of a corpus's metadata that follows from the arguments."""
    return {
        "content": content,
        "vocabulary_size": tokenizers["target"].vocabulary_size,
        "tokenizer_fingerprint": tokenizers["target"].fingerprint,
        "source_vocabulary_size": tokenizers["source"].vocabulary_size,
        "source_tokenizer_fingerprint": tokenizers["source"].fingerprint,
    }


def _write_corpus(
    text: ParallelText,
    tokenizers: Mapping[str, CorpusTokenizer],
    filters: PairFilters,
    keep_text: bool,
    known: dict[str, Any],
    directory: pathlib.Path,
) -> None:
    sieve = PairSieve(filters)
    with CorpusWriter(directory, keep_text) as writer:
        for numbers, texts in _chunks(text):
            ids = {side: tokenizers[side].encode(texts[side]) for side in texts}
            lengths = [np.fromiter(map(len, ids[side]), "int64", len(numbers)) for side in ids]
            keep = sieve.keep(texts["source"], texts["target"], *lengths)
            if keep.any():
                writer.append(numbers[keep], _select(ids, keep), _select(texts, keep))
        if not writer.pairs:
            dropped = drop_listing(sieve.dropped)
            raise UserInputError(
                f"No pair of {text.name} is left: {dropped}"
                if dropped
                else f"{text.name} holds no sentence pairs"
            )
        writer.finish(dropped=sieve.dropped, **known)


def _chunks(text: ParallelText) -> Iterator[tuple[NDArray[np.integer], _Rows[str]]]:
    """Yield the numbers of the next pairs, from 1, and their sentences by side."""
    pairs = iter(text)
    start = 1
    with tqdm.tqdm(
        total=text.num_pairs, desc=f"Tokenizing {text.name}", unit=" pairs", disable=None
    ) as progress:
        while chunk := list(itertools.islice(pairs, _CHUNK_PAIRS)):
            sources, targets = zip(*chunk, strict=True)
            numbers = np.arange(start, start + len(chunk))
            yield numbers, {"source": list(sources), "target": list(targets)}
            start += len(chunk)
            progress.update(len(chunk))


def _select(rows: _Rows[_T], keep: NDArray[np.bool_]) -> _Rows[_T]:
    return {side: list(itertools.compress(rows[side], keep)) for side in rows}


def _publish(partial: pathlib.Path, directory: pathlib.Path) -> None:
    """Give the whole corpus its name; without locks another process may have been faster."""
    try:
        os.rename(partial, directory)
    except OSError:
        if not directory.is_dir():
            raise
