"""Tokenized parallel corpora on disk: a writer and a memory-mapped reader."""

import contextlib
import dataclasses
import functools
import hashlib
import itertools
import json
import pathlib
from collections.abc import Iterable, Mapping, Sequence, Sized
from typing import Annotated, Any, BinaryIO, Literal, NamedTuple, Self

import msgspec
import numpy as np
from numpy.typing import NDArray

from keras_transformer.data.pair_filters import REASONS, Reason
from keras_transformer.errors import UserInputError
from keras_transformer.files import writing
from keras_transformer.input_files import open_ordinary, read_json, to_record
from keras_transformer.types import PathLike

_FormatVersion = Literal[3]
FORMAT_VERSION: _FormatVersion = 3  # version of the file format
METADATA_FILE = "corpus.json"
ID_TYPE = np.dtype("<i4")
OFFSET_TYPE = np.dtype("<i8")
TEXT_TYPE = np.dtype("u1")
SIDES = ("source", "target")
_BLOCK_BYTES = 1 << 20
_Count = Annotated[int, msgspec.Meta(ge=0)]
_Array = NDArray[np.integer]


class _Record(msgspec.Struct):
    """Required metadata fields of a corpus."""

    format_version: _FormatVersion
    pairs: _Count
    keep_text: bool
    vocabulary_size: _Count
    source_vocabulary_size: _Count
    dropped: dict[Reason, _Count]
    content: str
    checksums: dict[str, str]


