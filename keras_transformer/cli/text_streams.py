"""Lines in and lines out, as they arrive; lines with too many tokens are reported by number."""

import codecs
import contextlib
import io
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO, TypeVar, cast

from tqdm import tqdm

from keras_transformer.errors import (
    AboutLongSentence,
    LongSentenceWarning,
    SentenceTooLong,
    UserInputError,
)
from keras_transformer.files.standard_streams import full_output, is_quiet, tell
from keras_transformer.text.text_lines import check_line_length

READ_BYTES = 1 << 16
PIECE_CHARACTERS = 1 << 22  # most characters in a piece of lines, or in a single line
STANDARD_INPUT = "standard input"  # as errors call it

Line = TypeVar("Line", str, tuple[str, str])
Answer = TypeVar("Answer")


def chunks_of_lines(stream: BinaryIO) -> Iterator[list[str]]:
    """Yield lists of the lines that have arrived on a buffered stream of UTF-8 text.

    A chunk is the result of one read: files arrive in large pieces, which batch well, and a line
    that is typed by hand or sent by a waiting program arrives at once. The lines before an error
    are yielded before it is raised.
    """
    number, length = 0, 0
    pieces: list[bytes] = []
    while data := _read(stream):
        pieces.append(data)
        length += len(data)
        if b"\n" in data:  # a line may be longer than many pieces
            *complete, rest = b"".join(pieces).split(b"\n")
            pieces, length = [rest], len(rest)
            yield from _decoded(complete, number)
            number += len(complete)
        check_line_length(f"Line {number + 1} of {STANDARD_INPUT}", length)
    if rest := b"".join(pieces):
        yield from _decoded([rest], number)


def write_lines(stream: BinaryIO, lines: Iterable[str]) -> None:
    """Write lines to a binary stream, such as `sys.stdout.buffer`, and flush it."""
    try:
        stream.write("".join(f"{line}\n" for line in lines).encode("utf-8"))
        stream.flush()
    except BrokenPipeError:  # the reader has closed the pipe
        raise
    except OSError as error:
        raise full_output(error) from error


def next_piece(lines: Iterator[Line], most: int) -> list[Line]:
    """Return at most `most` of the next lines or pairs of lines; fewer if they are very long."""
    piece: list[Line] = []
    characters = 0
    while len(piece) < most and characters < PIECE_CHARACTERS:
        line = next(lines, None)
        if line is None:
            break
        piece.append(line)
        characters += len(line) if isinstance(line, str) else sum(map(len, line))
    return piece


def line_bar(
    total: int | None, initial: int = 0, hide: bool = False, title: str | None = None
) -> tqdm:
    """Return a progress bar of lines on stderr, if it is a terminal, with `title` before it."""
    disable = hide or is_quiet() or not sys.stderr.isatty()
    return tqdm(total=total, initial=initial, unit=" lines", disable=disable, desc=title)


def _read(stream: BinaryIO) -> bytes:
    try:
        return cast(io.BufferedReader, stream).read1(READ_BYTES)  # `sys.stdin.buffer` is one
    except OSError as error:
        raise UserInputError(f"Cannot read {STANDARD_INPUT}: {error.strerror}") from error


def _decoded(lines: Sequence[bytes], lines_before: int) -> Iterator[list[str]]:
    """Yield the lines as one list of strings; at a broken line, yield those before it and raise."""
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


def answer_pieces(
    answer: Callable[[list[Line], int], Answer],
    lines: Iterable[Line],
    first_index: int,
    most: int,
    places: Mapping[str, str],
) -> Iterator[tuple[Answer, int]]:
    """Yield the answers to pieces of lines, each with the number of its lines.

    A refused line ends the iteration; the lines before it in its piece are not answered.

    Args:
        answer, first_index, places: as in `answer_lines`.
        lines: lines, or tuples of parallel lines.
        most: most lines in a piece.
    """
    rest = iter(lines)
    while piece := next_piece(rest, most):
        with told_by_line(first_index, places):
            answers = answer(piece, first_index)
        yield answers, len(piece)
        first_index += len(piece)


def answer_lines(
    answer: Callable[[list[Line], int], Answer],
    lines: list[Line],
    first_index: int,
    places: Mapping[str, str],
) -> Iterator[Answer]:
    """Yield the answer to all lines; if a line is refused, answer the lines before it, then raise.

    Args:
        answer: answers lines, given the number of lines before them; may raise `SentenceTooLong`.
        lines: the lines.
        first_index: number of lines before `lines`.
        places: the file of each argument that a `SentenceTooLong` may name.
    """
    try:
        with told_by_line(first_index, places):
            answers = answer(lines, first_index)
    except RefusedLine as error:
        if error.index:
            yield from answer_lines(answer, lines[: error.index], first_index, places)
        raise
    yield answers


class RefusedLine(UserInputError):
    """A line has too many tokens; `index` is its number among the lines to answer, from 0."""

    def __init__(self, message: str, index: int) -> None:
        super().__init__(message)
        self.index = index


@contextlib.contextmanager
def told_by_line(first_index: int, places: Mapping[str, str]) -> Iterator[None]:
    """Report long sentences by file and line: on stderr if cut or split, or as `RefusedLine`."""

    def line_of(sentence: AboutLongSentence) -> str:
        number = first_index + sentence.index + 1
        return f"Line {number} of {places[sentence.name]} {sentence.fault}"

    def show(message: Warning | str, *others: Any, **options: Any) -> None:
        if isinstance(message, LongSentenceWarning):
            tell(line_of(message))
        else:
            show_others(message, *others, **options)

    with warnings.catch_warnings():
        warnings.simplefilter("always", LongSentenceWarning)
        show_others, warnings.showwarning = warnings.showwarning, show
        try:
            yield
        except SentenceTooLong as error:
            raise RefusedLine(line_of(error), error.index) from error
