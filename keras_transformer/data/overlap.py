"""Counting test sentences that occur in the training text, to judge a score."""

import dataclasses
from collections.abc import Iterable

_Pairs = Iterable[tuple[str, str]]


@dataclasses.dataclass(frozen=True)
class Overlap:
    """How much of a test text occurs in a training text.

    Args:
        sources: number of test sentences whose source occurs in the training text.
        pairs: how many of these occur with the same target.
        total: number of test sentences.
    """

    sources: int
    pairs: int
    total: int

    def report(self, name: str) -> str:
        """Return the counts as a sentence.

        Args:
            name: name of the test text.

        Example:
            >>> Overlap(sources=12, pairs=3, total=1000).report("test")
            'test: 12 of 1,000 source sentences occur in the training text, 3 with their target'
        """
        return (
            f"{name}: {self.sources:,} of {self.total:,} source sentences occur in the training "
            f"text, {self.pairs:,} with their target"
        )


def count_overlap(training_text: _Pairs, test_text: _Pairs) -> Overlap:
    """Count the test sentences that occur in the training text.

    The training text is read once, as a stream; only the test text is kept in memory. The
    comparison ignores white space. Repeated test sentences count each time; empty sentences never
    match.

    Args:
        training_text: a `ParallelText`, or any `(source, target)` pairs.
        test_text: the same, small enough for memory.

    Returns:
        The counts.

    Example:
        >>> from keras_transformer.data import SentencePairs
        >>> training = SentencePairs(["a house", "a tree"], ["ein Haus", "ein Baum"])
        >>> count_overlap(training, SentencePairs(["a tree", "a cat"], ["der Baum", "eine Katze"]))
        Overlap(sources=1, pairs=0, total=2)
    """
    return count_overlaps(training_text, [test_text])[0]


def count_overlaps(training_text: _Pairs, test_texts: Iterable[_Pairs]) -> list[Overlap]:
    """Like `count_overlap`, for several test texts in one pass over the training text.

    Args:
        training_text: as in `count_overlap`.
        test_texts: the test texts.

    Returns:
        The counts of each test text.
    """
    tests = [[(_joined(source), _joined(target)) for source, target in test] for test in test_texts]
    pairs = {pair for test in tests for pair in test}
    sources = {source for source, _ in pairs if source}
    seen_sources: set[str] = set()
    seen_pairs: set[tuple[str, str]] = set()
    for source, target in training_text:
        source = _joined(source)
        if source in sources:
            seen_sources.add(source)
            pair = (source, _joined(target))
            if pair in pairs:
                seen_pairs.add(pair)
    return [
        Overlap(
            sources=sum(source in seen_sources for source, _ in test),
            pairs=sum(pair in seen_pairs for pair in test),
            total=len(test),
        )
        for test in tests
    ]


def _joined(sentence: str) -> str:
    return " ".join(sentence.split())
