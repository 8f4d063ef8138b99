"""Line-based input and output streams of commands."""

import codecs
import contextlib
import gzip
import io
import json
import os
import shutil
import sys
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, NoReturn, Self, TypeVar, cast

import msgspec

from keras_transformer.errors import (
    AboutLongSentence,
    LongSentenceWarning,
    SentenceTooLong,
    UserInputError,
)
from keras_transformer.files import (
    file_lock,
    full_output,
    is_quiet,
    json_bytes,
    note,
    open_own_file,
    open_stream,
    tell,
    whole_file,
    write_all,
    write_json,
    writing,
)
from keras_transformer.input_files import parse_json, reading, to_record
from keras_transformer.text.text_lines import MAX_LINE_BYTES, check_line_length, open_bytes
from keras_transformer.types import PathLike

if TYPE_CHECKING:
    from tqdm import tqdm

    from keras_transformer.toolkit.cluster.line_workers import AnswerLines

READ_BYTES = 1 << 16
PIECE_CHARACTERS = 1 << 22  # maximum number of characters in a piece or in a single line
STANDARD_INPUT = "standard input"  # name in error messages

Line = TypeVar("Line", str, tuple[str, str])
Answer = TypeVar("Answer")


def chunks_of_lines(stream: BinaryIO) -> Iterator[list[str]]:
    """Yield lists of lines as they arrive on a buffered stream of UTF-8 text.

    Each chunk is the result of one read. Files are read in large pieces, which are efficient to
    batch; a line typed by a user or sent by a waiting program is yielded immediately. If an error
    occurs, the preceding lines are yielded before the error is raised.
    """
    number, length = 0, 0
    pieces: list[bytes] = []
    while data := _read(stream):
        pieces.append(data)
        length += len(data)
        if b"\n" in data:  # a line may span many pieces
            *complete, rest = b"".join(pieces).split(b"\n")
            pieces, length = [rest], len(rest)
            yield from _decoded(complete, number)
            number += len(complete)
        check_line_length(f"Line {number + 1} of {STANDARD_INPUT}", length)
    if rest := b"".join(pieces):
        yield from _decoded([rest], number)


def read_document(path: str | None) -> str:
    """Return the text of a file, or of standard input, with its line endings."""
    name = STANDARD_INPUT if path is None else path
    source = contextlib.nullcontext(sys.stdin.buffer) if path is None else open_bytes(path)
    with reading(name), source as file:
        content = file.read(MAX_LINE_BYTES + 1)
    if len(content) > MAX_LINE_BYTES:
        raise UserInputError(f"{name}: a document must have at most {MAX_LINE_BYTES:,} bytes.")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UserInputError(f"{name} is not valid UTF-8 at byte {error.start + 1}") from error


def write_lines(stream: BinaryIO, lines: Iterable[str]) -> None:
    """Write lines to a binary stream, such as `sys.stdout.buffer`, and flush the stream."""
    write_flushed(stream, "".join(f"{line}\n" for line in lines))


def write_flushed(stream: BinaryIO, text: str) -> None:
    """Write text to a binary stream and flush the stream."""
    try:
        stream.write(text.encode("utf-8"))
        stream.flush()
    except BrokenPipeError:  # the reader has closed the pipe
        raise
    except OSError as error:
        raise full_output(error) from error


def pieces_of(lines: Iterable[Line], most: int) -> Iterator[list[Line]]:
    """Yield lines or line pairs in pieces of at most `most`, or fewer if they are very long."""
    piece: list[Line] = []
    characters = 0
    for line in lines:
        piece.append(line)
        characters += len(line) if isinstance(line, str) else sum(map(len, line))
        if len(piece) == most or characters >= PIECE_CHARACTERS:
            yield piece
            piece, characters = [], 0
    if piece:
        yield piece


def line_bar(
    total: int | None, initial: int = 0, hide: bool = False, title: str | None = None
) -> "tqdm":
    """Return a progress bar for lines. It is shown only if stderr is a terminal."""
    from tqdm import tqdm  # not needed for `--help`

    disable = hide or is_quiet() or not sys.stderr.isatty()
    return tqdm(total=total, initial=initial, unit=" lines", disable=disable, desc=title)


def _read(stream: BinaryIO) -> bytes:
    try:
        return cast(io.BufferedReader, stream).read1(READ_BYTES)  # `sys.stdin.buffer` is one
    except OSError as error:
        raise UserInputError(f"Cannot read {STANDARD_INPUT}: {error.strerror}") from error


def _decoded(lines: Sequence[bytes], lines_before: int) -> Iterator[list[str]]:
    """Yield the decoded lines as one list. Lines before an invalid line are yielded first."""
    decoded: list[str] = []
    if lines and not lines_before:
        lines = [lines[0].removeprefix(codecs.BOM_UTF8), *lines[1:]]
    for number, line in enumerate(lines, start=lines_before + 1):
        try:
            decoded.append(_text(line, f"Line {number} of {STANDARD_INPUT}"))
        except UserInputError:
            if decoded:
                yield decoded
            raise
    if decoded:
        yield decoded


