"""A bracketed line as EVALB reads it, without any cleaning of the tree."""

import dataclasses
import re

from keras_transformer.parsing.evalb_parameters import EvalbParameters
from keras_transformer.parsing.leaf import cut
from keras_transformer.parsing.tree import MAX_CHARACTERS

_QUOTATION_MARKS = ("'", '"', "/")
# `(TAG WORD)`, the opening of a constituent, its end, or text in a wrong place.
_PART = re.compile(
    r"\((?P<tag>[^\s()]*)\s+(?P<word>[^\s()]*)\)"
    r"|\((?P<label>[^\s()]*)|(?P<close>\))|(?P<stray>[^\s()]+)",
    re.ASCII,
)


@dataclasses.dataclass(slots=True)
class EvalbWord:
    """A word with its part-of-speech tag."""

    tag: str
    word: str


@dataclasses.dataclass(slots=True)
class EvalbBracket:
    """A constituent: its words are `start` to `end - 1`.

    `quotes` is the number of quotation marks before its end.
    """

    label: str
    start: int
    end: int = -1
    quotes: int = -1


@dataclasses.dataclass(slots=True)
class EvalbQuote:
    """A quotation mark: its index, and the first bracket that begins after it."""

    word: EvalbWord
    index: int
    next_bracket: int


class EvalbSentence:
    """One side of a comparison: the words and the brackets of a bracketed line.

    Words are deleted by their tags as the line is read.

    Example:
        >>> from keras_transformer.parsing.evalb_parameters import EvalbParameters
        >>> sentence = EvalbSentence("(S (NP (PRP it)) (VP (VBZ is)) (. .))", EvalbParameters())
        >>> [word.word for word in sentence.words], sentence.length, sentence.fault
        (['it', 'is'], 3, None)
    """

    def __init__(self, line: str, parameters: EvalbParameters) -> None:
        self.words: list[EvalbWord] = []
        self.brackets: list[EvalbBracket] = []
        self.quotes: list[EvalbQuote] = []
        self.length = 0  # number of words by `delete_labels_for_length`
        self.fault: str | None = None
        self._read(line, parameters)

    def _read(self, line: str, parameters: EvalbParameters) -> None:
        open_brackets = []
        if len(line) > MAX_CHARACTERS:
            self.fault = f"longer than {MAX_CHARACTERS:,} characters"
        for part in _PART.finditer(line, 0, MAX_CHARACTERS):
            kind = part.lastgroup
            if kind == "word":
                self._add_word(part["tag"], part["word"], parameters)
            elif kind == "label":
                open_brackets.append(len(self.brackets))
                self.brackets.append(EvalbBracket(part["label"], len(self.words)))
            elif kind == "stray":
                stray = cut(part["stray"])
                self.fault = self.fault or f"`{stray}` stands outside of (TAG WORD)"
            elif open_brackets:
                bracket = self.brackets[open_brackets.pop()]
                bracket.end, bracket.quotes = len(self.words), len(self.quotes)
            else:
                self.fault = self.fault or "a closing bracket too many"
        if open_brackets:
            self.fault = self.fault or f"{len(open_brackets)} closing bracket(s) missing"

    def _add_word(self, tag: str, text: str, parameters: EvalbParameters) -> None:
        word = EvalbWord(tag, text)
        if tag not in parameters.delete_labels_for_length:
            self.length += 1
        if tag in parameters.quote_labels and text in _QUOTATION_MARKS:
            self.quotes.append(EvalbQuote(word, len(self.words), len(self.brackets)))
        if tag not in parameters.delete_labels:
            self.words.append(word)

    def put_back(self, number: int) -> None:
        """Restore the deleted quotation mark `quotes[number]` as a word of the sentence."""
        quote = self.quotes[number]
        self.words.insert(quote.index, quote.word)
        for bracket in self.brackets[quote.next_bracket :]:
            bracket.start += 1
            bracket.end += 1
        for bracket in self.brackets[: quote.next_bracket]:
            if bracket.quotes > number:  # it was closed after the mark
                bracket.end += 1
        for later in self.quotes[number:]:
            later.index += 1

    def counted(self, parameters: EvalbParameters) -> list[EvalbBracket]:
        """Return the brackets to compare, in the order of the line, with labels cut at `-` or `=`.

        Brackets that are empty or have deleted labels do not count.
        """
        found = []
        for bracket in self.brackets:
            label = re.split("[-=]", bracket.label, maxsplit=1)[0]
            if bracket.start != bracket.end and not parameters.deletes_bracket(label):
                found.append(dataclasses.replace(bracket, label=label))
        return found
