"""A word of a tree with its part-of-speech tag, and what a bracketed tree can hold as text."""

import dataclasses
import re

# White space that parts the tokens of a bracketed tree. Unicode's other spaces are part of words:
# a no-break space within "1 000" must not make two words of one.
WHITE_SPACE = " \t\n\r\f\v"
_NO_SYMBOL = re.compile(rf"[(){WHITE_SPACE}]")
_NO_WORD = re.compile(rf"[{WHITE_SPACE}]")
BRACKET_NAMES = {  # the Penn Treebank's; in a bracketed tree only round ones are in the way
    "(": "-LRB-",
    ")": "-RRB-",
    "[": "-LSB-",
    "]": "-RSB-",
    "{": "-LCB-",
    "}": "-RCB-",
}
_SHOWN = 60  # characters of a text in a message
_ROUND_BRACKETS = str.maketrans({bracket: BRACKET_NAMES[bracket] for bracket in "()"})


def is_symbol(text):
    """Whether a string can be a label or tag of a bracketed tree: no bracket, no white space."""
    return isinstance(text, str) and text != "" and not _NO_SYMBOL.search(text)


def shown(value):
    """`repr(value)` for a message, cut."""
    return cut(repr(value))


def cut(text):
    """A text for a message: one that may have any length is cut."""
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


@dataclasses.dataclass(frozen=True, slots=True)
class Leaf:
    """A word and its part-of-speech tag.

    Args:
        tag: the tag, such as `"NN"`: not empty, no round bracket, no white space.
        word: the word: not empty, no white space. It may hold brackets, which are written as
            `-LRB-` and `-RRB-`.

    Raises:
        ValueError: `tag` or `word` cannot be written in a bracketed tree.

    Example:
        >>> print(Leaf("NN", "dog"), Leaf("-LRB-", "("))
        (NN dog) (-LRB- -LRB-)
    """

    tag: str
    word: str

    def __post_init__(self):
        if not is_symbol(self.tag):
            raise ValueError(
                "`tag` must be a string, not empty, without round brackets and white space. "
                f"Received: tag={shown(self.tag)}"
            )
        if not isinstance(self.word, str) or not self.word or _NO_WORD.search(self.word):
            raise ValueError(
                "`word` must be a string, not empty, without white space. "
                f"Received: word={shown(self.word)}"
            )

    def __str__(self):
        return f"({self.tag} {self.word.translate(_ROUND_BRACKETS)})"
