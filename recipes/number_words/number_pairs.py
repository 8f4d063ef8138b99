"""Numbers spelled in English and in German, split into training, validation and held-out pairs."""

import dataclasses
from collections.abc import Iterable

import num2words
import numpy as np

from keras_transformer.errors import UserInputError
from recipes.number_words.settings import NumberWordsSettings


@dataclasses.dataclass(frozen=True)
class NumberPairs:
    """The words of some numbers: `sources` in English, `targets` in German, in the same order."""

    numbers: list[int]
    sources: list[str]
    targets: list[str]

    @classmethod
    def of(cls, numbers: Iterable[int]) -> "NumberPairs":
        """Spell the numbers."""
        numbers = list(numbers)
        return cls(
            numbers=numbers,
            sources=[num2words.num2words(number, lang="en") for number in numbers],
            targets=[num2words.num2words(number, lang="de") for number in numbers],
        )


def split_numbers(settings: NumberWordsSettings) -> tuple[NumberPairs, NumberPairs, NumberPairs]:
    """Split the numbers below `settings.numbers` at random, by `settings.seed`.

    Returns:
        `(training, validation, held_out)`, together every number once.
    """
    rest = settings.held_out + settings.validation
    if rest >= settings.numbers:
        raise UserInputError(
            "`held_out` and `validation` must leave numbers to train on. Received: "
            f"held_out={settings.held_out}, validation={settings.validation}, "
            f"numbers={settings.numbers}"
        )
    shuffled = np.random.default_rng(settings.seed).permutation(settings.numbers).tolist()
    training, validation = shuffled[rest:], shuffled[settings.held_out : rest]
    held_out = shuffled[: settings.held_out]
    return NumberPairs.of(training), NumberPairs.of(validation), NumberPairs.of(held_out)
