"""The texts of a translation training, for training, validation and test, and their flags."""

import argparse
import dataclasses
import random
from collections.abc import Callable, Iterable, Iterator

from keras_transformer.argument_checks import check_positive_int
from keras_transformer.data import ParallelFiles, ParallelText, SentencePairs
from keras_transformer.errors import UserInputError
from keras_transformer.text.sentencepiece_training import draw_some


@dataclasses.dataclass(frozen=True)
class TranslationData:
    """The texts of a training.

    Args:
        train: texts to train on.
        weights: how often an epoch reads the pairs of each training text. None means once.
        dev: text on which the final weights are chosen. None means that pairs of the first training
            text are held out.
        test: text that is scored at the end. None means `dev`.

    Raises:
        UserInputError: `train` is empty, or the number of weights differs from the number of texts.

    Example:
        >>> data = TranslationData([SentencePairs(["a house"], ["ein Haus"])])
        >>> data.weights
        [1.0]
    """

    train: list[ParallelText]
    weights: list[float] | None = None
    dev: ParallelText | None = None
    test: ParallelText | None = None

    def __post_init__(self) -> None:
        if not self.train:
            raise UserInputError("A training needs at least one text to train on")
        weights = [1.0] * len(self.train) if self.weights is None else list(self.weights)
        if len(weights) != len(self.train):
            raise UserInputError(
                "`weights` must have one number for each training text. "
                f"Received: {len(weights)} weights, {len(self.train)} texts"
            )
        object.__setattr__(self, "weights", weights)

    @property
    def dev_text(self) -> ParallelText:
        """The dev text; UserInputError without one."""
        if self.dev is None:
            raise UserInputError("The data have no dev text: `with_dev` holds one out")
        return self.dev

    def with_dev(
        self, held_out: int, seed: int, fits: Callable[[str, str], bool] | None = None
    ) -> "TranslationData":
        """The same data with a dev text, if necessary from the first training text.

        Args:
            held_out: most pairs to hold out; never more than a tenth of the text.
            seed: decides which pairs are held out.
            fits: tells whether a source and a target may be held out; other pairs stay in the
                training text. None means that every pair may be held out.
        """
        if self.dev is not None:
            return self
        rest, dev = hold_out(self.train[0], held_out, seed, fits)
        return dataclasses.replace(self, train=[rest, *self.train[1:]], dev=dev)


class RemainingText(ParallelText):
    """A text without some pairs, given by their numbers from 0."""

    def __init__(self, text: ParallelText, left_out: Iterable[int]) -> None:
        super().__init__(text.name)
        self.text = text
        self.unit = text.unit
        self.left_out = frozenset(left_out)

    def __iter__(self) -> Iterator[tuple[str, str]]:
        for number, pair in enumerate(self.text):
            if number not in self.left_out:
                yield pair

    @property
    def num_pairs(self) -> int | None:
        """Number of pairs, if the text's number is known, else None."""
        pairs = self.text.num_pairs
        return None if pairs is None else pairs - len(self.left_out)

    def line_numbers(self) -> Iterator[int]:
        """The line numbers of the text, without the left-out pairs."""
        for place, number in enumerate(self.text.line_numbers()):
            if place not in self.left_out:
                yield number

    def fingerprint(self) -> str:
        """The fingerprint of the text, with the numbers that are left out."""
        return f"{self.text.fingerprint()} without {sorted(self.left_out)}"


def hold_out(
    text: ParallelText,
    most: int,
    seed: int,
    fits: Callable[[str, str], bool] | None = None,
) -> tuple[ParallelText, ParallelText]:
    """Split a text at random into `(rest, held_out)`.

    The text is read once, and never held in memory as a whole. At most `most` pairs are held out,
    and at most a tenth of the text; pairs that `fits(source, target)` refuses stay in the rest.

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


def text_of(values: argparse.Namespace) -> TranslationData:
    """The texts that a command line names.

    Args:
        values: the namespace of a parser that `add_text_arguments` extended.

    Raises:
        UserInputError: a file is missing, two sides do not match, or a weight is not a positive
            number.
    """
    mixed = [
        (ParallelFiles(source, target, name=source), _weight(weight))
        for source, target, weight in values.mix
    ]
    main = ParallelFiles(values.source, values.target, name=" ".join(values.source))
    return TranslationData(
        train=[main, *(text for text, _ in mixed)],
        weights=[1.0, *(weight for _, weight in mixed)],
        dev=_part(values, "dev"),
        test=_part(values, "test"),
    )


def _part(values: argparse.Namespace, part: str) -> ParallelFiles | None:
    source, target = (getattr(values, f"{part}_{side}") for side in ("source", "target"))
    if (source is None) != (target is None):
        given, missing = ("source", "target") if target is None else ("target", "source")
        raise UserInputError(f"--{part}-{given} needs --{part}-{missing} as well")
    return None if source is None else ParallelFiles(source, target)


def _weight(text: str) -> float:
    try:
        weight = float(text)
    except ValueError:
        weight = 0.0
    if not 0 < weight < float("inf"):
        raise UserInputError(f"The WEIGHT of --mix must be a number above 0. Received: {text}")
    return weight
