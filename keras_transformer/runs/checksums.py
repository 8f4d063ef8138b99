"""Checksums of a directory's files, stored in `SHA256SUMS` in the `sha256sum --check` format."""

import contextlib
import functools
import hashlib
import io
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from keras_transformer.errors import UserInputError
from keras_transformer.files import (
    PARTIAL,
    BeforeRename,
    checksum,
    copy_file,
    file_lock,
    make_partial,
    tell,
    write_json,
    write_new_directory,
    write_text,
)
from keras_transformer.input_files import (
    MOST_RECORD_BYTES,
    entries_of,
    read_record,
    read_small_file,
)
from keras_transformer.types import PathLike

CHECKSUMS = "SHA256SUMS"
EXPORT_ADVICE = "Copy the export again."


def has_checksums(directory: PathLike) -> bool:
    """Return whether a directory contains a list of checksums."""
    return os.path.lexists(Path(directory) / CHECKSUMS)


def write_checksums(directory: PathLike) -> None:
    """Write the checksums of all files in a directory tree to `SHA256SUMS` in the directory."""
    directory = Path(directory)
    files = (path for path in directory.rglob("*") if path.is_file())
    paths = [path for path in files if path != directory / CHECKSUMS]
    write_list(
        directory, {path.relative_to(directory).as_posix(): [checksum(path)] for path in paths}
    )


def write_checked_directory(directory: PathLike, write: Callable[[Path], None]) -> Path:
    """Write a directory with `write_new_directory` and add the checksums of its files."""

    def write_all(path: Path) -> None:
        write(path)
        write_checksums(path)

    return write_new_directory(directory, write_all)


def write_list(directory: Path, sums: Mapping[str, Collection[str]]) -> None:
    """Write checksums by file name to `SHA256SUMS`.

    A file has several checksums while it is being replaced.
    """
    lines = [f"{digest}  {name}\n" for name in sorted(sums) for digest in sums[name]]
    write_text(directory / CHECKSUMS, "".join(lines))


def read_list(directory: Path, advice: str = EXPORT_ADVICE) -> dict[str, list[str]]:
    """Return the checksums in `SHA256SUMS` by name. Raise a UserInputError if it is truncated."""
    path = directory / CHECKSUMS
    text = read_small_file(path, MOST_RECORD_BYTES).decode("utf-8", "replace")
    if not text.endswith("\n"):
        raise UserInputError(f"{path} is damaged: its end is missing. {advice}")
    sums: dict[str, list[str]] = {}
    for line in text.removesuffix("\n").split("\n"):
        digest, gap, name = line.partition("  ")
        if not gap or len(digest) != 64 or not _is_inside(name):
            raise UserInputError(f"{path} is damaged: {line[:80]!r} is not a checksum. {advice}")
        sums.setdefault(Path(name).as_posix(), []).append(digest)
    return sums


def check_files(directory: PathLike, needed: Collection[str] = ()) -> int:
    """Check the files listed in a directory's `SHA256SUMS`, and return the number of files.

    A directory without a list is accepted without a check.

    `needed` contains patterns of files that the list must include if they exist, because a
    truncated list lacks the last files.
    """
    directory = Path(directory)
    if not has_checksums(directory):
        return 0
    sums = read_list(directory)
    for path in (path for pattern in needed for path in sorted(directory.glob(pattern))):
        name = path.relative_to(directory).as_posix()
        if name not in sums and not path.is_dir():
            raise UserInputError(
                f"{directory / CHECKSUMS} is damaged: it does not name {name}. {EXPORT_ADVICE}"
            )
    for name, digests in sums.items():
        path = directory / name
        try:
            found = checksum(path)
        except OSError as error:
            raise UserInputError(
                f"Cannot read {path}: {error.strerror}. {EXPORT_ADVICE}"
            ) from error
        if {found} != {*digests}:
            raise UserInputError(f"{path} is damaged: its checksum is wrong. {EXPORT_ADVICE}")
    return len(sums)


def _is_inside(name: str) -> bool:
    path = Path(name)
    return bool(name) and not path.is_absolute() and ".." not in path.parts and "\0" not in name


