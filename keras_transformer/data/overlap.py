"""Test sentences that a training has seen: how many, so that a score can be judged."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Overlap:
    """How much of a test text occurs in a training text.

    Args:
        sources: test sentences whose source is a source of the training text.
        pairs: test sentences which occur there with the same target.
        total: test sentences.
    """

    sources: int
    pairs: int
    total: int

    def report(self, name):
        """One line for people.

        Args:
            name: what to call the test text.

        Example:
            >>> Overlap(sources=12, pairs=3, total=1000).report("test")
            'test: 12 of 1,000 source sentences occur in the training text, 3 with their target'
        """
        return (
            f"{name}: {self.sources:,} of {self.total:,} source sentences occur in the training "
            f"text, {self.pairs:,} with their target"
        )


def count_overlap(training_text, test_text):
    """Count the test sentences that occur in the training text.

    The training text is read once as a stream; only the test text is held in memory. Sentences are
    the same if they differ in nothing but white space. A test sentence that stands twice in the
    test text counts twice; an empty one never occurs.

    Args:
        training_text: a `ParallelText`, or any iterable of (source, target) strings.
        test_text: the same, small enough for memory.

    Returns:
        An `Overlap`.

    Example:
        >>> from keras_transformer.data import SentencePairs
        >>> training = SentencePairs(["a house", "a tree"], ["ein Haus", "ein Baum"])
        >>> count_overlap(training, SentencePairs(["a tree", "a cat"], ["der Baum", "eine Katze"]))
        Overlap(sources=1, pairs=0, total=2)
    """
    return count_overlaps(training_text, [test_text])[0]


def count_overlaps(training_text, test_texts):
    """As `count_overlap`, for several test texts in one pass over the training text.

    Args:
        training_text: as in `count_overlap`.
        test_texts: list of test texts.

    Returns:
        A list of `Overlap`, one a test text.
    """
    tests = [[(_joined(source), _joined(target)) for source, target in test] for test in test_texts]
    pairs = {pair for test in tests for pair in test}
    sources = {source for source, _ in pairs if source}
    seen_sources, seen_pairs = set(), set()
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


def _joined(sentence):
    return " ".join(sentence.split())
