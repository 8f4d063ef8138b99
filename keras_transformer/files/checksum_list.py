"""SHA256SUMS: the checksums of a directory's files, as `sha256sum --check` reads them."""

import os
from collections.abc import Collection, Iterator
from pathlib import Path

from keras_transformer.errors import UserInputError
from keras_transformer.files.json_files import read_small_file
from keras_transformer.files.whole_files import checksum, write_text
from keras_transformer.types import PathLike

CHECKSUMS = "SHA256SUMS"
_ADVICE = "Copy the export again."
# Every export except Marian's has one of these.
_MODELS = ("model_card.json", "saved_model.pb", "model.bin", "model.tflite")
# The last file of each kind of export; a truncated list lacks it.
_LAST = ("variables/*", "tokenizer.model", "translation.json", "vocab.json", "vocabulary.json")


def has_checksums(directory: PathLike) -> bool:
    """Whether a directory has a list of checksums."""
    return os.path.lexists(Path(directory) / CHECKSUMS)


def is_export(directory: PathLike) -> bool:
    """Whether a directory has a list of checksums, or the files of an export without a list."""
    return any(os.path.isfile(Path(directory) / name) for name in (CHECKSUMS, *_MODELS))


def write_checksums(directory: PathLike) -> None:
    """Write the checksums of all files in a directory, recursively, to its `SHA256SUMS`."""
    directory = Path(directory)
    files = (path for path in directory.rglob("*") if path.is_file())
    paths = sorted(path for path in files if path != directory / CHECKSUMS)
    lines = [f"{checksum(path)}  {path.relative_to(directory).as_posix()}\n" for path in paths]
    write_text(directory / CHECKSUMS, "".join(lines))


def read_checksums(directory: PathLike) -> dict[str, str]:
    """Return the checksums in `SHA256SUMS` by file name; a truncated list is a UserInputError."""
    path = Path(directory) / CHECKSUMS
    text = read_small_file(path).decode("utf-8", "replace")
    if not text.endswith("\n"):
        raise UserInputError(f"{path} is damaged: its end is missing. {_ADVICE}")
    sums = {}
    for line in text.splitlines():
        digest, gap, name = line.partition("  ")
        if not gap or len(digest) != 64 or not _is_inside(name):
            raise UserInputError(f"{path} is damaged: {line[:80]!r} is not a checksum. {_ADVICE}")
        sums[name] = digest
    for name in _needed(Path(directory)):
        if name not in sums:
            raise UserInputError(f"{path} is damaged: it does not name {name}. {_ADVICE}")
    return sums


def check_files(directory: PathLike, names: Collection[str] | None = None) -> int:
    """Compare files of a directory, by default all, with `SHA256SUMS`; returns how many.

    Exports from before these checksums are accepted without a check.
    """
    directory = Path(directory)
    if not has_checksums(directory):
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


def _needed(directory: Path) -> Iterator[str]:
    """Names of the files in a directory that its list must contain."""
    for pattern in (*_MODELS, *_LAST):
        paths = sorted(path for path in directory.glob(pattern) if not path.is_dir())
        yield from (path.relative_to(directory).as_posix() for path in paths)


def _is_inside(name: str) -> bool:
    path = Path(name)
    return bool(name) and not path.is_absolute() and ".." not in path.parts and "\0" not in name
