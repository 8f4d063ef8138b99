"""Errors and warnings about lines with too many tokens, by file and line number."""

import contextlib
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from keras_transformer.cli.text_streams import Line, next_piece
from keras_transformer.errors import (
    AboutLongSentence,
    LongSentenceWarning,
    SentenceTooLong,
    UserInputError,
)
from keras_transformer.files.standard_streams import tell

Answer = TypeVar("Answer")


def answer_pieces(
    answer: Callable[[list[Line], int], Answer],
    lines: Iterable[Line],
    first_index: int,
    most: int,
    places: Mapping[str, str],
) -> Iterator[tuple[Answer, int]]:
    """Yield the answers to pieces of lines, each with the number of its lines.

    A line that is refused ends it, without those before it in its piece.

    Args:
        answer, first_index, places: as of `answer_lines`.
        lines: lines, or tuples of parallel ones.
        most: lines of a piece.
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
    """Yield the answer to all lines, or, if one is refused, to those before it, and raise.

    Args:
        answer: answers lines, given the number of lines before them; may raise `SentenceTooLong`.
        lines: the lines.
        first_index: number of lines before these.
        places: the files of the arguments that a `SentenceTooLong` names.
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
    """Report long sentences by file and line: on stderr if cut or split, else as `RefusedLine`."""

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
