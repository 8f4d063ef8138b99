"""A translator for the tests of commands: its results are known, and it loads in no time."""

import warnings

import numpy as np

from keras_transformer.errors import LongSentenceWarning, SentenceTooLong, UserInputError
from keras_transformer.text.alignment import Alignment


def words(text):
    """One piece a word."""
    return [f"▁{word}" for word in text.split()]


def first_word(source, target):
    """Weights of one piece a word, all of them on the source's first."""
    weights = np.zeros((len(target.split()), len(source.split()) + 1))
    weights[:, 0] = 1
    return weights


class FakeTranslator:
    """Its translation is the source in upper case; it notes what it was asked.

    A text with the word LONG is too long.
    """

    weights = "digest"  # what tells this model from others
    loaded = None  # arguments of the last `load`
    calls = None  # (method, arguments) of every call

    @classmethod
    def load(cls, runs, **options):
        if "missing" in runs:
            raise UserInputError("`missing` is no run directory")
        cls.loaded = {"runs": runs, **options}
        return cls()

    def check_lengths(self, sources, targets=()):
        self.check("sources", sources)
        self.check("targets", targets)

    def check(self, name, texts):
        for i, text in enumerate(texts):
            if "LONG" in text and self.loaded.get("long_sentences", "refuse") == "refuse":
                raise SentenceTooLong(name, i, "is too long")
            if "LONG" in text:
                warnings.warn(LongSentenceWarning(name, i, "was too long"), stacklevel=1)

    def translate(self, sentences, prefixes=None, **terms):
        self.check("sentences", sentences)
        self.calls.append(("translate", sentences, prefixes, *terms.items()))
        prefixes = [""] * len(sentences) if prefixes is None else prefixes
        return [p + text.upper() for p, text in zip(prefixes, sentences, strict=True)]

    def translate_nbest(self, sentences, n, prefixes=None, **terms):
        self.calls.append(("translate_nbest", sentences, n, prefixes, *terms.items()))
        return [[(text.upper(), -0.5), (text, -1.25)][:n] for text in sentences]

    def score(self, sources, targets, *, normalize):
        self.check_lengths(sources, targets)
        self.calls.append(("score", list(sources), list(targets)))
        return [-len(target) / (2 if normalize else 1) for target in targets]

    def align(self, sources, targets):
        """Every target word belongs to the first source word."""
        self.check_lengths(sources, targets)
        self.calls.append(("align", list(sources), list(targets)))
        return [
            Alignment([*words(source), "</s>"], words(target), first_word(source, target))
            for source, target in zip(sources, targets, strict=True)
        ]

    def sample(self, sentences, n, *, first_index, prefixes=None, **options):
        self.calls.append(("sample", sentences, n, options, prefixes))
        indices = range(first_index, first_index + len(sentences))
        return [
            [(f"{text} {index} {j}", -float(j)) for j in range(n)]
            for index, text in zip(indices, sentences, strict=True)
        ]
