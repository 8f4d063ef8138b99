"""Files of lexical shortlists, which may be hostile: this package's, and both of Marian's.

Marian's binary file has six little-endian numbers of 8 bytes: a mark, a checksum of all after it,
how many target ids every sentence has, how many a source token has at most, the number of offsets
and the number of translations; then the offsets (8 bytes each) and the translations (4 bytes).

Reference: `src/data/shortlist.cpp` of Marian and of Bergamot.
"""

import heapq
import os
from pathlib import Path
from typing import NamedTuple

import numpy as np

from keras_transformer.errors import UserInputError
from keras_transformer.files.array_archives import (
    DAMAGED,
    open_archive,
    read_array,
    read_record,
    write_archive,
)
from keras_transformer.files.input_files import open_ordinary
from keras_transformer.files.whole_files import BeforeRename, whole_file
from keras_transformer.text.sentencepiece_tokenizer import SentencePieceTokenizer
from keras_transformer.text.text_lines import text_lines
from keras_transformer.types import PathLike

_MARK = 0xF11A48D5013417F5.to_bytes(8, "little")
_ARCHIVE = b"PK"
_HEADER = 48  # bytes
_MOST_BYTES = 1 << 30
_NO_PIECE = "NULL"  # of Marian's texts
_ARRAYS = {"offsets": "<i8", "translations": "<i4", "always": "<i4"}


class ShortlistArrays(NamedTuple):
    """The arrays of a `Shortlist`, as it documents them."""

    offsets: np.ndarray
    translations: np.ndarray
    always: np.ndarray


def write_shortlist(
    path: PathLike, arrays: ShortlistArrays, before_rename: BeforeRename | None = None
) -> None:
    """Write this package's file, as `whole_file` does."""
    with whole_file(path, before_rename) as file:
        record = {name: len(array) for name, array in arrays._asdict().items()}
        parts = ((name, getattr(arrays, name).astype(kind)) for name, kind in _ARRAYS.items())
        write_archive(file, record, parts)


def read_shortlist(
    path: PathLike,
    source_tokenizer: SentencePieceTokenizer,
    tokenizer: SentencePieceTokenizer,
    first: int,
    best: int,
) -> ShortlistArrays:
    """Read a file of any kind; the arguments are those of `Shortlist.load`.

    Raises:
        UserInputError: the file cannot be read or is damaged.
    """
    try:
        with open_ordinary(path) as file:
            begin = file.read(len(_MARK))
        if begin == _MARK:
            return _read_binary(path, tokenizer.vocabulary_size)
        if begin.startswith(_ARCHIVE):
            return _read_archive(path)
    except UserInputError:
        raise
    except DAMAGED as error:
        raise UserInputError(
            f"{path} is not a shortlist, or it is damaged: {str(error)[:200]}"
        ) from error
    if Path(path).suffix == ".bin":
        raise UserInputError(f"{path} is not a Marian shortlist, or it is damaged.")
    return _read_text(path, source_tokenizer, tokenizer, first, best)


def _read_archive(path: PathLike) -> ShortlistArrays:
    with open_archive(path) as archive:
        record = read_record(archive, path)
        size = os.path.getsize(path)
        arrays = []
        for name, kind in _ARRAYS.items():
            length = record[name] if isinstance(record, dict) else None
            if not isinstance(length, int) or not 0 <= length <= size:
                raise ValueError(f"{name} has the length {length!r}"[:100])
            array = read_array(archive, name, [length], np.dtype(kind).itemsize)
            if array.dtype != np.dtype(kind):
                raise ValueError(f"{name} has the type {array.dtype}")
            arrays.append(array)
    return ShortlistArrays(*arrays)


def _read_binary(path: PathLike, vocabulary_size: int) -> ShortlistArrays:
    with open_ordinary(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > _MOST_BYTES:
            raise ValueError(f"it has more than {_MOST_BYTES:,} bytes")
        content = file.read(size)
    if len(content) < _HEADER:
        raise EOFError("it ends early")
    header = [int.from_bytes(content[i : i + 8], "little") for i in range(0, _HEADER, 8)]
    _, expected, first, _, num_offsets, length = header
    if _HEADER + 8 * num_offsets + 4 * length != len(content):
        raise ValueError(f"{num_offsets:,} offsets and {length:,} ids do not make up its size")
    if _checksum(content[16:]) != expected:
        raise ValueError("its checksum is wrong")
    offsets = np.frombuffer(content, "<u8", num_offsets, _HEADER)
    translations = np.frombuffer(content, "<u4", length, _HEADER + 8 * num_offsets)
    if max(offsets.max(initial=0), translations.max(initial=0)) >= 1 << 31:
        raise ValueError("an offset or an id is too large")
    always = np.arange(min(first, vocabulary_size))
    return ShortlistArrays(offsets.astype("int64"), translations.astype("int32"), always)


def _checksum(content: bytes) -> int:
    """Boost's combination of hashes over the whole words of 8 bytes."""
    seed, most = 0, (1 << 64) - 1
    for word in np.frombuffer(content, "<u8", len(content) // 8).tolist():
        seed ^= (word + 0x9E3779B9 + (seed << 6) + (seed >> 2)) & most
    return seed


def _read_text(
    path: PathLike,
    source_tokenizer: SentencePieceTokenizer,
    tokenizer: SentencePieceTokenizer,
    first: int,
    best: int,
) -> ShortlistArrays:
    source_ids, target_ids = (
        {piece: i for i, piece in enumerate(side.pieces(range(side.vocabulary_size)))}
        for side in (source_tokenizer, tokenizer)
    )
    unknown, source_unknown = tokenizer.special_tokens.unk, source_tokenizer.special_tokens.unk
    found: list[dict[int, float]] = [{} for _ in range(source_tokenizer.vocabulary_size)]
    for number, line in enumerate(text_lines(path), start=1):
        try:
            target, source, text = line.split(" ")
            probability = float(text)
        except ValueError as error:
            raise UserInputError(
                f"{path}, line {number} must be a target piece, a source piece and a probability. "
                f"Received: {line[:100]!r}"
            ) from error
        if _NO_PIECE not in (source, target):
            of_source = found[source_ids.get(source, source_unknown)]
            token = target_ids.get(target, unknown)
            of_source[token] = max(probability, of_source.get(token, 0.0))
    rows = [
        sorted(token for _, token in heapq.nlargest(best, ((p, t) for t, p in row.items())))
        for row in found
    ]
    offsets = np.cumsum([0, *map(len, rows)])
    translations = np.array([token for row in rows for token in row], "int32")
    return ShortlistArrays(offsets, translations, np.arange(min(first, len(target_ids))))
