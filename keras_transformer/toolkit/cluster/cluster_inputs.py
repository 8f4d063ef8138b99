"""Lines of text and Parquet files, on disk or in object stores, divided into equal parts."""

import contextlib
import hashlib
import io
import itertools
import zlib
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

import msgspec

from keras_transformer.errors import UserInputError
from keras_transformer.input_files import open_input
from keras_transformer.text.text_lines import byte_lines, decode_line, decompressed

PARQUET = ".parquet"
_BUFFER_BYTES = 1 << 20


class InputFile(msgspec.Struct, frozen=True):
    """The state of an input file when a job started.

    Args:
        path: path, or URI of a file in an object store, such as `s3://bucket/news.en.gz`.
        column: the column of a Parquet file that contains the lines.
        lines: number of lines.
        digest: SHA-256 of the lines.
    """

    path: str
    column: str
    lines: int
    digest: str


class ScannedFile(NamedTuple):
    """A file, the number of lines in each part except the last, and the checksums of the parts."""

    file: InputFile
    part_lines: int
    checksums: list[int]

    def num_parts(self, first: int) -> int:
        """Return the number of parts starting at line `first`."""
        return len(self.checksums) - first // self.part_lines

    def parts(self, first: int) -> Iterator[list[str]]:
        """Yield the lines of each part, starting at line `first`, which must start a part.

        Raises:
            UserInputError: the file cannot be read, or its lines have changed since the scan.
        """
        path = self.file.path
        contents = itertools.islice(_contents(path, self.file.column), first, None)
        lines = (line for _, line in contents)
        for checksum in self.checksums[first // self.part_lines :]:
            part = list(itertools.islice(lines, self.part_lines))
            if _checksum(part) != checksum:
                raise UserInputError(
                    f"{path} changed while the job was running. Restore the file, and rerun the "
                    "same command to resume."
                )
            yield part


def scan_file(path: str, column: str, part_lines: int) -> ScannedFile:
    """Scan a file by reading it completely once.

    Args:
        path: path or URI of a plain-text file, a compressed text file (`.gz`) or a Parquet file
            (`.parquet`).
        column: the column of a Parquet file that contains the lines.
        part_lines: number of lines in a part.

    Raises:
        UserInputError: the file cannot be read, is empty, lacks the column or is not valid UTF-8.
    """
    digest = hashlib.sha256()
    lines, checksums = 0, []
    for content, line in _contents(path, column):
        digest.update(content)
        if lines % part_lines == 0:
            checksums.append(0)
        checksums[-1] = _checksum([line], checksums[-1])
        lines += 1
    if not lines:
        raise UserInputError(f"{path} is empty")
    file = InputFile(path, column, lines, digest.hexdigest())
    return ScannedFile(file, part_lines, checksums)


def is_parquet(path: str) -> bool:
    """Return whether a path refers to a Parquet file."""
    return path_of(path).endswith(PARQUET)


def is_uri(path: str) -> bool:
    """Return whether a path is a URI in an object store, such as `gs://bucket/news.en`."""
    return "://" in path


def path_of(path: str) -> str:
    """Return the path component of a URI. Other paths are returned unchanged.

    Example:
        >>> path_of("s3://bucket/web/news.en.gz?region=eu-north-1")
        '/web/news.en.gz'

    Raises:
        UserInputError: the URI contains a password, which files and error messages would reveal.
    """
    if not is_uri(path):
        return path
    try:
        parts = urlsplit(path)
    except ValueError as error:
        raise UserInputError(f"Cannot read {path}: {error}") from error
    if parts.password is not None:
        raise UserInputError(
            "A URI must not contain a password: set it in the variables or files of the object "
            f"store. Received: {parts.scheme}://{parts.username}:...@{parts.hostname}{parts.path}"
        )
    return unquote(parts.path)


@contextlib.contextmanager
def open_anywhere(path: str) -> Iterator[io.BufferedReader]:
    """Open a file or a URI for random-access reading. Errors are raised as `UserInputError`s."""
    import pyarrow
    from pyarrow.fs import FileSystem

    try:
        with contextlib.ExitStack() as stack:
            if is_uri(path):
                filesystem, name = FileSystem.from_uri(path)
                native = stack.enter_context(filesystem.open_input_file(name))
                yield stack.enter_context(io.BufferedReader(native, _BUFFER_BYTES))
            else:
                yield stack.enter_context(open_input(path))
    except (OSError, pyarrow.ArrowException) as error:
        reason = str(error).partition("\n")[0]
        raise UserInputError(f"Cannot read {path}: {reason}") from error


def _contents(path: str, column: str) -> Iterator[tuple[bytes, str]]:
    """Yield the lines of a file as pairs of bytes and text."""
    if is_parquet(path):
        for row in _rows(path, column):
            yield row.encode() + b"\n", row
        return
    with open_anywhere(path) as file, decompressed(path_of(path), file) as text:
        for number, line in enumerate(byte_lines(path, text), 1):
            yield line, decode_line(path, number, line)


def _checksum(lines: Iterable[str], before: int = 0) -> int:
    """Return the CRC-32 of lines. `before` is the CRC-32 of the preceding lines."""
    for line in lines:
        before = zlib.crc32(f"{line}\n".encode(), before)
    return before


def _rows(path: str, column: str) -> Iterator[str]:
    """Yield the texts in a column of a Parquet file. Null values become empty texts."""
    before = 0
    with _open_parquet(path, column) as parquet:
        for batch in parquet.iter_batches(columns=[column]):
            last = before + batch.num_rows
            try:
                texts = batch.column(0).to_pylist()
            except UnicodeDecodeError as error:  # Arrow does not check this when reading
                raise UserInputError(
                    f"{path}, rows {before + 1:,} to {last:,}: a text is not UTF-8: {error.reason}"
                ) from error
            yield from ("" if text is None else text for text in texts)
            before = last


@contextlib.contextmanager
def _open_parquet(path: str, column: str) -> Iterator[Any]:
    from pyarrow import parquet, types

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
