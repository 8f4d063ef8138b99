"""The rules by which EVALB counts, and the `.prm` files that hold them."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, Self

from keras_transformer.errors import UserInputError
from keras_transformer.parsing.leaf import cut
from keras_transformer.text.text_lines import open_bytes
from keras_transformer.types import PathLike

_SHORTEST_LINE = 3  # EVALB ignores shorter lines
# Real files have some 30 lines; each bracket is compared with every rule.
_MOST_BYTES = 100_000
_MOST_RULES = 1000
_MOST_NUMBER = 1_000_000_000


@dataclasses.dataclass(frozen=True)
class EvalbParameters:
    """The rules of one evaluation. The defaults are the same as in `COLLINS.prm`.

    Args:
        max_error: number of faulty sentences to report one by one; all are counted.
        cutoff_length: the longest sentence of the second summary.
        labeled: whether brackets with different labels differ.
        delete_labels: tags of words to delete, and labels of brackets to delete; the constituents
            within such brackets stay.
        delete_labels_for_length: tags of words that are not counted in a sentence's length.
        quote_labels: tags of quotation marks. If the numbers of words differ, marks deleted from
            only one of the trees are restored.
        equal_labels: pairs of labels that count as the same.
        equal_words: pairs of words that count as the same.

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
        """Read a parameter file. As in EVALB, rules that the file does not state are off.

        Args:
            path: a `.prm` file: lines of a keyword and its value; `#` begins a comment line.

        Returns:
            The parameters.

        Raises:
            UserInputError: the file cannot be read, or a line is not a rule of EVALB.
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
                    f"{place}: no rule of EVALB: {cut(keyword)} (known: {', '.join(_RULES)})"
                )
            field, read = _RULES[keyword]
            value = read(f"{place}: {keyword}", rest[0])
            values[field] = (*values[field], value) if read in _MANY else value
        values.pop(_IGNORED, None)
        return cls(**values)

    def equals_of(self, label: str) -> frozenset[str]:
        """Return a label and the labels that count as the same by `equal_labels`."""
        return self._equals.get(label, frozenset((label,)))

    def same_label(self, first: str, second: str) -> bool:
        """Whether two labels are the same or a pair of `equal_labels`, in either order."""
        return first == second or second in self.equals_of(first)

    def same_word(self, first: str, second: str) -> bool:
        """Whether two words are the same or a pair of `equal_words`, in either order."""
        return first == second or (first, second) in self._word_pairs

    def deletes_bracket(self, label: str) -> bool:
        """Whether brackets with this label, or with a label equal to it, are deleted."""
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
        pairs = ((first, second) for first, second in self.equal_words)
        return frozenset(both for a, b in pairs for both in ((a, b), (b, a)))

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


_MANY = (_label, _pair)  # of which a file may have several
_IGNORED = "debug"  # how much EVALB prints about each sentence
# Each keyword's field of `EvalbParameters`, and what reads its value.
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
