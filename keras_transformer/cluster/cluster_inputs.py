"""Lines of text and Parquet files, on disk or in an object store, in blocks of equal size."""

import contextlib
import hashlib
import io
import itertools
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

import msgspec

from keras_transformer.errors import UserInputError
from keras_transformer.files.input_files import open_input
from keras_transformer.text.text_lines import byte_lines, decode_line, decompressed

PARQUET = ".parquet"
_BUFFER_BYTES = 1 << 20


class FilePart(NamedTuple):
    """Blocks of a file, for reading.

    Args:
        path, column: as in `InputFile`.
        blocks: for each block, the number of its first line, from 0, and its number of lines; in
            ascending order.
        spans: the bytes at which each block begins and ends, for a plain text file.
        checksums: checksums of the lines of each block.
    """

    path: str
    column: str
    blocks: list[tuple[int, int]]
    spans: list[tuple[int, int]] | None
    checksums: list[int]

    def read(self) -> Iterator[list[str]]:
        """Yield the lines of each block.

        Raises:
            UserInputError: the file cannot be read, or has changed its lines since it was scanned.
        """
        found = self._read_on() if self.spans is None else self._read_spans(self.spans)
        for lines, expected in zip(found, self.checksums, strict=True):
            if _checksum(lines) != expected:
                raise UserInputError(
                    f"{self.path} changed while the job was running. Restore the file, and run the "
                    "same command to resume."
                )
            yield lines

    def _read_on(self) -> Iterator[list[str]]:
        """Read the file, starting at the first block."""
        behind = self.blocks[0][0]
        lines = _lines_from(self.path, self.column, behind)
        for first, number in self.blocks:
            yield list(itertools.islice(lines, first - behind, first - behind + number))
            behind = first + number

    def _read_spans(self, spans: list[tuple[int, int]]) -> Iterator[list[str]]:
        with open_anywhere(self.path) as file:
            for (first, _), (start, stop) in zip(self.blocks, spans, strict=True):
                file.seek(start)
                content = io.BytesIO(file.read(stop - start))
                lines = enumerate(byte_lines(self.path, content, first + 1), first + 1)
                yield [decode_line(self.path, number, line) for number, line in lines]


