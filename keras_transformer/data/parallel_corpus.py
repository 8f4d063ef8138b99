"""A tokenized parallel corpus on disk, read through memory maps."""

import json
import pathlib

import numpy as np

from keras_transformer.errors import UserInputError

FORMAT_VERSION = 1
METADATA_FILE = "corpus.json"
ID_TYPE = np.dtype("<i4")
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
        metadata: dict with what is known of the corpus: `pairs`, `dropped_pairs`,
            `tokenizer_fingerprint`, `vocabulary_size`, `format_version`.
    """

    def __init__(
        self, source_ids, source_offsets, target_ids, target_offsets, line_numbers, metadata
    ):
        self.source_ids = source_ids
        self.source_offsets = source_offsets
        self.target_ids = target_ids
        self.target_offsets = target_offsets
        self.line_numbers = line_numbers
        self.metadata = metadata

    @classmethod
    def open(cls, directory):
        """Open the corpus that `prepare_corpus` wrote to `directory`.

        Raises:
            UserInputError: there is no corpus, or its files do not fit each other.
        """
        directory = pathlib.Path(directory)
        try:
            metadata = json.loads((directory / METADATA_FILE).read_text(encoding="utf-8"))
            arrays = []
            for side in SIDES:
                ids = np.memmap(directory / f"{side}_ids.bin", dtype=ID_TYPE, mode="r")
                # A plain view of the same memory: every index into a `memmap` costs more.
                arrays.append(np.asarray(ids))
                arrays.append(np.load(directory / f"{side}_offsets.npy"))
            line_numbers = np.load(directory / "line_numbers.npy")
        except (OSError, ValueError) as error:
            raise UserInputError(f"{directory} holds no prepared corpus: {error}") from error
        corpus = cls(*arrays, line_numbers, metadata)
        if not corpus._is_whole():
            raise UserInputError(f"The prepared corpus in {directory} is damaged: delete it")
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

    def _is_whole(self):
        pairs = len(self)
        return (
            self.metadata.get("format_version") == FORMAT_VERSION
            and self.metadata.get("pairs") == pairs
            and len(self.source_offsets) == len(self.target_offsets) == pairs + 1
            and self.source_offsets[-1] == len(self.source_ids)
            and self.target_offsets[-1] == len(self.target_ids)
        )
