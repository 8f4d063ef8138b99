"""A bracketed line as EVALB reads it, without any cleaning of the tree."""

import dataclasses
import re

from keras_transformer.parsing.evalb_parameters import EvalbParameters
from keras_transformer.parsing.leaf import cut
from keras_transformer.parsing.tree import MAX_CHARACTERS

# Marks of words and brackets in EVALB's debug output.
UNMATCHED, MATCHED, DELETED, UNDEFINED = 0, 1, 5, 9

_MOST_TEXT = 10_000
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
    result: int = UNDEFINED


@dataclasses.dataclass(slots=True)
class EvalbBracket:
    """A constituent: its words are `start` to `end - 1`, its text is a slice of the line.

    `quotes` is the number of quotation marks before its end.
    """

    label: str
    start: int
    text_start: int
    end: int = -1
    text_end: int = -1
    quotes: int = -1
    result: int = UNDEFINED


@dataclasses.dataclass(slots=True)
class EvalbQuote:
    """A quotation mark: its index, and the first bracket that begins after it."""

    word: EvalbWord
    index: int
    next_bracket: int


class EvalbSentence:
    """One side of a comparison: the words and the brackets of a bracketed line.

    Words are deleted by their tags as the line is read. `prepare_brackets` deletes brackets and
    cuts labels once the words of both sides are known to agree.

    Example:
        >>> from keras_transformer.parsing.evalb_parameters import EvalbParameters
        >>> sentence = EvalbSentence("(S (NP (PRP it)) (VP (VBZ is)) (. .))", EvalbParameters())
        >>> [word.word for word in sentence.words], sentence.length, sentence.fault
        (['it', 'is'], 3, None)
    """

    def __init__(self, line: str, parameters: EvalbParameters) -> None:
        self.line = line
        self.words: list[EvalbWord] = []
        self.brackets: list[EvalbBracket] = []
        self.quotes: list[EvalbQuote] = []
        self.length = 0  # number of words by `delete_labels_for_length`
        self.fault: str | None = None
        self._read(parameters)

    def _read(self, parameters: EvalbParameters) -> None:
        open_brackets = []
        if len(self.line) > MAX_CHARACTERS:
            self.fault = f"longer than {MAX_CHARACTERS:,} characters"
        for part in _PART.finditer(self.line, 0, MAX_CHARACTERS):
            kind = part.lastgroup
            if kind == "word":
                self._add_word(part["tag"], part["word"], parameters)
            elif kind == "label":
                open_brackets.append(len(self.brackets))
                self.brackets.append(EvalbBracket(part["label"], len(self.words), part.end()))
            elif kind == "stray":
                stray = cut(part["stray"])
                self.fault = self.fault or f"`{stray}` stands outside of (TAG WORD)"
            elif open_brackets:
                bracket = self.brackets[open_brackets.pop()]
                bracket.end, bracket.text_end = len(self.words), part.start()
                bracket.quotes = len(self.quotes)
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

    def prepare_brackets(self, parameters: EvalbParameters) -> None:
        """Cut labels at `-` or `=`, and delete brackets that are empty or have deleted labels."""
        for bracket in self.brackets:
            bracket.result = UNMATCHED
            if bracket.start == bracket.end:
                bracket.result = DELETED
                continue
            bracket.label = re.split("[-=]", bracket.label, maxsplit=1)[0]
            if parameters.deletes_bracket(bracket.label):
                bracket.result = DELETED

    def counted(self) -> list[EvalbBracket]:
        """Return the brackets that were not deleted, in the order of the line."""
        return [bracket for bracket in self.brackets if bracket.result != DELETED]

    def text_of(self, bracket: EvalbBracket) -> str:
        """Return the text between a bracket's label and its end, at most 10,000 characters."""
        return self.line[bracket.text_start : bracket.text_end][:_MOST_TEXT]
