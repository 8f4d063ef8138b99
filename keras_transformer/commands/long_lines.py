"""Lines with too many tokens: told by their number, after the lines before them are answered."""

import contextlib
import warnings

from keras_transformer.errors import LongSentenceWarning, SentenceTooLong, UserInputError
from keras_transformer.files.standard_streams import tell


def answer_lines(answer, lines, first_index, places):
    """Yield the answers of lines: all at once, or, up to a line that is refused, those before it.

    `answer` takes a list of lines, strings or pairs of them, and may raise `SentenceTooLong`.
    `places` are the files of its arguments by name, and `first_index` the number of lines before.
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
    """A line has too many tokens; `index` is its number among those to be answered, from 0."""

    def __init__(self, message, index):
        super().__init__(message)
        self.index = index


@contextlib.contextmanager
def told_by_line(first_index, places):
    """Tell of long sentences by file and line: those that are cut or split on stderr, as they come.

    One that is refused is a `RefusedLine`.
    """

    def line_of(sentence):
        number = first_index + sentence.index + 1
        return f"Line {number} of {places[sentence.name]} {sentence.fault}"

    def show(message, *others, **options):
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
