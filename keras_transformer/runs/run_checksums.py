"""Checksums of a run's files: written before a file gets its name, compared when it is read."""

import hashlib
import os
from pathlib import Path

from keras_transformer.errors import UserInputError
from keras_transformer.files.file_lock import file_lock
from keras_transformer.files.json_files import read_record, read_small_file
from keras_transformer.files.whole_files import checksum, copy_file, write_json
from keras_transformer.runs.run_records import Checksums

ADVICE = "Copy the run anew."
CHECKPOINTS = "checkpoints"


class RunChecksums:
    """Which bytes a run's files had when they were written: `run.checksums` of a `RunDirectory`.

    `checksums.json` has lists of SHA-256 sums by the files' names, those in `checkpoints/` too. A
    file that it does not name, of a run from before it did, is not compared.

    Args:
        directory: the run's directory.

    Example:
        >>> import tempfile
        >>> directory = Path(tempfile.mkdtemp())
        >>> checksums = RunChecksums(directory)
        >>> checksums.write_json(directory / "scores.json", {"bleu": 27.3})
        >>> checksums.check_files()
        1
        >>> _ = (directory / "scores.json").write_text('{"bleu": 37.3}')
        >>> checksums.is_damaged(directory / "scores.json")
        True
    """

    def __init__(self, directory):
        directory = Path(directory)
        self.path = directory / "checksums.json"
        self._directories = (directory, directory / CHECKPOINTS)

    def covers(self, directory):
        """Whether the files in a directory are the run's."""
        return os.path.realpath(directory) in map(os.path.realpath, self._directories)

    def keep(self, path, complete=None):
        """Write down the checksum of a file.

        It is that of `complete`, where a file is about to get this name. Until then the file of
        that name stays good: both checksums are written down.
        """
        values = [checksum(complete or path)]
        with file_lock(self.path.with_name(".checksums.lock"), on_wait=lambda: None):
            sums = self._read()
            if complete and path.is_file() and checksum(path) in sums.get(path.name, ()):
                values.append(checksum(path))
            kept = {name: sums[name] for name in sums if self._is_there(name)}
            write_json(self.path, {**kept, path.name: values})

    def keeping(self, path):
        """The argument `before_rename` of `whole_files.whole_file` that keeps the checksum."""
        return lambda complete: self.keep(path, complete)

    def write_json(self, path, value):
        """Write a value as JSON, whole or not at all, and keep its checksum."""
        write_json(path, value, self.keeping(path))

    def copy(self, source, destination):
        """Copy a file, whole or not at all, and keep its checksum."""
        copy_file(source, destination, self.keeping(destination))

    def is_damaged(self, path):
        """Whether a file differs from its checksum; one without a checksum does not."""
        expected = self._expected(path)
        try:
            return expected is not None and checksum(path) not in expected
        except OSError:  # it cannot be read, or is no ordinary file
            return True

    def check_files(self):
        """Compare all files that have checksums and are there; returns their number."""
        paths = [path for directory in self._directories for path in directory.glob("*")]
        listed = [path for path in paths if path.is_file() and self._expected(path) is not None]
        damaged = [str(path) for path in listed if self.is_damaged(path)]
        if damaged:
            raise UserInputError(f"Damaged: {', '.join(damaged)}. {ADVICE}")
        return len(listed)

    def check_content(self, path, content, advice=ADVICE):
        """Require that bytes that were read from a file are those that were written to it."""
        expected = self._expected(path)
        if expected is not None and hashlib.sha256(content).hexdigest() not in expected:
            raise UserInputError(f"{path} is damaged: its checksum is wrong. {advice}")

    def read(self, path):
        """Return the bytes of a small file; UserInputError as `check_content`, or unreadable."""
        content = read_small_file(path)
        self.check_content(path, content)
        return content

    def _expected(self, path):
        """The checksums that a file may have, or None: it has none, or is not the run's."""
        path = Path(path)
        return self._read().get(path.name) if self.covers(path.parent) else None

    def _is_there(self, name):
        return any((directory / name).is_file() for directory in self._directories)

    def _read(self):
        if not self.path.is_file():
            return {}
        advice = "Copy the run anew, or remove this file: nothing is compared then."
        return read_record(self.path, Checksums, advice)


def keeping_in_run(path):
    """The `before_rename` of `whole_files.whole_file` for a file that may be a run's, or None."""
    parent = Path(path).parent
    for directory in (parent, parent.parent):
        checksums = RunChecksums(directory)
        if checksums.path.is_file() and checksums.covers(parent):
            return checksums.keeping(path)
    return None
