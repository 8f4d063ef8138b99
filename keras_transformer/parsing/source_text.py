"""The text that a parser's model reads, in training and afterwards."""

import re
from collections.abc import Iterable

from keras_transformer.parsing.leaf import BRACKET_NAMES

# The treebank escapes `/` and `*`; SentencePiece vocabularies use the block for a space.
_REPLACEMENTS = str.maketrans(BRACKET_NAMES | {"\N{LOWER ONE EIGHTH BLOCK}": "_"})
_ESCAPED = re.compile(r"\\([/*])")


def source_text(words: Iterable[str]) -> str:
    """Join a sentence's words to the text that the model reads.

    Words of a treebank and words that a user types become the same: brackets get their names in
    the Penn Treebank, and its escaped `\\/` and `\\*` lose their backslash.

    Args:
        words: words without white space.

    Returns:
        The words, separated by spaces.

    Example:
        >>> source_text(["f(x)", "is", r"1\\/2", "]"])
        'f-LRB-x-RRB- is 1/2 -RSB-'
    """
    return " ".join(_ESCAPED.sub(r"\1", word.translate(_REPLACEMENTS)) for word in words)
