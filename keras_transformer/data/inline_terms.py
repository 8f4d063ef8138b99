"""Adds the targets of terms to source sentences to teach a model to use given terms."""

import random

from keras_transformer.data.parallel_text import ChangedText, ParallelText
from keras_transformer.text.glossary import Glossary, with_targets

_CONTENT_VERSION = 1  # increment this when the same text and terms give different pairs


class InlineTerms(ChangedText):
    """Parallel text in which some sources carry the targets of their terms, in tags.

    A source carries one or more of the terms that `text.Glossary.find_in_pair` finds, drawn at
    random, in the form of `text.Glossary.inline`. A model that is trained on such text also
    translates sentences without tags. The terms depend only on the text, the glossary and the seed
    and are the same on every pass.

    Args:
        text: the parallel text.
        glossary: the terms.
        share: fraction of the pairs with terms whose sources carry them, in [0, 1).
        seed: integer >= 0.

    Example:
        >>> from keras_transformer.data import SentencePairs
        >>> text = SentencePairs(["a house", "the house"], ["eine Hütte", "die Hütten"])
        >>> terms = Glossary({"house": ["Haus", "Hütte"]})
        >>> list(InlineTerms(text, terms, share=0.5, seed=3))
        [('a<term> house<trans> Hütte</term>', 'eine Hütte'), ('the house', 'die Hütten')]

    Reference:
        Dinu et al., "Training Neural Machine Translation to Apply Terminology Constraints", 2019.
    """

    def __init__(self, text: ParallelText, glossary: Glossary, share: float, seed: int) -> None:
        super().__init__(text, share, seed)
        self.glossary = glossary
        self.changes = f"terms {_CONTENT_VERSION} {glossary.fingerprint}"

    def changed(self, source: str, target: str, generator: random.Random) -> tuple[str, str]:
        """Return the pair with the targets of its terms in the source."""
        found = self.glossary.find_in_pair(source, target)
        if not found:
            return source, target
        # Sources with some of their terms teach the model to translate with a smaller glossary.
        chosen = generator.sample(found, generator.randint(1, len(found)))
        return with_targets(source, sorted(chosen)), target
