"""EVALB counting: the rules of `.prm` files, sentence scores, and summaries."""

import dataclasses
import functools
import re
from collections.abc import Callable, Iterable
from typing import Any, Self

from keras_transformer.errors import UserInputError
from keras_transformer.parsing.tree import MAX_CHARACTERS, cut
from keras_transformer.text.text_lines import open_bytes
from keras_transformer.types import PathLike

_SHORTEST_LINE = 3  # EVALB ignores shorter lines
# Real files have about 30 lines. Each bracket is compared with every rule.
_MOST_BYTES = 100_000
_MOST_RULES = 1000
_MOST_NUMBER = 1_000_000_000


@dataclasses.dataclass(frozen=True)
class EvalbParameters:
    """The rules of an evaluation, which default to the rules in `COLLINS.prm`.

    Args:
        max_error: maximum number of faulty sentences to report individually; all are counted.
        cutoff_length: maximum sentence length for the second summary.
        labeled: whether brackets with different labels count as different.
        delete_labels: tags of words to delete, and labels of brackets to delete. The constituents
            within a deleted bracket are kept.
        delete_labels_for_length: tags of words to exclude from the sentence length.
        quote_labels: tags of quotation marks. If the numbers of words differ, marks that were
            deleted from only one of the trees are restored.
        equal_labels: pairs of labels that count as equal.
        equal_words: pairs of words that count as equal.

    Example:
        >>> EvalbParameters().equal_labels
        (('ADVP', 'PRT'),)
    """

    max_error: int = 10
    cutoff_length: int = 40
    labeled: bool = True
    delete_labels: tuple[str, ...] = ("TOP", "-NONE-", ",", ":", "``", "''", ".")
    delete_labels_for_length: tuple[str, ...] = ("-NONE-",)
    quote_labels: tuple[str, ...] = ()
    equal_labels: tuple[tuple[str, str], ...] = (("ADVP", "PRT"),)
    equal_words: tuple[tuple[str, str], ...] = ()

    @classmethod
    def read(cls, path: PathLike) -> Self:
        """Read a parameter file. As in EVALB, rules that the file omits are disabled.

        Args:
            path: `.prm` file with a keyword and its value per line; `#` starts a comment line.

        Returns:
            The parameters.

        Raises:
            UserInputError: the file cannot be read, or a line is not an EVALB rule.
        """
        rules = [
            (number, line)
            for number, line in enumerate(_lines(path), start=1)
            if not line.startswith("#") and len(line) >= _SHORTEST_LINE
        ]
        if len(rules) > _MOST_RULES:
            raise UserInputError(
                f"{path} must have at most {_MOST_RULES:,} rules. Received: {len(rules):,}"
            )
        values: dict[str, Any] = {field: () for field, read in _RULES.values() if read in _MANY}
        for number, line in rules:
            keyword, *rest = line.split(maxsplit=1)
            place = f"{path}, line {number}"
            if not rest:
                raise UserInputError(f"{place}: {cut(keyword)} has no value")
            if keyword not in _RULES:
                raise UserInputError(
                    f"{place}: not a rule of EVALB: {cut(keyword)} (known: {', '.join(_RULES)})"
                )
            field, read = _RULES[keyword]
            value = read(f"{place}: {keyword}", rest[0])
            values[field] = (*values[field], value) if read in _MANY else value
        values.pop(_IGNORED, None)
        return cls(**values)

    def equals_of(self, label: str) -> frozenset[str]:
        """Return a label and all labels that are equal to it according to `equal_labels`."""
        return self._equals.get(label, frozenset((label,)))

    def same_label(self, first: str, second: str) -> bool:
        """Whether two labels are identical or form a pair in `equal_labels`, in either order."""
        return first == second or second in self.equals_of(first)

    def same_word(self, first: str, second: str) -> bool:
        """Whether two words are identical or form a pair in `equal_words`, in either order."""
        return first == second or (first, second) in self._word_pairs

    def deletes_bracket(self, label: str) -> bool:
        """Whether brackets with this label or an equal label are deleted."""
        return not self._deleted.isdisjoint(self.equals_of(label))

    @functools.cached_property
    def _equals(self) -> dict[str, frozenset[str]]:
        found: dict[str, set[str]] = {}
        for first, second in self.equal_labels:
            found.setdefault(first, {first}).add(second)
            found.setdefault(second, {second}).add(first)
        return {label: frozenset(labels) for label, labels in found.items()}

    @functools.cached_property
    def _word_pairs(self) -> frozenset[tuple[str, str]]:
        return frozenset(both for a, b in self.equal_words for both in ((a, b), (b, a)))

    @functools.cached_property
    def _deleted(self) -> frozenset[str]:
        return frozenset(self.delete_labels)