@dataclasses.dataclass(eq=False, repr=False)
class ParallelCorpus:
    """Token ids of sentence pairs in memory-mapped arrays.

    Each side has one array of ids; sentence `i` is `ids[offsets[i]:offsets[i + 1]]`. Use
    `prepare_corpus` to create a corpus.

    Args:
        source_ids: int32 array `(source tokens,)`.
        source_offsets: int64 array `(pairs + 1,)`.
        target_ids: int32 array `(target tokens,)`.
        target_offsets: int64 array `(pairs + 1,)`.
        line_numbers: int64 array `(pairs,)`: line number of each pair in the text, counted from 1.
        metadata: metadata of the corpus: `pairs`, `dropped` (number of pairs per reason),
            `source_tokens`, `target_tokens`, `tokenizer_fingerprint`, `vocabulary_size`,
            `source_tokenizer_fingerprint`, `source_vocabulary_size`, `format_version`, `content`
            (hash of the text and the options), `checksums` (SHA-256 hash of each file).
        texts: the UTF-8 sentences of each side: a uint8 array `(bytes,)` and an int64 array of
            offsets `(pairs + 1,)`; None without `keep_text`.
        name: name of the text in error messages; if None, messages use the corpus number.
        unit: what error messages call a pair.
    """

    source_ids: NDArray[np.integer]
    source_offsets: NDArray[np.integer]
    target_ids: NDArray[np.integer]
    target_offsets: NDArray[np.integer]
    line_numbers: NDArray[np.integer]
    metadata: Mapping[str, Any]
    texts: Mapping[str, tuple[NDArray[np.integer], NDArray[np.integer]]] | None = None
    name: str | None = None
    unit: str = "line"

    @classmethod
    def open(cls, directory: PathLike, *, name: str | None = None, unit: str = "line") -> Self:
        """Open a corpus written by `prepare_corpus`.

        All files are read once to verify their checksums. This takes about 0.3 s for 500,000
        pairs.

        Args:
            directory: the folder of the corpus.
            name: name of the text in error messages.
            unit: what error messages call a pair.

        Raises:
            UserInputError: the folder does not contain a corpus, or files are damaged.
        """
        directory = pathlib.Path(directory)
        path = directory / METADATA_FILE
        if not path.is_file():
            raise UserInputError(
                f"{directory} contains no prepared corpus: {METADATA_FILE} is missing"
            )
        metadata = read_json(path, advice(directory))
        record = to_record(path, metadata, _Record, advice(directory))
        try:
            sides, texts = [], {}
            sizes = record.source_vocabulary_size, record.vocabulary_size
            for side, size in zip(SIDES, sizes, strict=True):
                sides.append(_open_rows(directory, f"{side}_ids", ID_TYPE, record, below=size))
                if record.keep_text:
                    texts[side] = _open_rows(directory, f"{side}_text", TEXT_TYPE, record)
            line_numbers = _open_array(directory / "line_numbers.bin", OFFSET_TYPE, record)
            if len(line_numbers) != record.pairs:
                raise ValueError("line_numbers.bin has a different number of pairs")
        except (OSError, ValueError) as error:
            raise UserInputError(
                f"The prepared corpus in {directory} is damaged: {error}. {advice(directory)}"
            ) from error
        source, target = sides
        return cls(*source, *target, line_numbers, metadata, texts or None, name, unit)

    def __len__(self) -> int:
        return len(self.line_numbers)

    @property
    def source_lengths(self) -> NDArray[np.int64]:
        """Number of tokens in each source, `(pairs,)`, excluding EOS."""
        return np.diff(self.source_offsets)

    @property
    def target_lengths(self) -> NDArray[np.int64]:
        """Number of tokens in each target, `(pairs,)`, excluding BOS and EOS."""
        return np.diff(self.target_offsets)

    def source(self, index: int) -> NDArray[np.integer]:
        """Return the ids of a source sentence as an int32 array `(tokens,)`."""
        index = range(len(self))[index]
        return self.source_ids[self.source_offsets[index] : self.source_offsets[index + 1]]

    def target(self, index: int) -> NDArray[np.integer]:
        """Return the ids of a target sentence as an int32 array `(tokens,)`."""
        index = range(len(self))[index]
        return self.target_ids[self.target_offsets[index] : self.target_offsets[index + 1]]

    def source_text(self, indices: Sequence[int] | NDArray[np.integer]) -> list[str]:
        """Return the text of source sentences.

        Args:
            indices: indices of the sentences, counted from 0.

        Raises:
            ValueError: the corpus was prepared without `keep_text=True`.
        """
        return self._read_text("source", indices)

    def target_text(self, indices: Sequence[int] | NDArray[np.integer]) -> list[str]:
        """Return the text of target sentences; see `source_text`."""
        return self._read_text("target", indices)

    @property
    def dropped(self) -> dict[Reason, int]:
        """Number of pairs dropped by each filter."""
        return {**dict.fromkeys(REASONS, 0), **self.metadata.get("dropped", {})}

    @functools.cached_property
    def fingerprint(self) -> str:
        """A hash of the tokens and their order."""
        if "content" in self.metadata:
            return self.metadata["content"]
        digest = hashlib.sha256()
        for array in (self.source_ids, self.target_ids, self.source_offsets, self.target_offsets):
            digest.update(f" {array.dtype} {len(array)} ".encode())
            digest.update(np.ascontiguousarray(array).data)
        return digest.hexdigest()

    def report(self) -> str:
        """Return a sentence with the numbers of kept and dropped pairs."""
        kept = len(self)
        total = kept + sum(self.dropped.values())
        tokens = f"{len(self.source_ids):,} source and {len(self.target_ids):,} target tokens"
        if kept == total:
            return f"all {total:,} pairs kept, {tokens}"
        return f"{kept:,} of {total:,} pairs kept, {tokens}; dropped: {drop_listing(self.dropped)}"

    def _read_text(self, side: str, indices: Sequence[int] | NDArray[np.integer]) -> list[str]:
        if self.texts is None:
            raise ValueError(
                "The corpus contains no text: prepare it with `prepare_corpus(..., keep_text=True)`"
            )
        text, offsets = self.texts[side]
        indices = np.asarray(indices, dtype="int64")
        if np.any((indices < -len(self)) | (indices >= len(self))):
            raise IndexError(f"`indices` must be within {len(self):,} pairs. Received: {indices}")
        indices = indices % len(self)
        spans = zip(offsets[indices].tolist(), offsets[indices + 1].tolist(), strict=True)
        return [text[start:stop].tobytes().decode("utf-8") for start, stop in spans]


def drop_listing(dropped: Mapping[Reason, int]) -> str:
    """Return a summary of dropped pairs, such as `"2 with an empty side, 1 repeated"`."""
    return ", ".join(f"{number:,} {REASONS[key]}" for key, number in dropped.items() if number)


def advice(directory: PathLike) -> str:
    """Return instructions for repairing a damaged corpus."""
    return f"Delete {directory} to prepare it again."


def _open_rows(
    directory: pathlib.Path, name: str, dtype: np.dtype, record: _Record, below: int | None = None
) -> tuple[_Array, _Array]:
    """Open the values and the offsets of rows written by `CorpusWriter`."""
    values = _open_array(directory / f"{name}.bin", dtype, record, below)
    offsets = _open_array(directory / f"{name}_offsets.bin", OFFSET_TYPE, record)
    if (
        len(offsets) != record.pairs + 1
        or (offsets[0], offsets[-1]) != (0, len(values))
        or np.any(offsets[1:] < offsets[:-1])
    ):
        raise ValueError(f"{name}_offsets.bin does not fit {name}.bin")
    return values, offsets