class InputFile(msgspec.Struct, frozen=True, omit_defaults=True):
    """A file of lines as it was when a job began.

    Args:
        path: a path, or the URI of a file in an object store, such as `s3://bucket/news.en.gz`.
        column: the column of a Parquet file that contains the lines.
        lines: number of lines.
        digest: SHA-256 of the lines.
        block_lines: number of lines in a block; the last block may have fewer.
        offsets: the byte at which each block begins, and the file's end, for a plain text file.
        checksums: checksums of the lines of each block. A job's record has neither `offsets` nor
            `checksums`.
    """

    path: str
    column: str
    lines: int
    digest: str
    block_lines: int
    offsets: list[int] | None
    checksums: list[int] | None = None

    @property
    def num_blocks(self) -> int:
        """Number of blocks."""
        return -(-self.lines // self.block_lines)

    def first_line(self, block: int) -> int:
        """Return the number of a block's first line, from 0."""
        return block * self.block_lines

    def size(self, block: int) -> int:
        """Return the number of lines in a block."""
        return min(self.block_lines, self.lines - self.first_line(block))

    def part(self, blocks: Sequence[int]) -> FilePart:
        """Return some of the blocks, in ascending order: small, however long the file is."""
        lines = [(self.first_line(block), self.size(block)) for block in blocks]
        spans = None
        if (offsets := self.offsets) is not None:
            spans = [(offsets[block], offsets[block + 1]) for block in blocks]
        assert self.checksums is not None
        checksums = [self.checksums[block] for block in blocks]
        return FilePart(self.path, self.column, lines, spans, checksums)


def scan_file(path: str, column: str, block_lines: int) -> InputFile:
    """Count the lines of a file, and find its blocks.

    Args:
        path: plain text, text whose name ends in `.gz`, or a Parquet file, whose name ends in
            `.parquet`; a path or a URI.
        column: the column of a Parquet file that contains the lines.
        block_lines: number of lines in a block.

    Raises:
        UserInputError: the file cannot be read, is empty or does not have the column, or a line is
            not UTF-8.
    """
    digest = hashlib.sha256()
    lines = end = checksum = 0
    offsets, checksums = [0], []
    for content, line in _contents(path, column):
        digest.update(content)
        checksum = _checksum([line], checksum)
        lines += 1
        end += len(content)
        if lines % block_lines == 0:
            offsets.append(end)
            checksums.append(checksum)
            checksum = 0
    if not lines:
        raise UserInputError(f"{path} is empty")
    if lines % block_lines:
        offsets.append(end)
        checksums.append(checksum)
    is_plain = Path(path_of(path)).suffix not in (".gz", PARQUET)
    return InputFile(
        path,
        column,
        lines,
        digest.hexdigest(),
        block_lines,
        offsets if is_plain else None,
        checksums,
    )


def is_parquet(path: str) -> bool:
    """Whether a path names a Parquet file."""
    return path_of(path).endswith(PARQUET)


def is_uri(path: str) -> bool:
    """Whether a path names a file in an object store, such as `gs://bucket/news.en`."""
    return "://" in path


def path_of(path: str) -> str:
    """Return a path unchanged, or the path of a URI.

    Example:
        >>> path_of("s3://bucket/web/news.en.gz?region=eu-north-1")
        '/web/news.en.gz'

    Raises:
        UserInputError: the URI has a password, which files and error messages would show.
    """
    if not is_uri(path):
        return path
    try:
        parts = urlsplit(path)
    except ValueError as error:
        raise UserInputError(f"Cannot read {path}: {error}") from error
    if parts.password is not None:
        raise UserInputError(
            "A URI must not have a password: set it in the variables or files of the object "
            f"store. Received: {parts.scheme}://{parts.username}:...@{parts.hostname}{parts.path}"
        )
    return unquote(parts.path)


@contextlib.contextmanager
def open_anywhere(path: str) -> Iterator[io.BufferedReader]:
    """Open a file or a URI for reading bytes at any position; errors are `UserInputError`s."""
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


def _contents(path: str, column: str) -> Iterator[tuple[bytes, str]]:
    """Yield the lines of a file, as bytes and as text."""
    if is_parquet(path):
        for row in _rows_from(path, column, 0):
            yield row.encode() + b"\n", row
        return
    with _open_text(path) as text:
        for number, line in enumerate(byte_lines(path, text), 1):
            yield line, decode_line(path, number, line)  # fails now, not in an hour


def _checksum(lines: Iterable[str], before: int = 0) -> int:
    """Return the CRC-32 of lines; `before` is the CRC-32 of the lines before them."""
    for line in lines:
        before = zlib.crc32(f"{line}\n".encode(), before)
    return before


@contextlib.contextmanager
def _open_text(path: str) -> Iterator[io.BufferedIOBase]:
    """Open a text file, decompressed if its name ends in `.gz`."""
    with open_anywhere(path) as file, decompressed(path_of(path), file) as text:
        yield text


def _lines_from(path: str, column: str, first: int) -> Iterator[str]:
    """Yield the lines of a file, starting at line `first`, counted from 0."""
    if is_parquet(path):
        yield from _rows_from(path, column, first)
        return
    with _open_text(path) as text:
        for number, line in enumerate(byte_lines(path, text)):
            if number >= first:
                yield decode_line(path, number + 1, line)


def _rows_from(path: str, column: str, first: int) -> Iterator[str]:
    """Yield the texts in a column of a Parquet file, starting at row `first`; null is empty."""
    with _open_parquet(path, column) as parquet:
        groups: list[int] = []
        before = 0
        for group in range(parquet.metadata.num_row_groups):
            rows = parquet.metadata.row_group(group).num_rows
            if groups or before + rows > first:
                groups.append(group)
            else:
                before += rows
        batches = parquet.iter_batches(row_groups=groups, columns=[column])
        texts = itertools.chain.from_iterable(_texts(path, batches, before))
        for text in itertools.islice(texts, first - before, None):
            yield "" if text is None else text


def _texts(path: str, batches: Iterable[Any], before: int) -> Iterator[list[str | None]]:
    """Yield the texts in batches of rows; `before` is the number of rows before them."""
    for batch in batches:
        try:
            yield batch.column(0).to_pylist()
        except UnicodeDecodeError as error:  # Arrow does not check earlier
            rows = f"rows {before + 1:,} to {before + batch.num_rows:,}"
            raise UserInputError(f"{path}, {rows}: a text is not UTF-8: {error.reason}") from error
        before += batch.num_rows


@contextlib.contextmanager
def _open_parquet(path: str, column: str) -> Iterator[Any]:
    import pyarrow
    from pyarrow import parquet, types

    try:
        with open_anywhere(path) as file, parquet.ParquetFile(file) as opened:
            schema = opened.schema_arrow
            index = schema.get_field_index(column)
            kind = schema.field(index).type if index >= 0 else None
            if kind is not None and types.is_dictionary(kind):
                kind = kind.value_type
            if kind is None or not (types.is_string(kind) or types.is_large_string(kind)):
                raise UserInputError(
                    f"{path} has no text column named {column!r}, but {', '.join(schema.names)}"
                )
            yield opened
    except pyarrow.ArrowException as error:
        reason = str(error).partition("\n")[0]
        raise UserInputError(f"Cannot read {path}: {reason}") from error