def _lines(path: PathLike) -> list[str]:
    with open_bytes(path) as file:
        data = file.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise UserInputError(f"{path} must be a parameter file of at most {_MOST_BYTES:,} bytes")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UserInputError(f"{path} must be a parameter file: it is not UTF-8") from error
    return [line.rstrip() for line in text.split("\n")]


def _number(place: str, value: str) -> int:
    try:
        number = int(value.split()[0])
    except ValueError as error:
        raise UserInputError(f"{place} must be an integer: {cut(value)}") from error
    if not 0 <= number <= _MOST_NUMBER:
        rule = "an integer >= 0" if number < 0 else f"at most {_MOST_NUMBER:,}"
        raise UserInputError(f"{place} must be {rule}: {cut(value)}")
    return number


def _switch(place: str, value: str) -> bool:
    return bool(_number(place, value))


def _label(place: str, value: str) -> str:
    return value


def _pair(place: str, value: str) -> tuple[str, ...]:
    pair = tuple(value.split())
    if len(pair) != 2:
        raise UserInputError(f"{place} needs two values: {cut(value)}")
    return pair


_MANY = (_label, _pair)  # may occur several times in a file
_IGNORED = "debug"  # verbosity of EVALB
# The `EvalbParameters` field for each keyword, and the function that parses its value.
_RULES: dict[str, tuple[str, Callable[[str, str], Any]]] = {
    "DEBUG": (_IGNORED, _number),
    "MAX_ERROR": ("max_error", _number),
    "CUTOFF_LEN": ("cutoff_length", _number),
    "LABELED": ("labeled", _switch),
    "DELETE_LABEL": ("delete_labels", _label),
    "DELETE_LABEL_FOR_LENGTH": ("delete_labels_for_length", _label),
    "QUOTE_LABEL": ("quote_labels", _label),
    "EQ_LABEL": ("equal_labels", _pair),
    "EQ_WORD": ("equal_words", _pair),
}


_QUOTATION_MARKS = ("'", '"', "/")
# `(TAG WORD)`, the start or end of a constituent, or misplaced text.
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
    """A constituent that spans the words `start` to `end - 1`.

    `quotes` is the number of quotation marks before its end.
    """

    label: str
    start: int
    end: int = -1
    quotes: int = -1


@dataclasses.dataclass(slots=True)
class EvalbQuote:
    """A quotation mark, deleted or not, its index and the first bracket that starts after it."""

    word: EvalbWord
    index: int
    next_bracket: int


class EvalbSentence:
    """The words and brackets of one of the two bracketed lines to compare.

    Words with deleted tags are removed as the line is read.

    Example:
        >>> from keras_transformer.parsing.evalb_scores import EvalbParameters
        >>> sentence = EvalbSentence("(S (NP (PRP it)) (VP (VBZ is)) (. .))", EvalbParameters())
        >>> [word.word for word in sentence.words], sentence.length, sentence.fault
        (['it', 'is'], 3, None)
    """

    def __init__(self, line: str, parameters: EvalbParameters) -> None:
        self.words: list[EvalbWord] = []
        self.brackets: list[EvalbBracket] = []
        self.quotes: list[EvalbQuote] = []
        self.length = 0  # number of words whose tags are not in `delete_labels_for_length`
        self.fault: str | None = None
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
                self.fault = self.fault or f"`{stray}` is outside of (TAG WORD)"
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
            if bracket.quotes > number:  # closed after the mark
                bracket.end += 1
        for later in self.quotes[number:]:
            later.index += 1

    def counted(self, parameters: EvalbParameters) -> list[EvalbBracket]:
        """Return the brackets to compare, in line order, with labels cut at `-` or `=`.

        Brackets that are empty or have deleted labels do not count.
        """
        found = []
        for bracket in self.brackets:
            label = re.split("[-=]", bracket.label, maxsplit=1)[0]
            if bracket.start != bracket.end and not parameters.deletes_bracket(label):
                found.append(dataclasses.replace(bracket, label=label))
        return found


