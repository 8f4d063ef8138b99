"""The sentences of a text, with the white space between them: lines and paragraphs stay."""

import dataclasses
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from keras_transformer.text.sentence_encoding import split_at_sentence_ends

# A code of a language such as "en" or "pt-BR".
LANGUAGE_CODE = "^[A-Za-z]{2,3}(-[A-Za-z0-9]{1,8})*$"


class LaidOutSentence(NamedTuple):
    """A sentence of a text.

    Args:
        source: the sentence, without white space around it.
        before: the white space between it and what precedes it.
    """

    source: str
    before: str


@dataclasses.dataclass(frozen=True)
class SentenceLayout:
    r"""The sentences of a text and what lies between them.

    Args:
        sentences: the sentences in their order.
        after: the white space behind the last one.

    Example:
        >>> layout = SentenceLayout.of("One. Two!\n\n  Three.\n", language="en")
        >>> [(sentence.before, sentence.source) for sentence in layout.sentences]
        [('', 'One.'), (' ', 'Two!'), ('\n\n  ', 'Three.')]
        >>> layout.text(["Eins.", "Zwei!", "Drei."])
        'Eins. Zwei!\n\n  Drei.\n'
    """

    sentences: Sequence[LaidOutSentence]
    after: str

    @classmethod
    def of(cls, text: str, language: str) -> "SentenceLayout":
        """Split a text at the ends of its lines and of the sentences in each line.

        Args:
            text: the text, without lone surrogates.
            language: code of its language, such as "en", whose abbreviations do not end sentences.
                Languages without rules of their own use general ones.
        """
        sentences: list[LaidOutSentence] = []
        gap = ""
        for line in text.splitlines(keepends=True):
            for piece in split_at_sentence_ends(line, language):
                source = piece.strip()
                if not source:
                    gap += piece
                    continue
                start = piece.index(source)
                sentences.append(LaidOutSentence(source, gap + piece[:start]))
                gap = piece[start + len(source) :]
        return cls(sentences, gap)

    def text(self, translations: Iterable[str]) -> str:
        """The text with a translation in the place of each sentence."""
        pairs = zip(self.sentences, translations, strict=True)
        return "".join(sentence.before + text for sentence, text in pairs) + self.after
