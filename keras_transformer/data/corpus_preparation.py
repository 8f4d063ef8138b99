"""Tokenizing parallel text once: later runs open the files of the first run."""

import collections
import dataclasses
import hashlib
import json
import os
import pathlib
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from keras_transformer.argument_checks import check_bool
from keras_transformer.data.corpus_writer import CorpusWriter
from keras_transformer.data.pair_filters import REASONS, PairFilters, Reason
from keras_transformer.data.pair_sifting import CorpusTokenizer, KeptPairs, PairSifter, sift
from keras_transformer.data.parallel_corpus import (
    FORMAT_VERSION,
    SIDES,
    ParallelCorpus,
    advice,
    drop_listing,
)
from keras_transformer.data.parallel_text import ParallelText
from keras_transformer.errors import CannotWrite, UserInputError
from keras_transformer.files.file_lock import file_lock
from keras_transformer.files.standard_streams import note
from keras_transformer.files.whole_directories import scratch_directory
from keras_transformer.files.whole_files import sync, writing
from keras_transformer.types import PathLike

_CONTENT_VERSION = 2  # increment when the same text gives different pairs


class SiftPairs(Protocol):
    """Yields what is left of a text, in order."""

    def __call__(self, text: ParallelText, sifter: PairSifter, /) -> Iterator[KeptPairs]: ...


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
    """Tokenize sentence pairs into memory-mapped arrays, or open the arrays of an earlier call.

    The text is read as a stream, so it may be larger than memory. The arrays are in a folder of
    `cache_directory` named after a hash of the text, the tokenizers and the other arguments. The
    folder gets its name only when it is complete. A killed process leaves a folder with `.partial-`
    in its name, which is never read; it is removed when the same corpus is prepared again. If
    several processes prepare the same corpus, even on different machines that share the folder, one
    prepares it and the others wait. The numbers of dropped pairs are printed to stderr.

    Args:
        text: the sentence pairs, such as `SentencePairs`, `ParallelFiles` or `TfdsPairs`.
        tokenizer: tokenizer of the targets, with `encode`, `fingerprint` and `vocabulary_size`.
        cache_directory: folder for prepared corpora; created if missing.
        source_tokenizer: tokenizer of the sources; defaults to `tokenizer`.
        filters: which pairs to drop; by default only pairs with an empty side.
        keep_text: whether to also keep the sentences, which subword sampling needs.
        sift: tokenizes and filters the pairs; by default in this process. A `cluster.RaySifter`
            uses a cluster.

    Returns:
        The prepared corpus.

    Raises:
        UserInputError: the text cannot be read, or all its pairs are dropped.
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
    content = _content_key(text, sifter)
    directory = cache_directory / f"{content}-{FORMAT_VERSION}"
    known = _known_metadata(content, sifter)
    if not directory.is_dir():
        cache_directory.mkdir(parents=True, exist_ok=True)

        def write(partial: pathlib.Path) -> None:
            _write_corpus(text, sifter, sift, known, partial)
            if _content_key(text, sifter) != content:
                raise UserInputError(f"{text.name} changed while it was read. Start again.")

        _prepare_once(directory, text.name, write)
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
    directory: pathlib.Path, name: str, write: Callable[[pathlib.Path], None]
) -> None:
    """Write the corpus, or wait while another process does."""

    def say() -> None:
        note(f"{name}: waiting for another process that prepares it")

    with file_lock(directory.with_name(f"{directory.name}.partial-lock"), say):
        if directory.is_dir():
            return
        with scratch_directory(directory.parent) as partial:
            try:
                write(partial)
            except CannotWrite as error:  # names the partial folder, about to be removed
                message = str(error).replace(str(partial), str(directory))
                raise CannotWrite(message) from error
            with writing(directory):
                for path in [*partial.iterdir(), partial]:
                    sync(path)
                os.rename(partial, directory)


def _content_key(text: ParallelText, sifter: PairSifter) -> str:
    content = {
        "format_version": _CONTENT_VERSION,
        "text": text.fingerprint(),
        "tokenizers": [sifter.tokenizers[side].fingerprint for side in SIDES],
        "filters": dataclasses.asdict(sifter.filters),
        "keep_text": sifter.keep_text,
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _known_metadata(content: str, sifter: PairSifter) -> dict[str, Any]:
    """The part of a corpus's metadata that follows from the arguments."""
    known: dict[str, Any] = {"content": content}
    for prefix, side in (("", "target"), ("source_", "source")):
        known[f"{prefix}vocabulary_size"] = sifter.tokenizers[side].vocabulary_size
        known[f"{prefix}tokenizer_fingerprint"] = sifter.tokenizers[side].fingerprint
    return known


def _write_corpus(
    text: ParallelText,
    sifter: PairSifter,
    sift: SiftPairs,
    known: dict[str, Any],
    directory: pathlib.Path,
) -> None:
    dropped: collections.Counter[Reason] = collections.Counter()
    with writing(directory):
        writer = CorpusWriter(directory, sifter.keep_text)
    with writer:
        for kept in sift(text, sifter):
            dropped.update(kept.dropped)
            if len(kept.numbers):
                with writing(directory):
                    writer.append(kept.numbers, kept.ids, kept.texts)
        counts = {reason: dropped[reason] for reason in REASONS}
        if not writer.pairs:
            listing = drop_listing(counts)
            raise UserInputError(
                f"No pair of {text.name} is left: {listing}"
                if listing
                else f"{text.name} holds no sentence pairs"
            )
        with writing(directory):
            writer.finish(dropped=counts, **known)
            writer.close()
