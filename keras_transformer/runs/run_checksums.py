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


class RunChecksums:
    """The part of a run directory that knows which bytes its files had when they were written.

    `checksums.json` has lists of SHA-256 sums by the files' names, those in `checkpoints/` too. A
    file that it does not name, of a run from before it did, is not compared.

    Args:
        path: the run directory.
    """

    def __init__(self, path):
        self.path = Path(path)
        self.checkpoints_path = self.path / "checkpoints"
        self.checksums_path = self.path / "checksums.json"

    def keep_checksum(self, path, complete=None):
        """Write down the checksum of a file.

        Args:
            path: the file.
            complete: the file that is about to get this name, or None: it has it. Until then the
                file of that name stays good: both checksums are written down.
        """
        values = [checksum(complete or path)]
        with file_lock(self.path / ".checksums.lock", on_wait=lambda: None):
            sums = self._checksums()
            if complete and path.is_file() and checksum(path) in sums.get(path.name, ()):
                values.append(checksum(path))
            kept = {name: sums[name] for name in sums if self._is_there(name)}
            write_json(self.checksums_path, {**kept, path.name: values})

    def keeping(self, path):
        """The argument `before_rename` of `whole_files.whole_file` that keeps the checksum."""
        return lambda complete: self.keep_checksum(path, complete)

    def write_json(self, path, value):
        """Write a value as JSON, whole or not at all, and keep its checksum."""
        write_json(path, value, self.keeping(path))

    def copy_weights(self, source, destination):
        """Copy a file of weights, whole or not at all, and keep its checksum."""
        copy_file(source, destination, self.keeping(destination))

    def is_damaged(self, path):
        """Whether a file differs from its checksum; one without a checksum does not."""
        expected = self._expected(path)
        try:
            return expected is not None and checksum(path) not in expected
        except OSError:  # it cannot be read, or is no ordinary file
            return True

    def check_files(self):
        """Compare all files that have checksums and are there; returns their number.

        Raises:
            UserInputError: files are damaged; the message names them.
        """
        paths = [*self.path.iterdir(), *self.checkpoints_path.glob("*")]
        listed = [path for path in paths if path.is_file() and self._expected(path) is not None]
        damaged = [str(path) for path in listed if self.is_damaged(path)]
        if damaged:
            raise UserInputError(f"Damaged: {', '.join(damaged)}. {ADVICE}")
        return len(listed)

    def check_content(self, path, content, advice=ADVICE):
        """Require that bytes that were read from a file are those that were written to it.

        Args:
            path: the file.
            content: its content, bytes or a buffer of them.
            advice: what to do, for the error.

        Raises:
            UserInputError: the checksum is another one.
        """
        expected = self._expected(path)
        if expected is not None and hashlib.sha256(content).hexdigest() not in expected:
            raise UserInputError(f"{path} is damaged: its checksum is wrong. {advice}")

    def read_checked(self, path):
        """Return the bytes of a small file; UserInputError as `check_content`, or unreadable."""
        content = read_small_file(path)
        self.check_content(path, content)
        return content

    def _expected(self, path):
        """The checksums that a file may have, or None: it has none, or is not the run's."""
        parent = os.path.realpath(Path(path).parent)
        if parent not in map(os.path.realpath, (self.path, self.checkpoints_path)):
            return None
        return self._checksums().get(Path(path).name)

    def _is_there(self, name):
        return (self.path / name).is_file() or (self.checkpoints_path / name).is_file()

    def _checksums(self):
        if not self.checksums_path.is_file():
            return {}
        advice = "Copy the run anew, or remove this file: nothing is compared then."
        return read_record(self.checksums_path, Checksums, advice)


def keeping_in_run(path):
    """The argument `before_rename` of `whole_files.whole_file` for a file that may be a run's.

    Args:
        path: where the file goes.

    Returns:
        What keeps its checksum in the run, or None where it goes elsewhere.
    """
    parent = Path(path).parent
    for directory in (parent, parent.parent):
        run = RunChecksums(directory)
        if run.checksums_path.is_file() and parent in (run.path, run.checkpoints_path):
            return run.keeping(path)
    return None
