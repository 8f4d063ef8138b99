"""A translator of words in reversed order, whose alignment is known."""

import numpy as np

from keras_transformer.text import SentencePieceTokenizer
from keras_transformer.text.alignment import Alignment
from keras_transformer.text.markup.marked_up_texts import MarkedUpTexts, PartLimits
from keras_transformer.text.stand_ins import StandIns
from keras_transformer.text.words import word_pattern

WORDS = "the red house and its tree are near it see use or not end go up to one two file files"
LETTERS = " ".join("abcdefghijklmnopqrstuvwxyzXYZQKW.,:()!?'#;{}<&>/=%\\\"*`[]-")


def train():
    """A tokenizer with a token for each word, and some words to stand for variables."""
    lines = [WORDS, WORDS.upper()] * 20 + [LETTERS, LETTERS.replace(" ", "")]
    return SentencePieceTokenizer.train(lines, vocabulary_size=230)


def words_of(text):
    """The spans of the words with letters."""
    words = [match.span() for match in word_pattern().finditer(text)]
    return [span for span in words if any(map(str.isalpha, text[slice(*span)]))]


class WordTranslator:
    """Translates each sentence word by word, in upper case and from the last word to the first.

    Sentences keep the punctuation at their ends.
    """

    def __init__(self, tokenizer, *, max_length=100, most_variables=16, splits=False):
        self.tokenizer = tokenizer
        self.stand_ins = StandIns(tokenizer, tokenizer)
        self.limits = PartLimits(
            tokenizer, tokenizer, self.stand_ins, max_length, most_variables, splits, "en"
        )
        self.sentences = []

    def translate(self, document, kind="html", keep="auto"):
        texts = MarkedUpTexts([document], kind, keep, self.limits)
        self.sentences = [each.text for each in texts.kept]
        outputs = []
        for kept in texts.kept:
            (row,) = self.tokenizer.encode([self.reversed(kept)])
            outputs.append(self.stand_ins.restore(kept, row))
        pairs = texts.to_align(outputs)
        alignments = {i: self.align(*pair) for i, pair in pairs.items()}
        return texts.render(outputs, alignments)[0]

    def reversed(self, kept):
        """The words in reversed order, with the spaces and the punctuation in their places."""
        names = {each.word for each in kept.stand_ins}
        words = words_of(kept.text)
        texts = [kept.text[slice(*span)] for span in words][::-1]
        result, place = "", 0
        for (start, end), text in zip(words, texts, strict=True):
            result += kept.text[place:start] + (text if text in names else text.upper())
            place = end
        return result + kept.text[place:]

    def align(self, source, target):
        rows, columns = len(self.tokenizer.spans(target)), len(self.tokenizer.spans(source))
        weights = np.zeros((rows, columns + 1))
        places = {text: words_of(text) for text in (source, target)}
        for row, (start, end) in enumerate(self.tokenizer.spans(target)):
            for number, (first, last) in enumerate(reversed(places[target])):
                if start < last and end > first and number < len(places[source]):
                    for column, (a, b) in enumerate(self.tokenizer.spans(source)):
                        if a < places[source][number][1] and b > places[source][number][0]:
                            weights[row, column] = 1.0
        weights[weights.sum(axis=1) == 0, -1] = 1.0
        pieces = [str(i) for i in range(columns + 1)]
        return Alignment(pieces, [str(i) for i in range(rows)], weights)
