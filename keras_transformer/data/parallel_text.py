"""Text in pairs, wherever it lies: what `prepare_corpus` and `count_overlap` read."""

import abc
import hashlib

from keras_transformer.argument_checks import check_no_string
from keras_transformer.errors import UserInputError


class ParallelText(abc.ABC):
    """Pairs of a source and a target sentence, read one after another as often as needed.

    A subclass yields `(source, target)` strings from `__iter__`, each time the same ones in the
    same order, and holds no more of them than it must: a text may be larger than memory.

    Args:
        name: what reports and errors call the text.
    """

    unit = "line"  # what errors call a pair

    def __init__(self, name):
        self.name = name

    @abc.abstractmethod
    def __iter__(self):
        """Yield `(source, target)`, two strings."""

    @abc.abstractmethod
    def fingerprint(self):
        """A string that is the same for the same pairs and another for others."""

    @property
    def num_pairs(self):
        """Number of pairs where it is known without reading them, else None."""
        return None


class SentencePairs(ParallelText):
    """Pairs from two lists in memory.

    Args:
        sources: list of strings.
        targets: list of as many strings.
        name: what reports call the text.

    Raises:
        UserInputError: the lists differ in length.
        ValueError: one of the arguments is a single string.

    Example:
        >>> list(SentencePairs(["a house", "a tree"], ["ein Haus", "ein Baum"]))
        [('a house', 'ein Haus'), ('a tree', 'ein Baum')]
    """

    def __init__(self, sources, targets, name="pairs"):
        super().__init__(name)
        check_no_string("sources", sources)
        check_no_string("targets", targets)
        if len(sources) != len(targets):
            raise UserInputError(
                f"`sources` and `targets` must have the same length. "
                f"Received: {len(sources)} sources and {len(targets)} targets"
            )
        self.sources = sources
        self.targets = targets

    def __iter__(self):
        return zip(self.sources, self.targets, strict=True)

    def fingerprint(self):
        """SHA-256 of the sentences and of where each ends."""
        digest = hashlib.sha256(b"sentences")
        for sentences in (self.sources, self.targets):
            digest.update(f" {len(sentences)} ".encode())
            for sentence in sentences:
                line = sentence.encode("utf-8")
                digest.update(b"%d " % len(line))
                digest.update(line)
        return digest.hexdigest()

    @property
    def num_pairs(self):
        """Number of pairs."""
        return len(self.sources)
