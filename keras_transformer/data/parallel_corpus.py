"""A tokenized parallel corpus on disk, read through memory maps."""

import functools
import hashlib
import pathlib
from typing import Annotated, Literal

import msgspec
import numpy as np

from keras_transformer.data.pair_filters import REASONS
from keras_transformer.errors import UserInputError
from keras_transformer.files.json_files import read_json, to_record
from keras_transformer.files.ordinary_files import open_ordinary

FORMAT_VERSION = 3  # of the files
METADATA_FILE = "corpus.json"
ID_TYPE = np.dtype("<i4")
OFFSET_TYPE = np.dtype("<i8")
TEXT_TYPE = np.dtype("u1")
SIDES = ("source", "target")
_BLOCK_BYTES = 1 << 20
_Count = Annotated[int, msgspec.Meta(ge=0)]


class _Record(msgspec.Struct):
    """What a corpus must say of itself."""

    format_version: Literal[FORMAT_VERSION]
    pairs: _Count
    keep_text: bool
    vocabulary_size: _Count
    source_vocabulary_size: _Count
    dropped: dict[Literal[*REASONS], _Count]
    content: str
    checksums: dict[str, str]


class ParallelCorpus:
    """Token ids of sentence pairs, held in memory-mapped arrays.

    All ids of one side lie in one array; sentence `i` is `ids[offsets[i]:offsets[i + 1]]`.
    Made by `prepare_corpus`.

    Args:
        source_ids: int32 array `(source tokens,)`.
        source_offsets: int64 array `(pairs + 1,)`.
        target_ids: int32 array `(target tokens,)`.
        target_offsets: int64 array `(pairs + 1,)`.
        line_numbers: int64 array `(pairs,)`: where each pair stood in the text, from 1.
        metadata: dict with what is known of the corpus: `pairs`, `dropped` (reason -> pairs),
            `source_tokens`, `target_tokens`, `tokenizer_fingerprint`, `vocabulary_size`,
            `source_tokenizer_fingerprint`, `source_vocabulary_size`, `format_version`, `content`
            (a digest of what it was prepared from), `checksums` (file -> SHA-256).
        texts: None, or the sentences themselves as UTF-8: side -> (uint8 array `(bytes,)`, int64
            array of offsets `(pairs + 1,)`).
        name: what errors call the text; None: they number the corpora.
        unit: what errors call a pair.
    """

    def __init__(
        self,
        source_ids,
        source_offsets,
        target_ids,
        target_offsets,
        line_numbers,
        metadata,
        texts=None,
        name=None,
        unit="line",
    ):
        self.source_ids = source_ids
        self.source_offsets = source_offsets
        self.target_ids = target_ids
        self.target_offsets = target_offsets
        self.line_numbers = line_numbers
        self.metadata = metadata
        self._texts = texts
        self.name = name
        self.unit = unit

    @classmethod
    def open(cls, directory, **names):
        """Open the corpus that `prepare_corpus` wrote to `directory`; `names` are `name`, `unit`.

        All files are read once and compared with their checksums: some 0.3 s for 500,000 pairs.

        Raises:
            UserInputError: there is no corpus, or its files are not as they were written.
        """
        directory = pathlib.Path(directory)
        path = directory / METADATA_FILE
        if not path.is_file():
            raise UserInputError(f"{directory} holds no prepared corpus: it has no {METADATA_FILE}")
        metadata = read_json(path, advice(directory))
        record = to_record(path, metadata, _Record, advice(directory))
        try:
            arrays, texts = [], {}
            sizes = record.source_vocabulary_size, record.vocabulary_size
            for side, size in zip(SIDES, sizes, strict=True):
                arrays += _open_rows(directory, f"{side}_ids", ID_TYPE, record, below=size)
                if record.keep_text:
                    texts[side] = _open_rows(directory, f"{side}_text", TEXT_TYPE, record)
            line_numbers = _open_array(directory / "line_numbers.bin", OFFSET_TYPE, record)
            if len(line_numbers) != record.pairs:
                raise ValueError("line_numbers.bin has another number of pairs")
        except (OSError, ValueError) as error:
            raise UserInputError(
                f"The prepared corpus in {directory} is damaged: {error}. {advice(directory)}"
            ) from error
        return cls(*arrays, line_numbers, metadata, texts or None, **names)

    def __len__(self):
        return len(self.line_numbers)

    @property
    def source_lengths(self):
        """Int64 array `(pairs,)`: tokens of each source, without end of sentence."""
        return np.diff(self.source_offsets)

    @property
    def target_lengths(self):
        """Int64 array `(pairs,)`: tokens of each target, without begin or end of sentence."""
        return np.diff(self.target_offsets)

    def source(self, index):
        """Ids of source sentence `index`: int32 array `(tokens,)`."""
        return self.source_ids[self.source_offsets[index] : self.source_offsets[index + 1]]

    def target(self, index):
        """Ids of target sentence `index`: int32 array `(tokens,)`."""
        return self.target_ids[self.target_offsets[index] : self.target_offsets[index + 1]]

    def source_text(self, indices):
        """Source sentences as they stood in the text: list of strings.

        Args:
            indices: sequence of int.

        Raises:
            ValueError: the corpus was prepared without `keep_text=True`.
        """
        return self._read_text("source", indices)

    def target_text(self, indices):
        """Target sentences as they stood in the text, as `source_text`."""
        return self._read_text("target", indices)

    @property
    def dropped(self):
        """Number of pairs that each filter dropped: dict with the keys of `REASONS`."""
        return {**dict.fromkeys(REASONS, 0), **self.metadata.get("dropped", {})}

    @functools.cached_property
    def fingerprint(self):
        """A string that is the same for the same tokens in the same order, another for others."""
        if "content" in self.metadata:
            return self.metadata["content"]
        digest = hashlib.sha256()
        for array in (self.source_ids, self.target_ids, self.source_offsets, self.target_offsets):
            digest.update(f" {array.dtype} {len(array)} ".encode())
            digest.update(np.ascontiguousarray(array))
        return digest.hexdigest()

    def report(self):
        """How many pairs of the text were kept, and what dropped the others, as a line of text."""
        kept = len(self)
        total = kept + sum(self.dropped.values())
        tokens = f"{len(self.source_ids):,} source and {len(self.target_ids):,} target tokens"
        if kept == total:
            return f"all {total:,} pairs kept, {tokens}"
        return f"{kept:,} of {total:,} pairs kept, {tokens}; dropped: {drop_listing(self.dropped)}"

    def _read_text(self, side, indices):
        if self._texts is None:
            raise ValueError(
                "The corpus holds no text: prepare it with `prepare_corpus(..., keep_text=True)`"
            )
        text, offsets = self._texts[side]
        indices = np.asarray(indices, dtype="int64")
        spans = zip(offsets[indices].tolist(), offsets[indices + 1].tolist(), strict=True)
        return [text[start:stop].tobytes().decode("utf-8") for start, stop in spans]


