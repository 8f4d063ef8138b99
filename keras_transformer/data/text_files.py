"""Text files, one sentence a line, plain or gzip: finding them, reading them alone and in pairs."""

import glob
import itertools
import pathlib

from keras_transformer.errors import UserInputError
from keras_transformer.files.input_files import is_read_once
from keras_transformer.text.text_lines import (
    BYTE_ORDER_MARK,
    check_line_length,
    open_bytes,
    text_lines,
)

_BLOCK_BYTES = 1 << 20


def find_text(directory, stem):
    """Find `stem` or `stem.gz` in a directory.

    Args:
        directory: where to look.
        stem: the file's name, such as `"train.en"`.

    Returns:
        A `pathlib.Path`; the plain file if both are there.

    Raises:
        UserInputError: neither is there.
    """
    directory = pathlib.Path(directory)
    for name in (stem, f"{stem}.gz"):
        if (directory / name).is_file():
            return directory / name
    raise UserInputError(f"Neither {stem} nor {stem}.gz is in {directory}")


def find_text_files(paths):
    """Expand paths and patterns to files.

    Args:
        paths: a path, a pattern such as `"news/*.en.gz"` (`**` crosses folders), or a list of
            these. A file whose name has the signs of a pattern is taken by its name.

    Returns:
        A list of `pathlib.Path`: the order of the list, the files of a pattern sorted by name.

    Raises:
        UserInputError: a path or a pattern names no file, or there is none of them.
    """
    paths = [paths] if isinstance(paths, (str, pathlib.PurePath)) else list(paths)
    if not paths:
        raise UserInputError("No text file is named")
    return list(itertools.chain.from_iterable(map(_expand, paths)))


def read_text(path):
    """Read all lines of a text file into memory, as `text_lines` does.

    Args:
        path: a file; one whose name ends in `.gz` is decompressed.

    Returns:
        A list of strings without line ends.

    Raises:
        UserInputError: as `text_lines`.
    """
    return list(text_lines(path))


def text_blocks(path):
    r"""Read the bytes of a text file in blocks, without a byte order mark, with a last `\n`.

    Together they have as many `\n` as the file has lines. Errors are as of `text_lines`.
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


def parallel_lines(source_path, target_path):
    """Yield pairs of lines of two text files, read in step; there must be as many in both."""
    sources, targets = text_lines(source_path), text_lines(target_path)
    for number, (source, target) in enumerate(itertools.zip_longest(sources, targets)):
        if source is None or target is None:
            rest = 1 + sum(1 for _ in (sources if target is None else targets))
            source_lines, target_lines = (
                number + (0 if line is None else rest) for line in (source, target)
            )
            raise unequal_lines(source_path, source_lines, target_path, target_lines)
        yield source, target


def read_parallel_text(source_path, target_path):
    """Read two text files whose lines with the same number are translations of each other.

    Args:
        source_path: file of source sentences, plain or `.gz`.
        target_path: file of target sentences, plain or `.gz`.

    Returns:
        Two lists of strings of the same length: sources and targets.

    Raises:
        UserInputError: as `text_lines`, or the files differ in their number of lines.
    """
    sources, targets = read_text(source_path), read_text(target_path)
    if len(sources) != len(targets):
        raise unequal_lines(source_path, len(sources), target_path, len(targets))
    return sources, targets


def count_lines(path):
    """Number of lines of a text file; `UserInputError` as `text_blocks`."""
    return sum(block.count(b"\n") for block in text_blocks(path))


def unequal_lines(source_path, source_lines, target_path, target_lines):
    """The `UserInputError` of two files whose lines cannot be paired."""
    return UserInputError(
        f"Parallel files must have the same number of lines: {source_path} has {source_lines}, "
        f"{target_path} has {target_lines}"
    )


def _expand(path):
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
        raise UserInputError(f"{path} is no ordinary file: a text is read more than once")
    with open_bytes(path):  # says why it cannot be read
        return [path]
