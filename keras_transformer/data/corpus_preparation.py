"""Tokenize parallel text once: the second run opens what the first one wrote."""

import dataclasses
import hashlib
import itertools
import json
import os
import pathlib
import shutil
import sys
import uuid

import numpy as np
import tqdm

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

_CHUNK_PAIRS = 10_000
_CONTENT_VERSION = 2  # of what becomes of a text: with another one, other pairs


def prepare_corpus(
    text, tokenizer, cache_directory, *, source_tokenizer=None, filters=None, keep_text=False
):
    """Tokenize sentence pairs into memory-mapped arrays, or open them if that was done before.

    The text is read as a stream: it may be larger than memory. The arrays lie in a folder of
    `cache_directory` named after the content of the text, the tokenizers and the other arguments.
    It gets its name only when it is whole: what a killed process leaves behind has `.partial-` in
    its name, is never read, and is removed when the same corpus is prepared again. Of several
    processes, on machines that share the folder too, one prepares and the others wait and open it.
    What the filters dropped is said on stderr.

    Args:
        text: a `ParallelText`, such as `SentencePairs`, `ParallelFiles` or `TfdsPairs`.
        tokenizer: has `encode`, `fingerprint` and `vocabulary_size`; it cuts the targets.
        cache_directory: where prepared corpora are kept; made if missing.
        source_tokenizer: cuts the sources. None: `tokenizer`.
        filters: `PairFilters`. None: only pairs with an empty side are dropped.
        keep_text: whether the sentences are kept besides their ids, as subword sampling needs.

    Returns:
        A `ParallelCorpus`.

    Raises:
        UserInputError: the text cannot be read, or no pair of it is left.
        ValueError: `text` is no `ParallelText`.
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
        _prepare_once(directory, text, tokenizers, filters, keep_text, known)
    corpus = ParallelCorpus.open(directory, name=text.name, unit=text.unit)
    if any(corpus.metadata.get(key) != value for key, value in known.items()):
        raise UserInputError(
            f"The prepared corpus in {directory} is of another text or tokenizer. "
            + advice(directory)
        )
    if filters != PairFilters() or any(corpus.dropped.values()):
        print(f"{text.name}: {corpus.report()}", file=sys.stderr)
    return corpus


def _prepare_once(directory, text, *arguments):
    """Write the corpus, or wait until another process has: only one of them works."""

    def say():
        print(f"{text.name}: waiting for another process that prepares it", file=sys.stderr)

    partial = directory.with_name(f"{directory.name}.partial-{uuid.uuid4().hex[:8]}")
    with file_lock(directory.with_name(f"{directory.name}.partial-lock"), say) as locked:
        if directory.is_dir():
            return
        if locked:
            # What killed processes left: nobody else is at work.
            for left in directory.parent.glob(f"{directory.name}.partial-*/"):
                shutil.rmtree(left, ignore_errors=True)
        partial.mkdir()
        try:
            _write_corpus(text, *arguments, partial)
            _publish(partial, directory)
        except OSError as error:
            if error.filename is not None:  # such as that of a text
                raise
            with writing(directory):
                raise
        finally:
            shutil.rmtree(partial, ignore_errors=True)


def _content_key(text, tokenizers, filters, keep_text):
    content = {
        "format_version": _CONTENT_VERSION,
        "text": text.fingerprint(),
        "tokenizers": [tokenizers[side].fingerprint for side in ("source", "target")],
        "filters": dataclasses.asdict(filters),
        "keep_text": keep_text,
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _known_metadata(content, tokenizers):
    """What the metadata of the corpus must say of where it is from."""
    return {
        "content": content,
        "vocabulary_size": tokenizers["target"].vocabulary_size,
        "tokenizer_fingerprint": tokenizers["target"].fingerprint,
        "source_vocabulary_size": tokenizers["source"].vocabulary_size,
        "source_tokenizer_fingerprint": tokenizers["source"].fingerprint,
    }


def _write_corpus(text, tokenizers, filters, keep_text, known, directory):
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


def _chunks(text):
    """Yield the numbers of the next pairs, from 1, and their sentences as two lists by side."""
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


def _select(rows, keep):
    """The rows of both sides that are kept."""
    return {side: list(itertools.compress(rows[side], keep)) for side in rows}


def _publish(partial, directory):
    """Give the whole corpus its name; without locks another process may have been faster."""
    try:
        os.rename(partial, directory)
    except OSError:
        if not directory.is_dir():
            raise
