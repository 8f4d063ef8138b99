"""Lines of text and Parquet files, here or in an object store, in blocks of equal size."""

import contextlib
import hashlib
import io
import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from keras_transformer.errors import UserInputError
from keras_transformer.files.input_files import open_input
from keras_transformer.text.text_lines import byte_lines, decode_line, decompressed

PARQUET = ".parquet"
_BUFFER_BYTES = 1 << 20


class InputFile(msgspec.Struct, frozen=True):
    """A file of lines as it was when a job began.

    Args:
        path: a path, or the URI of a file in an object store, such as `s3://bucket/news.en.gz`.
        column: the column of a Parquet file that holds the lines.
        lines: their number.
        digest: SHA-256 of the lines.
        block_lines: number of lines of a block; the last one may have fewer.
        offsets: of a plain text file, the byte at which each block begins, and the file's end.
    """

    path: str
    column: str
    lines: int
    digest: str
    block_lines: int
    offsets: list[int] | None

    @property
    def num_blocks(self) -> int:
        """Number of blocks."""
        return -(-self.lines // self.block_lines)

    def first_line(self, block: int) -> int:
        """Number of a block's first line, from 0."""
        return block * self.block_lines

    def size(self, block: int) -> int:
        """Number of a block's lines."""
        return min(self.block_lines, self.lines - self.first_line(block))

    def read(self, blocks: Sequence[int]) -> Iterator[list[str]]:
        """Yield the lines of blocks, whose numbers rise."""
        if self.offsets is not None:
            yield from self._read_plain(blocks, self.offsets)
            return
        wanted = set(blocks)
        lines = _lines_from(self.path, self.column, self.first_line(blocks[0]))
        for block in range(blocks[0], blocks[-1] + 1):
            found = list(itertools.islice(lines, self.size(block)))
            if len(found) != self.size(block):
                raise UserInputError(f"{self.path} has become shorter since the job began.")
            if block in wanted:
                yield found

    def _read_plain(self, blocks: Sequence[int], offsets: list[int]) -> Iterator[list[str]]:
        with open_anywhere(self.path) as file:
            for block in blocks:
                start, stop = offsets[block : block + 2]
                file.seek(start)
                content = file.read(stop - start)
                first = self.first_line(block) + 1
                lines = byte_lines(self.path, io.BytesIO(content), first)
                yield [decode_line(self.path, number, x) for number, x in enumerate(lines, first)]


def scan_file(path: str, column: str, block_lines: int) -> InputFile:
    """Count the lines of a file, and find its blocks.

    Args:
        path: plain text, text whose name ends in `.gz`, or a Parquet file, whose name ends in
            `.parquet`; a path or a URI.
        column: the column of a Parquet file that holds the lines.
        block_lines: number of lines of a block.

    Raises:
        UserInputError: the file cannot be read, is empty or has no such column.
    """
    digest, lines, offsets = hashlib.sha256(), 0, [0]
    if is_parquet(path):
        for text in _rows_from(path, column, 0):
            digest.update(text.encode() + b"\n")
            lines += 1
    else:
        with open_anywhere(path) as file, decompressed(path, file) as content:
            end = 0
            for line in byte_lines(path, content):
                digest.update(line)
                lines += 1
                end += len(line)
                if lines % block_lines == 0:
                    offsets.append(end)
        if lines % block_lines:
            offsets.append(end)
    if not lines:
        raise UserInputError(f"{path} is empty")
    is_plain = not is_parquet(path) and Path(path).suffix != ".gz"
    return InputFile(
        path, column, lines, digest.hexdigest(), block_lines, offsets if is_plain else None
    )


def is_parquet(path: str) -> bool:
    """Whether the name is one of a Parquet file."""
    return path.endswith(PARQUET)


def is_uri(path: str) -> bool:
    """Whether a path names a file in an object store, such as `gs://bucket/news.en`."""
    return "://" in path


@contextlib.contextmanager
def open_anywhere(path: str) -> Iterator[io.BufferedReader]:
    """Open a file or a URI for reading bytes at any place; errors are `UserInputError`s."""
    if not is_uri(path):
        with open_input(path) as file:
            yield file
        return
    import pyarrow
    from pyarrow.fs import FileSystem

    try:
        filesystem, name = FileSystem.from_uri(path)
        with (
            filesystem.open_input_file(name) as native,
            io.BufferedReader(native, _BUFFER_BYTES) as file,
        ):
            yield file
    except (OSError, pyarrow.ArrowException) as error:
        reason = str(error).partition("\n")[0]
        raise UserInputError(f"Cannot read {path}: {reason}") from error


def _lines_from(path: str, column: str, first: int) -> Iterator[str]:
    """The lines of a file, from one of them on, whose number counts from 0."""
    if is_parquet(path):
        yield from _rows_from(path, column, first)
        return
    with open_anywhere(path) as file, decompressed(path, file) as text:
        for number, line in enumerate(byte_lines(path, text)):
            if number >= first:
                yield decode_line(path, number + 1, line)


def _rows_from(path: str, column: str, first: int) -> Iterator[str]:
    """The texts of a Parquet file's column, from a row on; a missing text is empty."""
    with _open_parquet(path, column) as parquet:
        groups: list[int] = []
        before = 0
        for group in range(parquet.metadata.num_row_groups):
            rows = parquet.metadata.row_group(group).num_rows
            if groups or before + rows > first:
                groups.append(group)
            else:
                before += rows
        texts = (
            text
            for batch in parquet.iter_batches(row_groups=groups, columns=[column])
            for text in batch.column(0).to_pylist()
        )
        for text in itertools.islice(texts, first - before, None):
            yield "" if text is None else text


@contextlib.contextmanager
def _open_parquet(path: str, column: str) -> Iterator[Any]:
    import pyarrow
    from pyarrow import parquet, types

    try:
        with open_anywhere(path) as file, parquet.ParquetFile(file) as opened:
            schema = opened.schema_arrow
            index = schema.get_field_index(column)
            is_text = index >= 0 and (
                types.is_string(schema.field(index).type)
                or types.is_large_string(schema.field(index).type)
            )
            if not is_text:
                raise UserInputError(
                    f"{path} has no column of texts named {column!r}, but {', '.join(schema.names)}"
                )
            yield opened
    except pyarrow.ArrowException as error:
        reason = str(error).partition("\n")[0]
        raise UserInputError(f"Cannot read {path}: {reason}") from error