def _text(line: bytes, place: str) -> str:
    check_line_length(place, len(line))
    try:
        return line.decode("utf-8").removesuffix("\r")
    except UnicodeDecodeError as error:
        raise UserInputError(f"{place} is not valid UTF-8 at byte {error.start + 1}") from error


def answered(
    answer: Callable[[list[Line], int], Answer],
    pieces: Iterable[list[Line]],
    paths: Sequence[str],
    first_index: int = 0,
) -> Iterator[tuple[Answer, int]]:
    """Yield the answer to each piece and the number of lines in the piece.

    If a line is refused, the preceding lines are answered before the error is raised.

    Args:
        answer: function that answers lines, given the number of preceding lines; may raise
            `SentenceTooLong`.
        pieces: lists of lines or of parallel line pairs.
        paths: file that contains the lines, or source and target files.
        first_index: number of lines preceding the first piece.
    """
    for piece in pieces:
        try:
            with told_by_line(first_index, *paths):
                answers = answer(piece, first_index)
        except RefusedLine as error:
            if error.index:
                yield from answered(answer, [piece[: error.index]], paths, first_index)
            raise
        yield answers, len(piece)
        first_index += len(piece)


class RefusedLine(UserInputError):
    """A line has too many tokens. `index` is its zero-based index among the lines to answer."""

    def __init__(self, message: str, index: int) -> None:
        super().__init__(message)
        self.index = index


@contextlib.contextmanager
def told_by_line(first_index: int, *paths: str) -> Iterator[None]:
    """Report long sentences by file and line: on stderr if cut or split, else as `RefusedLine`.

    Targets are in the last file, and everything else is in the first file.
    """

    def place(sentence: AboutLongSentence) -> str:
        path = paths[-1 if sentence.name == "targets" else 0]
        return f"Line {first_index + sentence.index + 1} of {path}"

    with told_by(place):
        yield


@contextlib.contextmanager
def told_by(place: Callable[[AboutLongSentence], str]) -> Iterator[None]:
    """Report long sentences by their place, as `told_by_line` does."""

    def show(message: Warning | str, *others: Any, **options: Any) -> None:
        if isinstance(message, LongSentenceWarning):
            tell(f"{place(message)} {message.fault}")
        else:
            show_others(message, *others, **options)

    with warnings.catch_warnings():
        warnings.simplefilter("always", LongSentenceWarning)
        show_others, warnings.showwarning = warnings.showwarning, show
        try:
            yield
        except SentenceTooLong as error:
            raise RefusedLine(f"{place(error)} {error.fault}", error.index) from error


class _Record(msgspec.Struct):
    """The contents of `.partial-NAME.json`."""

    settings: dict[str, Any]
    lines_read: Annotated[int, msgspec.Meta(ge=0)]
    bytes: Annotated[int, msgspec.Meta(ge=0)]


class StreamedOutput:
    """Context manager that writes output lines to a pipe or a device.

    Args:
        path: pipe or device.
        total: number of input lines.
        title: title of the progress bar.

    Attributes:
        lines_read: number of input lines that the output covers.
    """

    hide = False  # whether to hide the progress bar

    def __init__(self, path: PathLike, total: int, title: str | None = None) -> None:
        self.path = Path(path)
        self.total = total
        self.title = title
        self.lines_read = 0
        self._open = contextlib.ExitStack()

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            self._file = stack.enter_context(self._opened())
            bar = line_bar(self.total, self.lines_read, self.hide, self.title)
            self._bar = stack.enter_context(bar)
            self._open = stack.pop_all()
        return self

    def __exit__(self, exception_type: type[BaseException] | None, *others: Any) -> None:
        self._open.__exit__(exception_type, *others)

    def append(self, lines: Iterable[str], lines_read: int) -> None:
        """Write the output lines for the next `lines_read` input lines."""
        with writing(self.path):
            write_all(self._file, "".join(f"{line}\n" for line in lines).encode("utf-8"))
        self.lines_read += lines_read
        self._bar.update(lines_read)

    def _opened(self) -> contextlib.AbstractContextManager[io.FileIO]:
        return open_stream(self.path)


