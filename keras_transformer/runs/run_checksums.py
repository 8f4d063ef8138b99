"""Checksums of a run's files: written before a file gets its name, checked when it is read."""

import functools
import hashlib
import io
import os
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import BinaryIO

from keras_transformer.errors import UserInputError
from keras_transformer.files.file_lock import file_lock
from keras_transformer.files.input_files import entries_of
from keras_transformer.files.json_files import MOST_RECORD_BYTES, read_record, read_small_file
from keras_transformer.files.whole_files import BeforeRename, checksum, copy_file, write_json
from keras_transformer.runs.run_records import Checksums
from keras_transformer.types import PathLike

ADVICE = "Copy the run again."
CHECKPOINTS = "checkpoints"
_BLOCK = 1 << 20  # bytes


class RunChecksums:
    """Checksums of a run's files: `run.checksums` of a `RunDirectory`.

    `checksums.json` maps file names, including files in `checkpoints/`, to lists of SHA-256 sums.
    Files that it does not name, as in older runs, are accepted without a check.

    Args:
        directory: the run directory.

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

    def __init__(self, directory: PathLike) -> None:
        directory = Path(directory)
        self.path = directory / "checksums.json"
        self._directories = (directory, directory / CHECKPOINTS)

    def covers(self, directory: PathLike) -> bool:
        """Whether a directory is the run directory or its `checkpoints/`."""
        return os.path.realpath(directory) in map(os.path.realpath, self._directories)

    def keep(self, path: Path, complete: Path | None = None) -> None:
        """Record the checksum of a file.

        If `complete`, a file about to be renamed to `path`, is given, its checksum is recorded. The
        checksum of the present file at `path` stays valid until then. The checksum of a file with
        the same name in the other directory also stays valid.
        """
        values = [checksum(complete or path)]
        with file_lock(self.path.with_name(".checksums.lock")):
            sums = self._read()
            others = [directory / path.name for directory in self._directories]
            for other in others if complete else [other for other in others if other != path]:
                if other.is_file() and (value := checksum(other)) in sums.get(path.name, ()):
                    values.append(value)
            kept = {name: sums[name] for name in sums if self._is_there(name)}
            write_json(self.path, {**kept, path.name: values})

    def keeping(self, path: Path) -> BeforeRename:
        """Return the `before_rename` of `whole_file` that records the checksum of `path`."""
        return functools.partial(self.keep, path)

    def write_json(self, path: Path, value: object) -> None:
        """Write a value as JSON, completely or not at all, and record the checksum."""
        write_json(path, value, self.keeping(path))

    def copy(self, source: PathLike, destination: Path) -> None:
        """Copy a file, completely or not at all, and record its checksum."""
        copy_file(source, destination, self.keeping(destination))

    def remove(self, path: Path) -> None:
        """Remove a file if it exists; its checksum goes first, so no kill makes it look missing."""
        with file_lock(self.path.with_name(".checksums.lock")):
            sums = self._read()
            if path.name in sums:
                write_json(self.path, {name: sums[name] for name in sums if name != path.name})
        path.unlink(missing_ok=True)

    def is_damaged(self, path: PathLike) -> bool:
        """Whether a file differs from its checksum, if it has one.

        Raises:
            UserInputError: the file may not be read.
        """
        expected = self._expected(path)
        try:
            return expected is not None and checksum(path) not in expected
        except PermissionError as error:
            raise UserInputError(f"Cannot read {path}: {error.strerror}.") from error
        except OSError:  # missing, or not a regular file
            return True

    def check_files(self, needed: Collection[str] = ()) -> int:
        """Check all files that have checksums; returns how many.

        Args:
            needed: names of files that must exist if they have a checksum.

        Raises:
            UserInputError: files are missing, damaged or unreadable; the message names them.
        """
        missing = [name for name in needed if name in self._read() and not self._is_there(name)]
        if missing:
            directory = self._directories[0]
            raise UserInputError(f"Missing in {directory}: {', '.join(missing)}. {ADVICE}")
        paths = [path for directory in self._directories for path in entries_of(directory)]
        listed = [path for path in paths if path.is_file() and self._expected(path) is not None]
        differing = [path for path in listed if self.is_damaged(path)]
        # Meanwhile, a training may have removed or replaced files: look again.
        damaged = [str(path) for path in differing if path.is_file() and self.is_damaged(path)]
        if damaged:
            raise UserInputError(f"Damaged: {', '.join(damaged)}. {ADVICE}")
        return len(listed)

    def check_file(self, path: PathLike, file: BinaryIO, advice: str = ADVICE) -> None:
        """Check an open file against its checksum; raises a UserInputError if they differ."""
        expected = self._expected(path)
        if expected is None:
            return
        file.seek(0)
        digest = hashlib.sha256()
        while block := file.read(_BLOCK):
            digest.update(block)
        if digest.hexdigest() not in expected:
            raise UserInputError(f"{path} is damaged: its checksum is wrong. {advice}")

    def read(self, path: PathLike, most_bytes: int = MOST_RECORD_BYTES) -> bytes:
        """Return the bytes of a small file after checking them against its checksum."""
        content = read_small_file(path, most_bytes)
        self.check_file(path, io.BytesIO(content))
        return content

    def _expected(self, path: PathLike) -> Sequence[str] | None:
        """The valid checksums of a file; None if it has none or is outside the run."""
        path = Path(path)
        return self._read().get(path.name) if self.covers(path.parent) else None

    def _is_there(self, name: str) -> bool:
        return any((directory / name).is_file() for directory in self._directories)

    def _read(self) -> Checksums:
        if not self.path.is_file():
            return {}
        advice = "Copy the run again, or remove this file to continue without checks."
        return read_record(self.path, Checksums, advice, MOST_RECORD_BYTES)


def keeping_in_run(path: PathLike) -> BeforeRename | None:
    """Return `RunChecksums.keeping` for the run that a file belongs to; None outside runs."""
    path = Path(path)
    parent = path.parent
    for directory in (parent, parent.parent):
        checksums = RunChecksums(directory)
        if checksums.path.is_file() and checksums.covers(parent):
            return checksums.keeping(path)
    return None
