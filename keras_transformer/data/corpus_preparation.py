"""Tokenize parallel text once: the second run opens what the first one wrote."""

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

from keras_transformer.data.parallel_corpus import (
    FORMAT_VERSION,
    ID_TYPE,
    METADATA_FILE,
    SIDES,
    ParallelCorpus,
)
from keras_transformer.errors import UserInputError

_CHUNK_PAIRS = 10_000


def prepare_corpus(sources, targets, tokenizer, cache_directory):
    """Tokenize sentence pairs into memory-mapped arrays, or open them if that was done before.

    The arrays lie in a folder of `cache_directory` named after the content of the text and of the
    tokenizer. It gets its name only when it is whole: what a killed process leaves behind has
    `.partial-` in its name, is never read, and may be deleted. A pair with an empty side teaches
    nothing and is left out, with the number said on stderr.

    Args:
        sources: sequence of source sentences.
        targets: sequence of target sentences, as many.
        tokenizer: has `encode`, `fingerprint` and `vocabulary_size`.
        cache_directory: where prepared corpora are kept; made if missing.

    Returns:
        A `ParallelCorpus`.

    Raises:
        UserInputError: the sequences differ in length, or no pair has text on both sides.
    """
    if len(sources) != len(targets):
        raise UserInputError(
            f"`sources` and `targets` must have the same length. "
            f"Received: {len(sources)} sources and {len(targets)} targets"
        )
    cache_directory = pathlib.Path(cache_directory)
    directory = cache_directory / _content_key(sources, targets, tokenizer)
    if not directory.is_dir():
        partial = cache_directory / f"{directory.name}.partial-{uuid.uuid4().hex[:8]}"
        partial.mkdir(parents=True)
        try:
            _write_corpus(sources, targets, tokenizer, partial)
            _publish(partial, directory)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    corpus = ParallelCorpus.open(directory)
    dropped = corpus.metadata["dropped_pairs"]
    if dropped:
        print(f"Left out {dropped} of {len(sources)} pairs: a side is empty", file=sys.stderr)
    return corpus


def _content_key(sources, targets, tokenizer):
    digest = hashlib.sha256(f"{FORMAT_VERSION} {tokenizer.fingerprint}".encode())
    for sentences in (sources, targets):
        digest.update(f" {len(sentences)} ".encode())
        for sentence in sentences:
            line = sentence.encode("utf-8")
            digest.update(b"%d " % len(line))
            digest.update(line)
    return digest.hexdigest()


def _write_corpus(sources, targets, tokenizer, directory):
    lengths = {side: [] for side in SIDES}
    line_numbers = []
    with (
        open(directory / "source_ids.bin", "wb") as source_file,
        open(directory / "target_ids.bin", "wb") as target_file,
    ):
        for numbers, source_ids, target_ids in _encode_in_chunks(sources, targets, tokenizer):
            line_numbers += numbers
            _append(source_file, lengths["source"], source_ids)
            _append(target_file, lengths["target"], target_ids)
    if not line_numbers:
        raise UserInputError(f"None of the {len(sources)} pairs has text on both sides")
    for side in SIDES:
        offsets = np.concatenate([[0], np.cumsum(lengths[side], dtype="int64")])
        np.save(directory / f"{side}_offsets.npy", offsets)
    np.save(directory / "line_numbers.npy", np.asarray(line_numbers, dtype="int64"))
    metadata = {
        "format_version": FORMAT_VERSION,
        "pairs": len(line_numbers),
        "dropped_pairs": len(sources) - len(line_numbers),
        "source_tokens": sum(lengths["source"]),
        "target_tokens": sum(lengths["target"]),
        "vocabulary_size": tokenizer.vocabulary_size,
        "tokenizer_fingerprint": tokenizer.fingerprint,
    }
    (directory / METADATA_FILE).write_text(json.dumps(metadata, indent=2) + "\n", encoding="utf-8")


def _encode_in_chunks(sources, targets, tokenizer):
    """Yield line numbers, source ids and target ids of the pairs with tokens on both sides."""
    with tqdm.tqdm(total=len(sources), desc="Tokenizing", unit=" pairs", disable=None) as progress:
        for start in range(0, len(sources), _CHUNK_PAIRS):
            chunk = slice(start, start + _CHUNK_PAIRS)
            source_ids = tokenizer.encode(sources[chunk])
            target_ids = tokenizer.encode(targets[chunk])
            numbers = range(start + 1, start + 1 + len(source_ids))
            pairs = zip(numbers, source_ids, target_ids, strict=True)
            kept = [pair for pair in pairs if pair[1] and pair[2]]
            if kept:
                yield tuple(zip(*kept, strict=True))
            progress.update(len(source_ids))


def _append(file, lengths, sentences):
    lengths += map(len, sentences)
    tokens = sum(map(len, sentences))
    ids = np.fromiter(itertools.chain.from_iterable(sentences), dtype=ID_TYPE, count=tokens)
    file.write(ids.tobytes())


def _publish(partial, directory):
    """Give the whole corpus its name; a process that was faster has written the same one."""
    try:
        os.rename(partial, directory)
    except OSError:
        if not directory.is_dir():
            raise
