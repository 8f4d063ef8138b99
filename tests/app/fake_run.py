"""A run whose results are known: it translates into upper case, and waits where a test wants it.

Of documents with markup, it translates only "house".
"""

import threading

import numpy as np

from keras_transformer.errors import SentenceTooLong, UserInputError
from keras_transformer.inference.parser import Parse
from keras_transformer.parsing import Leaf, Tree
from keras_transformer.search_options import SearchOptions
from keras_transformer.text.alignment import Alignment
from keras_transformer.toolkit.app import AppLimits
from keras_transformer.toolkit.app.loaded_runs import LoadedRun


class FakeRun(LoadedRun):
    """Its `turns` are how many batches it may compute; `batches` are those it has begun."""

    kind = "translation"
    takes_terms = True

    def __init__(self, name="fake", limits=None, turns=1_000_000, languages=()):
        self.turns = threading.Semaphore(turns)
        self.batches = []
        self.languages = tuple(languages)
        super().__init__(name, SearchOptions(), limits or AppLimits(), batch_size=2)

    @property
    def target_languages(self):
        return self.languages

    def first_work(self):
        return []

    def check_lengths(self, sources, targets=()):
        for index, text in enumerate([*sources, *targets]):
            if "LONG" in text:
                raise SentenceTooLong("sources", index, "has more than 256 tokens")

    def compute(self, work, items):
        self.batches.append((work, list(items)))
        self.turns.acquire()
        if "damaged" in items:
            raise UserInputError("The model's scores are not finite numbers.")
        if "broken" in items:
            raise RuntimeError("a mistake in the program")
        if work.markup is not None:
            return [item.replace("house", "HOUSE") for item in items]
        if work.task == "align":
            return [
                Alignment(["▁" + source, "</s>"], ["▁" + target], np.array([[0.9, 0.1]]))
                for source, target in items
            ]
        return [[(item.upper(), -0.5 * n) for n in range(1, work.n_best + 1)] for item in items]


class FakeParser(FakeRun):
    """Its trees are flat."""

    kind = "parsing"
    takes_terms = False

    def compute(self, work, items):
        self.batches.append((work, list(items)))
        trees = [Tree("S", [Leaf("XX", word) for word in item.split()]) for item in items]
        return [Parse(tree, -1.0, 0) for tree in trees]