VALID, ERROR, SKIPPED = 0, 1, 2
_ADDED = ("matched", "gold_brackets", "test_brackets", "crossing", "words", "correct_tags")


@dataclasses.dataclass(frozen=True)
class SentenceScore:
    """The scores of a sentence, in the order of EVALB's table.

    Args:
        length: number of words in the gold tree, including punctuation.
        status: 0 for a valid sentence, 1 for an error, 2 for a missing parser tree.
        matched: number of brackets that occur in both trees.
        gold_brackets: number of brackets in the gold tree.
        test_brackets: number of brackets in the parser's tree.
        crossing: number of the parser's brackets that cross a gold bracket.
        words: number of words after deletion.
        correct_tags: number of words whose tags in both trees count as equal.
        fault: description of the error in a faulty sentence.
    """

    length: int
    status: int = VALID
    matched: int = 0
    gold_brackets: int = 0
    test_brackets: int = 0
    crossing: int = 0
    words: int = 0
    correct_tags: int = 0
    fault: str | None = None

    @property
    def recall(self) -> float:
        """Percentage of the gold tree's brackets that match."""
        return percent(self.matched, self.gold_brackets)

    @property
    def precision(self) -> float:
        """Percentage of the parser tree's brackets that match."""
        return percent(self.matched, self.test_brackets)

    @property
    def tagging_accuracy(self) -> float:
        """Percentage of correct tags."""
        return percent(self.correct_tags, self.words)


@dataclasses.dataclass(frozen=True)
class EvalbSummary:
    """Unrounded scores of many sentences; percentages where EVALB prints percentages.

    Division by zero results in 0.
    """

    sentences: int
    error: int
    skipped: int
    valid: int
    recall: float
    precision: float
    f1: float
    complete_match: float
    average_crossing: float
    no_crossing: float
    two_or_less_crossing: float
    tagging_accuracy: float

    def as_dict(self) -> dict[str, Any]:
        """Return the scores as a JSON-compatible dictionary, rounded to two decimal places."""
        values = dataclasses.asdict(self)
        return {
            name: round(value, 2) if isinstance(value, float) else value
            for name, value in values.items()
        }


def summary(scores: Iterable[SentenceScore]) -> EvalbSummary:
    """Summarize sentence scores. Invalid sentences contribute only to the status counts."""
    scores = list(scores)
    valid, totals = _valid(scores), added(scores)
    recall, precision = totals.recall, totals.precision
    both = precision + recall
    return EvalbSummary(
        sentences=len(scores),
        error=sum(score.status == ERROR for score in scores),
        skipped=sum(score.status == SKIPPED for score in scores),
        valid=len(valid),
        recall=recall,
        precision=precision,
        f1=2 * precision * recall / both if both else 0.0,
        complete_match=_share(
            score.gold_brackets == score.test_brackets == score.matched for score in valid
        ),
        average_crossing=totals.crossing / len(valid) if valid else 0.0,
        no_crossing=_share(score.crossing == 0 for score in valid),
        two_or_less_crossing=_share(score.crossing <= 2 for score in valid),
        tagging_accuracy=totals.tagging_accuracy,
    )


def added(scores: Iterable[SentenceScore]) -> SentenceScore:
    """Return the sums over valid sentences."""
    valid = _valid(scores)
    return SentenceScore(0, **{name: sum(getattr(one, name) for one in valid) for name in _ADDED})


def _valid(scores: Iterable[SentenceScore]) -> list[SentenceScore]:
    return [score for score in scores if score.status == VALID]


def _share(are_true: Iterable[bool]) -> float:
    """Return the percentage of true values."""
    values = list(are_true)
    return percent(sum(values), len(values))


def percent(part: float, whole: float) -> float:
    """Return `part` as a percentage of `whole`, or 0 if `whole` is 0."""
    return 100.0 * part / whole if whole else 0.0
