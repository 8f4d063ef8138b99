"""Numbers spelled in English and in German, split into training, validation and held-out pairs."""

import dataclasses

import num2words
import numpy as np

from keras_transformer.errors import UserInputError


@dataclasses.dataclass(frozen=True)
class NumberPairs:
    """The words of some numbers: `sources` in English, `targets` in German, in the same order."""

    numbers: list[int]
    sources: list[str]
    targets: list[str]

    @classmethod
    def of(cls, numbers):
        """Spell the numbers."""
        return cls(
            numbers=list(numbers),
            sources=[num2words.num2words(number, lang="en") for number in numbers],
            targets=[num2words.num2words(number, lang="de") for number in numbers],
        )


def split_numbers(settings):
    """Split the numbers below `settings.numbers` at random, by `settings.seed`.

    Args:
        settings: `NumberWordsSettings`.

    Returns:
        `(training, validation, held_out)`, each `NumberPairs`; together every number once.
    """
    rest = settings.held_out + settings.validation
    if rest >= settings.numbers:
        raise UserInputError(
            "`held_out` and `validation` must leave numbers to train on. Received: "
            f"held_out={settings.held_out}, validation={settings.validation}, "
            f"numbers={settings.numbers}"
        )
    shuffled = np.random.default_rng(settings.seed).permutation(settings.numbers).tolist()
    parts = shuffled[rest:], shuffled[settings.held_out : rest], shuffled[: settings.held_out]
    return tuple(NumberPairs.of(part) for part in parts)
