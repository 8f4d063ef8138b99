"""SHA256SUMS: the checksums of a directory's files, as `sha256sum --check` reads them."""

from collections.abc import Collection
from pathlib import Path

from keras_transformer.errors import UserInputError
from keras_transformer.files.json_files import read_small_file
from keras_transformer.files.whole_files import checksum, write_text
from keras_transformer.types import PathLike

CHECKSUMS = "SHA256SUMS"
_ADVICE = "Copy the export again."


def write_checksums(directory: PathLike) -> None:
    """Write the checksums of all files in a directory, recursively, to its `SHA256SUMS`."""
    directory = Path(directory)
    files = (path for path in directory.rglob("*") if path.is_file())
    paths = sorted(path for path in files if path != directory / CHECKSUMS)
    lines = [f"{checksum(path)}  {path.relative_to(directory).as_posix()}\n" for path in paths]
    write_text(directory / CHECKSUMS, "".join(lines))


def read_checksums(directory: PathLike) -> dict[str, str]:
    """Return the checksums in a directory's `SHA256SUMS` by file name."""
    path = Path(directory) / CHECKSUMS
    sums = {}
    for line in read_small_file(path).decode("utf-8", "replace").splitlines():
        digest, gap, name = line.partition("  ")
        if not gap or len(digest) != 64 or not _is_inside(name):
            raise UserInputError(f"{path} is damaged: {line[:80]!r} is not a checksum. {_ADVICE}")
        sums[name] = digest
    return sums


def check_files(directory: PathLike, names: Collection[str] | None = None) -> int:
    """Compare files of a directory, by default all, with `SHA256SUMS`; returns their number.

    Exports older than these checksums are accepted without a check.
    """
    directory = Path(directory)
    if not (directory / CHECKSUMS).exists():
        return 0
    sums = read_checksums(directory)
    names = sums.keys() if names is None else names
    for name in names:
        path = directory / name
        try:
            found = checksum(path)
        except OSError as error:
            raise UserInputError(f"Cannot read {path}: {error.strerror}. {_ADVICE}") from error
        if found != sums.get(name):
            raise UserInputError(f"{path} is damaged: its checksum is wrong. {_ADVICE}")
    return len(names)


def _is_inside(name: str) -> bool:
    path = Path(name)
    return bool(name) and not path.is_absolute() and ".." not in path.parts and "\0" not in name
