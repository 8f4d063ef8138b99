"""SHA256SUMS: the checksums of a directory's files, as `sha256sum --check` reads them."""

import os
from collections.abc import Collection, Mapping
from pathlib import Path

from keras_transformer.errors import UserInputError
from keras_transformer.files.json_files import read_small_file
from keras_transformer.files.whole_files import checksum, write_text
from keras_transformer.types import PathLike

CHECKSUMS = "SHA256SUMS"
_ADVICE = "Copy the export again."


def has_checksums(directory: PathLike) -> bool:
    """Whether a directory has a list of checksums."""
    return os.path.lexists(Path(directory) / CHECKSUMS)


def write_checksums(directory: PathLike) -> None:
    """Write the checksums of all files in a directory, recursively, to its `SHA256SUMS`."""
    directory = Path(directory)
    files = (path for path in directory.rglob("*") if path.is_file())
    paths = [path for path in files if path != directory / CHECKSUMS]
    write_list(
        directory, {path.relative_to(directory).as_posix(): [checksum(path)] for path in paths}
    )


def write_list(directory: Path, sums: Mapping[str, Collection[str]]) -> None:
    """Write checksums by file name to `SHA256SUMS`.

    A file has several while it is replaced.
    """
    lines = [f"{digest}  {name}\n" for name in sorted(sums) for digest in sums[name]]
    write_text(directory / CHECKSUMS, "".join(lines))


def read_list(directory: Path, advice: str = _ADVICE) -> dict[str, list[str]]:
    """Return the checksums in `SHA256SUMS` by file name; a truncated list is a UserInputError."""
    path = directory / CHECKSUMS
    text = read_small_file(path).decode("utf-8", "replace")
    if not text.endswith("\n"):
        raise UserInputError(f"{path} is damaged: its end is missing. {advice}")
    sums: dict[str, list[str]] = {}
    for line in text.splitlines():
        digest, gap, name = line.partition("  ")
        if not gap or len(digest) != 64 or not _is_inside(name):
            raise UserInputError(f"{path} is damaged: {line[:80]!r} is not a checksum. {advice}")
        sums.setdefault(name, []).append(digest)
    return sums


def check_files(directory: PathLike, needed: Collection[str] = ()) -> int:
    """Compare all files of a directory with its `SHA256SUMS`; returns how many.

    A directory without a list is accepted without a check.

    `needed` are patterns of files that the list must name if they exist; a truncated list lacks the
    last of them.
    """
    directory = Path(directory)
    if not has_checksums(directory):
        return 0
    sums = read_list(directory)
    for path in (path for pattern in needed for path in sorted(directory.glob(pattern))):
        name = path.relative_to(directory).as_posix()
        if name not in sums and not path.is_dir():
            raise UserInputError(
                f"{directory / CHECKSUMS} is damaged: it does not name {name}. {_ADVICE}"
            )
    for name, digests in sums.items():
        path = directory / name
        try:
            found = checksum(path)
        except OSError as error:
            raise UserInputError(f"Cannot read {path}: {error.strerror}. {_ADVICE}") from error
        if {found} != {*digests}:
            raise UserInputError(f"{path} is damaged: its checksum is wrong. {_ADVICE}")
    return len(sums)


def _is_inside(name: str) -> bool:
    path = Path(name)
    return bool(name) and not path.is_absolute() and ".." not in path.parts and "\0" not in name
