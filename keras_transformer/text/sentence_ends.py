"""The ends of the sentences in a text, found by the library sentencex."""

import re

# The library fails on a capital, one of these and a full stop: it counts each as one byte.
_WIDE_SPACE = re.compile(r"[^\S\x00-\x7f]")


def split_at_sentence_ends(text: str, language: str) -> list[str]:
    """Split a text behind its sentences.

    Args:
        text: the text, without lone surrogates.
        language: code of its language, such as "en", whose abbreviations do not end a sentence.
            Languages without rules of their own use general ones.

    Returns:
        The sentences with the white space behind each, or white space alone: joined, the text.

    Example:
        >>> split_at_sentence_ends("Mr. Smith came.  He left.", "en")
        ['Mr. Smith came.  ', 'He left.']
    """
    import sentencex  # seldom needed

    pieces, start = [], 0
    for piece in sentencex.segment(language, _WIDE_SPACE.sub(" ", text)):
        pieces.append(text[start : start + len(piece)])
        start += len(piece)
    return pieces
