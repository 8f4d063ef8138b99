"""Writes the files of a prepared corpus, chunk by chunk."""

import contextlib
import hashlib
import itertools
import json

import numpy as np

from keras_transformer.data.parallel_corpus import (
    FORMAT_VERSION,
    ID_TYPE,
    METADATA_FILE,
    OFFSET_TYPE,
    SIDES,
)


class CorpusWriter(contextlib.ExitStack):
    """Writes pairs to an empty folder and holds none of them; a context that closes its files."""

    def __init__(self, directory, keep_text):
        super().__init__()
        self.pairs = 0
        self._directory = directory
        self._files = {}
        self._keep_text = keep_text
        self._ids = {side: self._rows(f"{side}_ids") for side in SIDES}
        self._texts = {side: self._rows(f"{side}_text") for side in SIDES} if keep_text else {}
        self._line_numbers = self._file("line_numbers.bin")

    def append(self, line_numbers, ids, texts):
        """Write the next pairs: where they stood, and by side their ids and their sentences."""
        self.pairs += len(line_numbers)
        self._line_numbers.write(np.asarray(line_numbers, dtype=OFFSET_TYPE).tobytes())
        for side in SIDES:
            self._ids[side].append(ids[side], _pack_ids(ids[side]))
            if self._keep_text:
                lines = [line.encode("utf-8") for line in texts[side]]
                self._texts[side].append(lines, b"".join(lines))

    def finish(self, **metadata):
        """Write what is known of the corpus, after the last pair."""
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

    def _rows(self, name):
        return _RowsWriter(self._file(f"{name}.bin"), self._file(f"{name}_offsets.bin"))

    def _file(self, name):
        file = open(self._directory / name, "wb")  # noqa: SIM115 - closed with the context
        self._files[name] = _SummedFile(self.enter_context(file))
        return self._files[name]


class _SummedFile:
    """A file that is written, and the SHA-256 of what was."""

    def __init__(self, file):
        self.sha256 = hashlib.sha256()
        self._file = file

    def write(self, data):
        self.sha256.update(data)
        self._file.write(data)


class _RowsWriter:
    """Rows of one type, end to end in one file, and in another where each begins and ends."""

    def __init__(self, values_file, offsets_file):
        self.stop = 0
        self._values_file = values_file
        self._offsets_file = offsets_file
        self._write_offsets([0])

    def append(self, rows, packed):
        self._values_file.write(packed)
        stops = self.stop + np.cumsum(np.fromiter(map(len, rows), "int64", len(rows)))
        self._write_offsets(stops)
        self.stop = int(stops[-1])

    def _write_offsets(self, offsets):
        self._offsets_file.write(np.asarray(offsets, dtype=OFFSET_TYPE).tobytes())


def _pack_ids(rows):
    tokens = sum(map(len, rows))
    return np.fromiter(itertools.chain.from_iterable(rows), dtype=ID_TYPE, count=tokens).tobytes()
