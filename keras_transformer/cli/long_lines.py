"""Errors and warnings about lines with too many tokens, by file and line number."""

import contextlib
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from keras_transformer.errors import (
    AboutLongSentence,
    LongSentenceWarning,
    SentenceTooLong,
    UserInputError,
)
from keras_transformer.files.standard_streams import tell

Line = TypeVar("Line", str, tuple[str, str])
Answer = TypeVar("Answer")


def answer_lines(
    answer: Callable[[list[Line]], Answer],
    lines: list[Line],
    first_index: int,
    places: Mapping[str, str],
) -> Iterator[Answer]:
    """Yield the answer to all lines, or, if one is refused, to those before it, and raise.

    `answer` may raise `SentenceTooLong`. `places` are the files of its arguments by name, and
    `first_index` is the number of lines before these.
    """
    try:
        with told_by_line(first_index, places):
            answers = answer(lines)
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
