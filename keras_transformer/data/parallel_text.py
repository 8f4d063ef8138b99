"""Parallel text from any origin, as `prepare_corpus` and `count_overlap` read it."""

import abc
import hashlib
import itertools
from collections.abc import Iterable, Iterator

from keras_transformer.errors import UserInputError
from keras_transformer.text.sentence_batches import checked_strings


class ParallelText(abc.ABC):
    """Base class of sources of sentence pairs, which may be larger than memory.

    A subclass yields `(source, target)` strings from `__iter__`, the same ones in the same order
    each time.

    Args:
        name: name of the text in reports and errors.
    """

    unit = "line"  # name of a pair in errors

    def __init__(self, name: str) -> None:
        self.name = name

    @abc.abstractmethod
    def __iter__(self) -> Iterator[tuple[str, str]]:
        """Yield `(source, target)` pairs."""

    @abc.abstractmethod
    def fingerprint(self) -> str:
        """Return a string that identifies the pairs and their order."""

    @property
    def num_pairs(self) -> int | None:
        """Number of pairs if known without reading them, else None."""
        return None

    def line_numbers(self) -> Iterator[int]:
        """Yield the number of each pair, by which errors name it; from 1 on by default."""
        return itertools.count(1)


class SentencePairs(ParallelText):
    """Sentence pairs from two lists in memory.

    Args:
        sources: source sentences.
        targets: target sentences, one for each source.
        name: name of the text in reports.

    Raises:
        UserInputError: the lists differ in length.
        ValueError: `sources` or `targets` is a single string, or has something else than strings.

    Example:
        >>> list(SentencePairs(["a house", "a tree"], ["ein Haus", "ein Baum"]))
        [('a house', 'ein Haus'), ('a tree', 'ein Baum')]
    """

    def __init__(self, sources: Iterable[str], targets: Iterable[str], name: str = "pairs") -> None:
        super().__init__(name)
        sources, targets = checked_strings("sources", sources), checked_strings("targets", targets)
        if len(sources) != len(targets):
            raise UserInputError(
                f"`sources` and `targets` must have the same length. "
                f"Received: {len(sources)} sources and {len(targets)} targets"
            )
        self.sources = sources
        self.targets = targets

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return zip(self.sources, self.targets, strict=True)

    def fingerprint(self) -> str:
        """Return the SHA-256 of the sentences and their lengths."""
        digest = hashlib.sha256(b"sentences")
        for sentences in (self.sources, self.targets):
            digest.update(f" {len(sentences)} ".encode())
            for sentence in sentences:
                line = sentence.encode("utf-8")
                digest.update(b"%d " % len(line))
                digest.update(line)
        return digest.hexdigest()

    @property
    def num_pairs(self) -> int:
        """Number of pairs."""
        return len(self.sources)