def _open_array(
    path: pathlib.Path, dtype: np.dtype, record: _Record, below: int | None = None
) -> _Array:
    """Memory-map a file after verifying its checksum and, with `below`, its range of values."""
    with open_ordinary(path) as file:
        digest = hashlib.sha256()
        while block := file.read(_BLOCK_BYTES):  # mapped pages would stay in memory
            digest.update(block)
            if below is not None:
                values = np.frombuffer(block, dtype)
                if values.min() < 0 or values.max() >= below:
                    raise ValueError(f"{path.name} has ids beyond the vocabulary of {below}")
        if digest.hexdigest() != record.checksums.get(path.name):
            raise ValueError(f"{path.name} does not match its checksum")
        # A plain array view is faster to index than a `memmap`.
        return np.asarray(np.memmap(file, dtype=dtype, mode="r"))


class PackedRows(NamedTuple):
    """Rows as stored on disk: the concatenated bytes and the number of values in each row."""

    values: bytes
    lengths: NDArray[np.integer]

    @classmethod
    def of_ids(cls, rows: Sequence[list[int]]) -> Self:
        """Pack rows of token ids."""
        lengths = lengths_of(rows)
        ids = itertools.chain.from_iterable(rows)
        return cls(np.fromiter(ids, dtype=ID_TYPE, count=lengths.sum()).tobytes(), lengths)

    @classmethod
    def of_texts(cls, texts: Iterable[str]) -> Self:
        """Pack sentences as UTF-8."""
        rows = [text.encode("utf-8") for text in texts]
        return cls(b"".join(rows), lengths_of(rows))


def lengths_of(rows: Sequence[Sized]) -> NDArray[np.int64]:
    """Return the number of values in each row."""
    return np.fromiter(map(len, rows), "int64", len(rows))


class CorpusWriter(contextlib.ExitStack):
    """Context manager that writes pairs to an empty folder incrementally and closes the files.

    Error messages mention `place`, the final folder of the corpus.
    """

    def __init__(self, directory: pathlib.Path, place: pathlib.Path) -> None:
        super().__init__()
        self.pairs = 0
        self._directory = directory
        self._place = place
        self._files: dict[str, tuple[BinaryIO, hashlib._Hash]] = {}
        self._stops: dict[str, int] = {}  # number of values written so far, by name of the rows

    def __exit__(self, *details: Any) -> bool | None:
        with writing(self._place):  # closing a file writes to it
            return super().__exit__(*details)

    def append(self, line_numbers: _Array, rows: Mapping[str, PackedRows]) -> None:
        """Write the line numbers of the next pairs and their rows (ids and sentences) by name."""
        with writing(self._place):
            for name, (values, lengths) in rows.items():
                self._write(f"{name}.bin", values)
                if name not in self._stops:
                    self._write(f"{name}_offsets.bin", bytes(OFFSET_TYPE.itemsize))
                stops = self._stops.get(name, 0) + np.cumsum(lengths)
                self._write(f"{name}_offsets.bin", stops.astype(OFFSET_TYPE).tobytes())
                self._stops[name] = int(stops[-1])
            self._write("line_numbers.bin", line_numbers.astype(OFFSET_TYPE).tobytes())
        self.pairs += len(line_numbers)

    def finish(self, **metadata: object) -> None:
        """Write the metadata of the corpus after all pairs are written."""
        metadata = {
            "format_version": FORMAT_VERSION,
            "pairs": self.pairs,
            **{f"{side}_tokens": self._stops[f"{side}_ids"] for side in SIDES},
            "keep_text": "source_text" in self._stops,
            "checksums": {name: digest.hexdigest() for name, (_, digest) in self._files.items()},
            **metadata,
        }
        with writing(self._place):
            path = self._directory / METADATA_FILE
            path.write_text(json.dumps(metadata, indent=2) + "\n", encoding="utf-8")

    def _write(self, name: str, data: bytes) -> None:
        if name not in self._files:
            opened = open(self._directory / name, "wb")  # noqa: SIM115 - closed with the context
            self._files[name] = self.enter_context(opened), hashlib.sha256()
        file, digest = self._files[name]
        digest.update(data)
        file.write(data)