ADVICE = "Copy the run again."
CHECKPOINTS = "checkpoints"
_RUN_ADVICE = "Copy the run again, or remove this file to continue without checks."
_BLOCK = 1 << 20  # bytes
_SUMMED = (".h5", ".safetensors", ".npz")  # weights, states and shortlists

_tell_once = functools.cache(tell)


class RunChecksums:
    """Checksums of a run's files, available as `run.checksums` of a `RunDirectory`.

    Checksums are stored in `SHA256SUMS`, which `sha256sum --check` can read. A file that is not in
    the list is read without a check, but `check_files` refuses weights and states without a
    checksum. Runs from older versions use `checksums.json` until one of their files is written.

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
        self._directory = Path(directory)
        self.path = self._directory / CHECKSUMS
        self._older_path = self._directory / "checksums.json"
        self._directories = (self._directory, self._directory / CHECKPOINTS)

    def covers(self, path: Path) -> bool:
        """Return whether the run has checksums and `path` is the path of a file in the run."""
        return bool(self._name(path)) and self._exists()

    def warn_if_missing(self) -> None:
        """Warn once on stderr if the run has no list of checksums."""
        if not self._exists():
            _tell_once(f"warning: {self._nothing_compared()}")

    def keep(self, path: Path, complete: Path | None = None) -> Callable[[], None] | None:
        """Record the checksum of a file.

        If given, `complete` is a file about to be renamed to `path`; its checksum is recorded.
        Until the rename, the checksum of the current file at `path` stays valid.

        Returns:
            A function to call after the rename, or None.
        """
        name = self._name(path)
        value = checksum(complete or path)
        with self._changed() as sums:
            before = []
            if complete and path.is_file() and (present := checksum(path)) in sums.get(name, ()):
                before = [present] if present != value else []
            sums[name] = [*before, value]
        return functools.partial(self._forget_others, name, value) if before else None

    def keeping(self, path: Path) -> BeforeRename:
        """Return a `before_rename` function for `whole_file` that records the file's checksum."""
        return functools.partial(self.keep, path)

    def write_json(self, path: Path, value: object) -> None:
        """Write a value atomically as JSON and record the checksum of the file."""
        write_json(path, value, self.keeping(path))

    def copy(self, source: PathLike, destination: Path) -> None:
        """Copy a file atomically and record its checksum."""
        copy_file(source, destination, self.keeping(destination))

    def remove(self, *paths: Path) -> None:
        """Remove existing files and their checksums. A kill leaves no file without its checksum."""
        names = {self._name(path) for path in paths}
        aside = {path: make_partial(path) for path in paths if os.path.lexists(path)}
        try:
            if names & self._read().keys():
                with self._changed():  # contains only files that exist
                    pass
        except BaseException:
            for path, partial in aside.items():
                os.replace(partial, path)
            raise
        for partial in aside.values():
            partial.unlink(missing_ok=True)

    def is_damaged(self, path: PathLike) -> bool:
        """Return whether a file has a checksum and does not match it.

        Raises:
            UserInputError: the process has no permission to read the file.
        """
        expected = self._expected(path)
        return expected is not None and _differs(path, expected)

    def check_files(self) -> int:
        """Check all files that have checksums, and return the number of files.

        Raises:
            UserInputError: the list or a file is missing, damaged or unreadable, or weights or
                states are not listed; the message names these files.
        """
        if not self._exists():
            raise UserInputError(f"{self._nothing_compared()} {ADVICE}")
        # Check twice, because a training run may have renamed a file in the meantime.
        if missing := self._missing() and self._missing():
            raise UserInputError(f"Missing in {self._directory}: {', '.join(missing)}. {ADVICE}")
        paths = [path for directory in self._directories for path in entries_of(directory)]
        sums = self._read()
        listed = [path for path in paths if path.is_file() and self._name(path) in sums]
        named = {*listed, *(path for path in paths if path.name.startswith("."))}
        if others := [self._name(p) for p in paths if p.suffix in _SUMMED and p not in named]:
            raise UserInputError(f"{self.path} does not name {', '.join(others)}. {ADVICE}")
        differing = [path for path in listed if _differs(path, sums[self._name(path)])]
        # A training run may have removed or replaced files in the meantime, so check again.
        damaged = [str(path) for path in differing if path.is_file() and self.is_damaged(path)]
        if damaged:
            raise UserInputError(f"Damaged: {', '.join(damaged)}. {ADVICE}")
        return len(listed)

    def check_file(self, path: PathLike, file: BinaryIO, advice: str = ADVICE) -> None:
        """Check an open file against its checksum, and raise a UserInputError if it differs."""
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
        """Read a small file, check it against its checksum, and return its bytes."""
        content = read_small_file(path, most_bytes)
        self.check_file(path, io.BytesIO(content))
        return content

    def _nothing_compared(self) -> str:
        return f"{self._directory} has no {CHECKSUMS}: nothing was compared."

    def _exists(self) -> bool:
        return self.path.is_file() or self._older_path.is_file()

    def _missing(self) -> list[str]:
        """Return the listed files that are missing, except files whose rename a kill prevented."""
        sums = self._read()
        missing = [name for name in sums if not (self._directory / name).is_file()]
        folders = {(self._directory / name).parent for name in missing}
        partial = (path for folder in folders for path in folder.glob(f"{PARTIAL}*"))
        killed = {checksum(path) for path in partial if path.is_file()}
        return [name for name in missing if killed.isdisjoint(sums[name])]

    def _expected(self, path: PathLike) -> Sequence[str] | None:
        """Return the valid checksums of a file, or None if it has none or is outside the run."""
        return self._read().get(self._name(path))

    def _name(self, path: PathLike) -> str:
        """Return a file's name in the list, or an empty string if the file is outside the run."""
        parent = os.path.realpath(Path(path).parent)
        for directory, prefix in zip(self._directories, ("", f"{CHECKPOINTS}/"), strict=True):
            if parent == os.path.realpath(directory):
                return f"{prefix}{Path(path).name}"
        return ""

    @contextlib.contextmanager
    def _changed(self) -> Iterator[dict[str, list[str]]]:
        """Yield the checksums of existing files for modification, locking out other processes."""
        with file_lock(self.path.with_name(".checksums.lock")):
            found = self._read().items()
            sums = {name: each for name, each in found if (self._directory / name).is_file()}
            yield sums
            if sums:
                write_list(self._directory, sums)
            else:
                self.path.unlink(missing_ok=True)
            self._older_path.unlink(missing_ok=True)

    def _forget_others(self, name: str, value: str) -> None:
        """Drop a file's other checksums, unless a newer one has been recorded."""
        with self._changed() as sums:
            if sums.get(name, [])[-1:] == [value]:
                sums[name] = [value]

    def _read(self) -> dict[str, list[str]]:
        if self.path.is_file():
            return read_list(self._directory, _RUN_ADVICE)
        if not self._older_path.is_file():
            return {}
        # The list also contains checksums of earlier files with the same name.
        older = read_record(self._older_path, dict[str, list[str]], _RUN_ADVICE, MOST_RECORD_BYTES)
        sums = {}
        for name, values in older.items():
            paths = [directory / name for directory in self._directories]
            for path in [path for path in paths if path.is_file()] or [paths[0]]:
                sums[self._name(path)] = values
        return sums


def _differs(path: PathLike, expected: Collection[str]) -> bool:
    """Return whether a file matches none of the expected checksums."""
    try:
        return checksum(path) not in expected
    except PermissionError as error:
        raise UserInputError(f"Cannot read {path}: {error.strerror}.") from error
    except OSError:  # missing, or not a regular file
        return True


def keeping_in_run(path: PathLike) -> BeforeRename | None:
    """Return `RunChecksums.keeping` for the run that a file belongs to.

    Return None for files outside of runs and for hidden files, which are only temporary.
    """
    path = Path(path)
    for directory in (path.parent, path.parent.parent):
        checksums = RunChecksums(directory)
        if checksums.covers(path) and not path.name.startswith("."):
            return checksums.keeping(path)
    return None
