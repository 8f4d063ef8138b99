"""A tokenized parallel corpus on disk, read through memory maps."""

import functools
import hashlib
import json
import pathlib

import numpy as np

from keras_transformer.data.pair_filters import REASONS
from keras_transformer.errors import UserInputError

FORMAT_VERSION = 2
METADATA_FILE = "corpus.json"
ID_TYPE = np.dtype("<i4")
OFFSET_TYPE = np.dtype("<i8")
TEXT_TYPE = np.dtype("u1")
SIDES = ("source", "target")


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
            (a digest of what it was prepared from).
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

        Raises:
            UserInputError: there is no corpus, or its files do not fit each other.
        """
        directory = pathlib.Path(directory)
        try:
            metadata = json.loads((directory / METADATA_FILE).read_text(encoding="utf-8"))
            if metadata.get("format_version") != FORMAT_VERSION:
                raise _damaged(directory)
            arrays, texts = [], {}
            for side in SIDES:
                arrays += _open_rows(directory, f"{side}_ids", ID_TYPE)
                if metadata["keep_text"]:
                    texts[side] = _open_rows(directory, f"{side}_text", TEXT_TYPE)
            line_numbers = _open_array(directory / "line_numbers.bin", OFFSET_TYPE)
        except (OSError, ValueError) as error:
            if isinstance(error, UserInputError):
                raise
            raise UserInputError(f"{directory} holds no prepared corpus: {error}") from error
        corpus = cls(*arrays, line_numbers, metadata, texts or None, **names)
        if not corpus._is_whole():
            raise _damaged(directory)
        return corpus

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

    def _is_whole(self):
        pairs = self.metadata.get("pairs")
        rows = [(self.source_ids, self.source_offsets), (self.target_ids, self.target_offsets)]
        rows += self._texts.values() if self._texts else []
        return len(self.line_numbers) == pairs and all(
            len(offsets) == pairs + 1 and offsets[-1] == len(values) for values, offsets in rows
        )


def drop_listing(dropped):
    """What each filter dropped, in words: `"2 with an empty side, 1 repeated"`."""
    return ", ".join(f"{number:,} {REASONS[key]}" for key, number in dropped.items() if number)


def _damaged(directory):
    return UserInputError(f"The prepared corpus in {directory} is damaged: delete it")


def _open_rows(directory, name, dtype):
    """The array of all rows and that of their offsets, as `corpus_writer` wrote them."""
    return (
        _open_array(directory / f"{name}.bin", dtype),
        _open_array(directory / f"{name}_offsets.bin", OFFSET_TYPE),
    )


def _open_array(path, dtype):
    # A plain view of the same memory: every index into a `memmap` costs more.
    return np.asarray(np.memmap(path, dtype=dtype, mode="r"))
