"""Exports that are one directory each, written whole and never over existing files."""

import os
from collections.abc import Callable
from pathlib import Path

from keras_transformer.errors import UserInputError
from keras_transformer.files.whole_files import write_directory
from keras_transformer.types import PathLike


def write_new_directory(directory: PathLike, write: Callable[[Path], None]) -> Path:
    """Write a directory that must not exist, or be empty; it appears whole or not at all.

    An empty one is replaced, so it must be neither the current directory nor a mount point. `write`
    fills an empty directory. Returns the path as given.
    """
    path = Path(directory).resolve()  # gives "." a name, and keeps links

    def name() -> str:
        check_new_directory(directory)
        return path.name

    write_directory(path.parent, name, write)
    return Path(directory)


def check_new_directory(directory: PathLike) -> None:
    """Require a directory that `write_new_directory` would write, before what takes long."""
    path = Path(directory).resolve()
    if path.is_dir():
        _check_replaceable(directory, path)
    elif path.exists():
        raise UserInputError(f"{directory} is a file: name another directory.")


def _check_replaceable(directory: PathLike, path: Path) -> None:
    """Require that a new directory can take the place of the one at `path` unnoticed."""
    if any(path.iterdir()):
        raise UserInputError(f"{directory} holds files already: name another directory.")
    if path.samefile("."):  # replaced, it would leave shells in a deleted directory
        raise UserInputError(f"{directory} is the current directory: name one inside it.")
    if os.path.ismount(path):
        raise UserInputError(f"{directory} is a mount point: name a directory inside it.")
