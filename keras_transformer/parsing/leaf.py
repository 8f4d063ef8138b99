"""Words of trees with their part-of-speech tags, and how trees and the model spell words."""

import dataclasses
import re
from collections.abc import Iterable
from typing import TypeGuard

from keras_transformer.errors import refuse

# White space between the tokens of a bracketed tree. Unicode's other spaces are part of words: a
# no-break space in "1 000" must not split it.
WHITE_SPACE = " \t\n\r\f\v"
_NO_SYMBOL = re.compile(rf"[(){WHITE_SPACE}]")
_NO_WORD = re.compile(rf"[{WHITE_SPACE}]")
BRACKET_NAMES = {  # the Penn Treebank's; bracketed trees need only the names of round brackets
    "(": "-LRB-",
    ")": "-RRB-",
    "[": "-LSB-",
    "]": "-RSB-",
    "{": "-LCB-",
    "}": "-RCB-",
}
_SHOWN = 60  # characters of a text in a message
_ROUND_BRACKETS = str.maketrans({bracket: BRACKET_NAMES[bracket] for bracket in "()"})
# The treebank escapes `/` and `*`; SentencePiece vocabularies use the block for a space.
_REPLACEMENTS = str.maketrans(BRACKET_NAMES | {"\N{LOWER ONE EIGHTH BLOCK}": "_"})
_ESCAPED = re.compile(r"\\([/*])")


def is_symbol(text: object) -> TypeGuard[str]:
    """Whether a value can be a label or tag: nonempty, without round brackets or white space."""
    return isinstance(text, str) and text != "" and not _NO_SYMBOL.search(text)


def check_symbol(name: str, value: object) -> None:
    """Require a label or a tag."""
    if not is_symbol(value):
        refuse(name, "be a string, not empty, without round brackets and white space", value)


def shown(value: object) -> str:
    """Return `repr(value)` for a message, shortened."""
    return cut(repr(value))


def cut(text: str) -> str:
    """Return a text for a message, shortened."""
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


@dataclasses.dataclass(frozen=True, slots=True)
class Leaf:
    """A word and its part-of-speech tag.

    Args:
        tag: the tag, such as `"NN"`; not empty, without round brackets or white space.
        word: the word; not empty, without white space. Round brackets in it are written as
            `-LRB-` and `-RRB-`.

    Raises:
        ValueError: `tag` or `word` cannot be written in a bracketed tree.

    Example:
        >>> print(Leaf("NN", "dog"), Leaf("-LRB-", "("))
        (NN dog) (-LRB- -LRB-)
    """

    tag: str
    word: str

    def __post_init__(self) -> None:
        check_symbol("tag", self.tag)
        if not isinstance(self.word, str) or not self.word or _NO_WORD.search(self.word):
            refuse("word", "be a string, not empty, without white space", self.word)

    def __str__(self) -> str:
        return f"({self.tag} {self.word.translate(_ROUND_BRACKETS)})"


def source_text(words: Iterable[str]) -> str:
    """Join a sentence's words into the text that the model reads.

    Words of a treebank and words that a user types become the same: brackets get their Penn
    Treebank names, and the treebank's escaped `\\/` and `\\*` lose their backslash.

    Args:
        words: words without white space.

    Returns:
        The words, separated by spaces.

    Example:
        >>> source_text(["f(x)", "is", r"1\\/2", "]"])
        'f-LRB-x-RRB- is 1/2 -RSB-'
    """
    return " ".join(_ESCAPED.sub(r"\1", word.translate(_REPLACEMENTS)) for word in words)
