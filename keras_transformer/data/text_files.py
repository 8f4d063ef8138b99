"""Finding and reading text files with one sentence per line, plain or gzip."""

import glob
import itertools
import os
import pathlib
from collections.abc import Iterable, Iterator

from keras_transformer.errors import UserInputError
from keras_transformer.files.input_files import is_read_once
from keras_transformer.text.text_lines import (
    BYTE_ORDER_MARK,
    check_line_length,
    open_bytes,
    text_lines,
)
from keras_transformer.types import PathLike

_BLOCK_BYTES = 1 << 20


def find_text(directory: PathLike, stem: str) -> pathlib.Path:
    """Find `stem` or `stem.gz` in a directory.

    Args:
        directory: where to look.
        stem: the file's name, such as `"train.en"`.

    Returns:
        The path; the plain file's path if both exist.

    Raises:
        UserInputError: neither exists.
    """
    directory = pathlib.Path(directory)
    for name in (stem, f"{stem}.gz"):
        if (directory / name).is_file():
            return directory / name
    raise UserInputError(f"Neither {stem} nor {stem}.gz is in {directory}")


def find_text_files(paths: PathLike | Iterable[PathLike]) -> list[pathlib.Path]:
    """Expand paths and patterns to files.

    Args:
        paths: a path, a pattern such as `"news/*.en.gz"` (`**` crosses folders), or a list of
            these. The path of an existing file is not read as a pattern.

    Returns:
        The files in the order of the list; the files of a pattern are sorted by name.

    Raises:
        UserInputError: a path or a pattern matches no file, or the list is empty.
    """
    paths = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    if not paths:
        raise UserInputError("No text file is named")
    return list(itertools.chain.from_iterable(map(_expand, paths)))


def read_text(path: PathLike) -> list[str]:
    """Read all lines of a text file into memory.

    Args:
        path: a file; decompressed if its name ends in `.gz`.

    Returns:
        The lines without their line ends.

    Raises:
        UserInputError: the same errors as `text_lines`.
    """
    return list(text_lines(path))


def text_blocks(path: PathLike) -> Iterator[bytes]:
    r"""Read the bytes of a text file in blocks, without a byte order mark, with one `\n` per line.

    A missing last `\n` is added. Raises the same errors as `text_lines`.
    """
    block, lines, unfinished = b"", 0, 0
    with open_bytes(path) as file:
        while following := file.read(_BLOCK_BYTES):
            yield following if block else following.removeprefix(BYTE_ORDER_MARK)
            block = following
            lines += block.count(b"\n")
            end = block.rfind(b"\n")
            unfinished = unfinished + len(block) if end < 0 else len(block) - end - 1
            check_line_length(f"{path}, line {lines + 1}", unfinished)
    if not block:
        raise UserInputError(f"{path} is empty")
    if not block.endswith(b"\n"):
        yield b"\n"


def parallel_lines(source_path: PathLike, target_path: PathLike) -> Iterator[tuple[str, str]]:
    """Yield pairs of lines of two text files with the same number of lines."""
    sources, targets = text_lines(source_path), text_lines(target_path)
    for number, (source, target) in enumerate(itertools.zip_longest(sources, targets)):
        if source is None or target is None:
            rest = 1 + sum(1 for _ in (sources if target is None else targets))
            source_lines, target_lines = (
                number + (0 if line is None else rest) for line in (source, target)
            )
            raise unequal_lines(source_path, source_lines, target_path, target_lines)
        yield source, target


def read_parallel_text(source_path: PathLike, target_path: PathLike) -> tuple[list[str], list[str]]:
    """Read two text files whose lines are translations of each other.

    Args:
        source_path: file of source sentences, plain or `.gz`.
        target_path: file of target sentences, plain or `.gz`.

    Returns:
        `(sources, targets)`, two lists of the same length.

    Raises:
        UserInputError: the same errors as `text_lines`, or the numbers of lines differ.
    """
    sources, targets = zip(*parallel_lines(source_path, target_path), strict=True)
    return list(sources), list(targets)


def count_lines(path: PathLike) -> int:
    """Return the number of lines in a text file; raises the same errors as `text_blocks`."""
    return sum(block.count(b"\n") for block in text_blocks(path))


def unequal_lines(
    source_path: PathLike, source_lines: int, target_path: PathLike, target_lines: int
) -> UserInputError:
    """The error for two files with different numbers of lines."""
    return UserInputError(
        f"Parallel files must have the same number of lines: {source_path} has {source_lines}, "
        f"{target_path} has {target_lines}"
    )


def _expand(path: PathLike) -> list[pathlib.Path]:
    """The files of one path or pattern."""
    path = pathlib.Path(path)
    if path.is_file():
        return [path]
    if glob.has_magic(str(path)):
        found = map(pathlib.Path, sorted(glob.glob(str(path), recursive=True)))
        files = [name for name in found if name.is_file()]
        if not files:
            raise UserInputError(f"No file matches {path}")
        return files
    if is_read_once(path):
        raise UserInputError(f"{path} must be a regular file, as a text is read more than once")
    with open_bytes(path):  # says why it cannot be read
        return [path]
