"""Writing the files of a prepared corpus, chunk by chunk."""

import contextlib
import hashlib
import itertools
import json
import pathlib
from collections.abc import Iterable, Mapping, Sequence, Sized
from typing import Any, BinaryIO, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from keras_transformer.data.parallel_corpus import (
    FORMAT_VERSION,
    ID_TYPE,
    METADATA_FILE,
    OFFSET_TYPE,
    SIDES,
)
from keras_transformer.files.whole_files import writing


class PackedRows(NamedTuple):
    """Rows as stored on disk: their bytes end to end, and the number of values in each row."""

    values: bytes
    lengths: NDArray[np.integer]

    @classmethod
    def of_ids(cls, rows: Sequence[list[int]]) -> Self:
        """Pack rows of token ids."""
        lengths = _lengths(rows)
        ids = itertools.chain.from_iterable(rows)
        return cls(np.fromiter(ids, dtype=ID_TYPE, count=lengths.sum()).tobytes(), lengths)

    @classmethod
    def of_texts(cls, texts: Iterable[str]) -> Self:
        """Pack sentences as UTF-8."""
        rows = [text.encode("utf-8") for text in texts]
        return cls(b"".join(rows), _lengths(rows))


def _lengths(rows: Sequence[Sized]) -> NDArray[np.integer]:
    return np.fromiter(map(len, rows), "int64", len(rows))


class CorpusWriter(contextlib.ExitStack):
    """Writes pairs to an empty folder as they arrive; a context manager that closes the files."""

    def __init__(self, directory: pathlib.Path, keep_text: bool) -> None:
        super().__init__()
        self.pairs = 0
        self._directory = directory
        self._files: dict[str, _SummedFile] = {}
        self._keep_text = keep_text
        self._ids = {side: self._rows(f"{side}_ids") for side in SIDES}
        self._texts = {side: self._rows(f"{side}_text") for side in SIDES} if keep_text else {}
        self._line_numbers = self._file("line_numbers.bin")

    def __exit__(self, *details: Any) -> bool | None:
        with writing(self._directory):  # closing a file writes to it
            return super().__exit__(*details)

    def append(
        self,
        line_numbers: Sequence[int] | np.ndarray,
        ids: Mapping[str, PackedRows],
        texts: Mapping[str, PackedRows],
    ) -> None:
        """Write the line numbers of the next pairs, and their ids and sentences by side."""
        self.pairs += len(line_numbers)
        self._line_numbers.write(np.asarray(line_numbers, dtype=OFFSET_TYPE).tobytes())
        for side in SIDES:
            self._ids[side].append(ids[side])
            if self._keep_text:
                self._texts[side].append(texts[side])

    def finish(self, **metadata: object) -> None:
        """Write the metadata of the corpus, after the last pair."""
        metadata = {
            "format_version": FORMAT_VERSION,
            "pairs": self.pairs,
            **{f"{side}_tokens": self._ids[side].stop for side in SIDES},
            "keep_text": self._keep_text,
            "checksums": {name: file.sha256.hexdigest() for name, file in self._files.items()},
            **metadata,
        }
        path = self._directory / METADATA_FILE
        path.write_text(json.dumps(metadata, indent=2) + "\n", encoding="utf-8")

    def _rows(self, name: str) -> "_RowsWriter":
        return _RowsWriter(self._file(f"{name}.bin"), self._file(f"{name}_offsets.bin"))

    def _file(self, name: str) -> "_SummedFile":
        file = open(self._directory / name, "wb")  # noqa: SIM115 - closed with the context
        self._files[name] = _SummedFile(self.enter_context(file))
        return self._files[name]


class _SummedFile:
    """A file opened for writing, with the SHA-256 of its content."""

    def __init__(self, file: BinaryIO) -> None:
        self.sha256 = hashlib.sha256()
        self._file = file

    def write(self, data: bytes) -> None:
        self.sha256.update(data)
        self._file.write(data)


class _RowsWriter:
    """Rows end to end in one file, and their offsets in another."""

    def __init__(self, values_file: _SummedFile, offsets_file: _SummedFile) -> None:
        self.stop = 0
        self._values_file = values_file
        self._offsets_file = offsets_file
        self._write_offsets([0])

    def append(self, rows: PackedRows) -> None:
        self._values_file.write(rows.values)
        stops = self.stop + np.cumsum(rows.lengths)
        self._write_offsets(stops)
        self.stop = int(stops[-1])

    def _write_offsets(self, offsets: ArrayLike) -> None:
        self._offsets_file.write(np.asarray(offsets, dtype=OFFSET_TYPE).tobytes())