class ResumableOutput(StreamedOutput):
    """Context manager that writes the output for an input file in pieces.

    Until it is complete, the text is kept next to the output in `.partial-NAME`, and
    `.partial-NAME.json` records how many input lines it covers. At the end of the `with` block, the
    text is renamed to the output, and compressed if the name ends in `.gz`. After an error or
    Ctrl-C, both files remain, and the same call resumes after the last piece.

    Args:
        path: output path, which must not exist.
        settings: all settings that affect the output, JSON-compatible. Resuming requires the same
            settings.
        total: number of input lines.
        title: title of the progress bar.
        hide: whether to hide the progress bar.

    Attributes:
        lines_read: number of input lines that the output covers.

    Example:
        >>> import tempfile
        >>> directory = tempfile.TemporaryDirectory()
        >>> with ResumableOutput(f"{directory.name}/out.txt", {"beam_size": 4}, total=2) as output:
        ...     output.append(["eins", "zwei"], 2)
        >>> print(open(f"{directory.name}/out.txt").read().split())
        ['eins', 'zwei']
        >>> directory.cleanup()
    """

    def __init__(
        self,
        path: PathLike,
        settings: dict[str, Any],
        total: int,
        title: str | None = None,
        *,
        hide: bool = False,
    ) -> None:
        super().__init__(path, total, title)
        self.hide = hide
        self.settings = json.loads(json_bytes(settings))  # as they will be read back
        self._text_path = self.path.with_name(f".partial-{self.path.name}")
        self._record_path = self.path.with_name(f".partial-{self.path.name}.json")
        check_new_output(self.path)
        if not self.path.parent.is_dir():
            raise UserInputError(f"The output's directory {self.path.parent} does not exist.")

    @contextlib.contextmanager
    def _opened(self) -> Iterator[io.FileIO]:
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND
        with contextlib.ExitStack() as stack:
            with writing(self.path):
                lock = self.path.with_name(f".partial-{self.path.name}.lock")
                stack.enter_context(sole_writer(self.path, lock))
                check_new_output(self.path)  # another process may have finished it meanwhile
                file = os.fdopen(open_own_file(self._text_path, flags), "r+b", buffering=0)
                stack.enter_context(file)
                file.truncate(self._resume(file))  # discards an unfinished piece
            yield file
            self._publish()

    def append(self, lines: Iterable[str], lines_read: int) -> None:
        """Write the output lines for the next `lines_read` input lines."""
        super().append(lines, lines_read)
        with writing(self.path):
            os.fsync(self._file.fileno())  # the record must never cover more than is on disk
            num_bytes = os.fstat(self._file.fileno()).st_size
        record = _Record(self.settings, self.lines_read, num_bytes)
        write_json(self._record_path, msgspec.to_builtins(record))

    def _resume(self, text: io.FileIO) -> int:
        """Set `lines_read` from the record and return the number of valid bytes in the text."""
        try:
            with os.fdopen(open_own_file(self._record_path, os.O_RDONLY), "rb") as file:
                content = file.read()
        except FileNotFoundError:
            return 0
        advice = f"Remove {self._text_path.name} and {self._record_path.name} to start over."
        parsed = parse_json(self._record_path, content, advice)
        record = to_record(self._record_path, parsed, _Record, advice)
        if os.fstat(text.fileno()).st_size < record.bytes or record.lines_read > self.total:
            raise UserInputError(
                f"The partial output {self._text_path} is damaged: it is shorter than "
                f"{self._record_path.name} records. {advice}"
            )
        check_same_settings(
            f"The partial output {self._text_path} was made",
            record.settings,
            self.settings,
            f"it and {self._record_path.name}",
        )
        self.lines_read = record.lines_read
        note(f"{self.path}: resuming after line {self.lines_read} of {self.total}")
        return record.bytes

    def _publish(self) -> None:
        with writing(self.path):
            if self.path.suffix == ".gz":
                self._compress()
                self._text_path.unlink(missing_ok=True)
            else:
                os.replace(self._text_path, self.path)
            self._record_path.unlink(missing_ok=True)

    def _compress(self) -> None:
        self._file.seek(0)
        # Without a timestamp, the same lines produce the same bytes.
        with (
            whole_file(self.path) as raw,
            gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as compressed,
        ):
            shutil.copyfileobj(self._file, compressed)


@contextlib.contextmanager
def sole_writer(path: Path, lock: Path) -> Iterator[None]:
    """Prevent other processes that use the same lock from writing to a path."""

    def refuse() -> NoReturn:
        raise UserInputError(f"Another process is writing {path}.")

    with file_lock(lock, on_wait=refuse):
        yield


def blocks_of(answer: Callable[[list[Any], int], list[str]], most: int) -> "AnswerLines":
    """Return a function that answers a cluster worker's blocks, `most` lines at a time."""

    def answer_block(lines: list[Any], paths: Sequence[str], first_index: int) -> list[str]:
        found = answered(answer, pieces_of(lines, most), paths, first_index)
        return [line for answers, _ in found for line in answers]

    return answer_block


def check_new_output(path: Path) -> None:
    """Refuse an output that already exists."""
    if path.exists():
        raise UserInputError(f"The output {path} exists. It is not overwritten.")


def check_same_settings(
    begun: str,
    before: Mapping[str, Any],
    now: Mapping[str, Any],
    files: str,
    may_differ: Collection[str] = (),
) -> None:
    """Refuse to resume an output with different settings.

    Args:
        begun: start of the error message, such as `"out.txt was made"`.
        before: settings with which the output was started.
        now: current settings.
        files: files to remove in order to start over.
        may_differ: names of settings that may differ.
    """
    names = sorted(before.keys() | now.keys())
    other = [x for x in names if before.get(x) != now.get(x) and x not in may_differ]
    if other:
        raise UserInputError(
            f"{begun} with a different {', '.join(f'`{name}`' for name in other)}. Use the same to "
            f"resume, or remove {files} to start over."
        )
