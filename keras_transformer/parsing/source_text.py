"""What a parser's model reads of a sentence, in training and afterwards."""

import re

from keras_transformer.parsing.leaf import BRACKET_NAMES

# The treebank escapes these two; in a SentencePiece vocabulary the block stands for a space.
_REPLACEMENTS = str.maketrans(BRACKET_NAMES | {"\N{LOWER ONE EIGHTH BLOCK}": "_"})
_ESCAPED = re.compile(r"\\([/*])")


def source_text(words):
    """Join a sentence's words to the text that is cut into subwords.

    Words of a treebank and words that a user types become the same: brackets are named as the Penn
    Treebank names them, and its escaped `\\/` and `\\*` lose their backslash. Each word stays one.

    Args:
        words: list of strings without white space.

    Returns:
        A string with a space between two words.

    Example:
        >>> source_text(["f(x)", "is", r"1\\/2", "]"])
        'f-LRB-x-RRB- is 1/2 -RSB-'
    """
    return " ".join(_ESCAPED.sub(r"\1", word.translate(_REPLACEMENTS)) for word in words)
