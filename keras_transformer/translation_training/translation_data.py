"""What a translation training reads: texts to train on, to validate and to test on."""

import dataclasses
import random

from keras_transformer.argument_checks import check_positive_int
from keras_transformer.data import ParallelText, SentencePairs
from keras_transformer.errors import UserInputError
from keras_transformer.text.vocabulary_sample import draw_some


@dataclasses.dataclass(frozen=True)
class TranslationData:
    """The texts of a training.

    Args:
        train: `ParallelText`s to train on.
        weights: how often a pair of each is read in an epoch, one number each; None: once.
        dev: `ParallelText` that chooses the weights that translate; None: some pairs of the first
            training text are held out.
        test: `ParallelText` that is scored at the end; None: `dev` is.

    Raises:
        UserInputError: there is no training text, or the weights do not fit.

    Example:
        >>> data = TranslationData([SentencePairs(["a house"], ["ein Haus"])])
        >>> data.weights
        [1.0]
    """

    train: list[ParallelText]
    weights: list[float] | None = None
    dev: ParallelText | None = None
    test: ParallelText | None = None

    def __post_init__(self):
        if not self.train:
            raise UserInputError("There is no text to train on")
        weights = [1.0] * len(self.train) if self.weights is None else list(self.weights)
        if len(weights) != len(self.train):
            raise UserInputError(
                "`weights` must be as many as the training texts. "
                f"Received: {len(weights)} weights, {len(self.train)} texts"
            )
        object.__setattr__(self, "weights", weights)

    def with_dev(self, held_out, seed, fits=None):
        """The same data with a dev text, if need be from the first training text.

        Args:
            held_out: most pairs to hold out; never more than a tenth of the text.
            seed: integer; decides which.
            fits: function from a source and a target to whether the pair may be held out; others
                stay in the training text. None: every pair may.
        """
        if self.dev is not None:
            return self
        rest, dev = hold_out(self.train[0], held_out, seed, fits)
        return dataclasses.replace(self, train=[rest, *self.train[1:]], dev=dev)


class RemainingText(ParallelText):
    """A text without the pairs of some numbers, which count from 0."""

    def __init__(self, text, left_out):
        super().__init__(text.name)
        self.text = text
        self.left_out = frozenset(left_out)

    def __iter__(self):
        for number, pair in enumerate(self.text):
            if number not in self.left_out:
                yield pair

    def fingerprint(self):
        """The text's own, with the numbers that are passed over."""
        return f"{self.text.fingerprint()} without {sorted(self.left_out)}"


def hold_out(text, most, seed, fits=None):
    """Split a text at random into `(rest, held_out)`, two `ParallelText`s.

    It is read once, and never held in memory as a whole. At most `most` pairs are held out, no more
    than a tenth of the text, and none that `fits(source, target)` refuses.

    Example:
        >>> words = [str(number) for number in range(40)]
        >>> rest, held_out = hold_out(SentencePairs(words, words), most=1000, seed=1)
        >>> len(list(rest)), len(list(held_out))
        (36, 4)
    """
    check_positive_int("most", most)
    generator = random.Random(seed)
    with_text = (item for item in enumerate(text) if all(side.strip() for side in item[1]))
    sample, seen = draw_some(with_text, most, generator)
    if seen < 10:
        raise UserInputError(
            f"{text.name} has {seen} pairs with text: too few to hold any out for validation. "
            "Give a dev text"
        )
    generator.shuffle(sample)
    held_out = sorted(
        (number, pair)
        for _, (number, pair) in sample[: min(most, seen // 10)]
        if fits is None or fits(*pair)
    )
    if not held_out:
        raise UserInputError(f"No pair of {text.name} passes the filters for validation")
    sources, targets = zip(*(pair for _, pair in held_out), strict=True)
    dev = SentencePairs(list(sources), list(targets), name=f"pairs held out of {text.name}")
    return RemainingText(text, {number for number, _ in held_out}), dev