def drop_listing(dropped):
    """What each filter dropped, in words: `"2 with an empty side, 1 repeated"`."""
    return ", ".join(f"{number:,} {REASONS[key]}" for key, number in dropped.items() if number)


def advice(directory):
    """What to do about a damaged corpus."""
    return f"Delete {directory}: it is then prepared anew."


def _open_rows(directory, name, dtype, record, below=None):
    """The array of all rows and that of their offsets, as `corpus_writer` wrote them."""
    values = _open_array(directory / f"{name}.bin", dtype, record, below)
    offsets = _open_array(directory / f"{name}_offsets.bin", OFFSET_TYPE, record)
    if (
        len(offsets) != record.pairs + 1
        or (offsets[0], offsets[-1]) != (0, len(values))
        or np.any(offsets[1:] < offsets[:-1])
    ):
        raise ValueError(f"{name}_offsets.bin does not fit {name}.bin")
    return values, offsets


def _open_array(path, dtype, record, below=None):
    """Map a file after a look at its bytes, and at its values where they must be `below` one."""
    with open_ordinary(path) as file:
        digest = hashlib.sha256()
        while block := file.read(_BLOCK_BYTES):  # not by the map: pages would stay in memory
            digest.update(block)
            if below is not None:
                values = np.frombuffer(block, dtype)
                if values.min() < 0 or values.max() >= below:
                    raise ValueError(f"{path.name} has ids beyond the vocabulary of {below}")
        if digest.hexdigest() != record.checksums.get(path.name):
            raise ValueError(f"{path.name} is not as it was written")
        # A plain view of the same memory: every index into a `memmap` costs more.
        return np.asarray(np.memmap(file, dtype=dtype, mode="r"))
