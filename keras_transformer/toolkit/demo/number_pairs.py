"""Number words, the text of the demo, and its settings."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import TYPE_CHECKING

from keras_transformer.errors import UserInputError
from keras_transformer.installation import requiring
from keras_transformer.settings import setting
from keras_transformer.training.training_settings import TrainingSettings

if TYPE_CHECKING:
    import numpy as np


@dataclasses.dataclass(frozen=True)
class NumberWordsSettings(TrainingSettings):
    """Settings for translating English number words into German (1-2 minutes on two cores)."""

    preset = "tiny"
    may_change = (*TrainingSettings.may_change, "patience")

    numbers: int = setting(
        10_000,
        "0 to 9,999, written without spaces in German",
        minimum=20,
        below=10**7 + 1,
    )
    held_out: int = setting(
        1000, "numbers to score; each error costs 0.1% of exact match", minimum=1
    )
    validation: int = setting(200, "training numbers used to choose the best checkpoint", minimum=1)
    vocabulary_size: int = setting(230, "about one piece per number word", minimum=5, below=2**31)

    # Defaults that differ from other training runs
    seed: int = setting(1, "determines the held-out numbers, the weights and the batches")
    num_layers: int = setting(2, "number of encoder and decoder layers; enough for four digits")
    hidden_dim: int = setting(128, "as in the preset tiny")
    intermediate_dim: int = setting(256, "as in the preset tiny")
    num_heads: int = setting(4, "as in the preset tiny; divides hidden_dim")
    dropout: float = setting(0.1, "9,000 pairs without noise need little dropout")
    positions: str | None = setting(
        None, "none: sinusoidal, as in the preset tiny", choices=("sinusoidal", "learned")
    )
    label_smoothing: float = setting(0.0, "zero, because each number has only one translation")
    precision: str = setting(
        "float32", "dtype policy of the layers; produces the same words on every machine"
    )
    steps: int = setting(1000, "number of updates; validation perplexity is flat by then")
    batch_tokens: int = setting(
        1024, "about 110 numbers per update; doubling it would need about as many updates"
    )
    warmup_steps: int = setting(150, "about a seventh of the updates")
    learning_rate_scale: float = setting(
        0.18, "produces a peak of 1.3e-3; at twice that, the last checkpoints vary a lot"
    )
    save_every: int = setting(50, "updates between validations; each also saves a checkpoint")
    patience: int | None = setting(
        3, "stop after this many validations without improvement; none: never", minimum=1
    )
    alpha: float = setting(0.6, "exponent of the length penalty, as in the paper")
    deterministic: bool = setting(True, "the same seed produces bit-identical losses")


# Numbers that people are likely to try first: 0 to 20, and one digit followed by zeros.
ALWAYS_TRAINED = frozenset(
    [*range(21), *(digit * power for digit in range(1, 10) for power in (10, 100, 1000))]
)

# Stored in run.json, from which the web app reads the language names.
LANGUAGES = {"source_language": "en", "target_language": "de"}

_LEFT_OUT = (("-", " "), (",", ""), (" and ", " "))  # old and new text


@dataclasses.dataclass(frozen=True)
class NumberPairs:
    """Number words: `sources` in English and `targets` in German, in the same order."""

    numbers: list[int]
    sources: list[str]
    targets: list[str]

    @classmethod
    def of(cls, numbers: Iterable[int]) -> NumberPairs:
        """Spell numbers in both languages.

        Raises:
            UserInputError: `num2words` is not installed.
        """
        with requiring("demo", "num2words, which spells the numbers, is not installed"):
            from num2words import num2words
        numbers = list(numbers)
        return cls(
            numbers=numbers,
            sources=[num2words(number, lang="en") for number in numbers],
            targets=[num2words(number, lang="de") for number in numbers],
        )

    def as_typed(self, seed: int) -> NumberPairs:
        """Return these pairs, copies in informal spelling, and lists of short numbers.

        Half of the copies end with a period on both sides. Hyphens, commas and "and" are each
        omitted from the English text of half of the copies. Short numbers are only one percent of
        the pairs but most of what people type, so they get as many copies as all other numbers
        together. Numbers up to 100 also occur in lists, as in "zero, sixteen". Otherwise, they
        would occur in few batches, because a batch contains sentences of similar lengths.
        """
        import numpy as np  # not required for `--help`

        random = np.random.default_rng(seed)
        own = list(zip(self.numbers, self.sources, self.targets, strict=True))
        short = [pair for pair in own if pair[0] <= 100 or pair[0] in ALWAYS_TRAINED]
        pairs = list(own)
        for number, source, target in [*own, *short * (len(own) // max(1, len(short)))]:
            pairs.append((number, *_typed(random, source, target)))
        listed = [pair for pair in own if pair[0] <= 100]
        for _ in range(len(own) // 2 if listed else 0):
            chosen = random.integers(len(listed), size=random.integers(2, 5))
            numbers, sources, targets = zip(*(listed[each] for each in chosen), strict=True)
            pairs.append((numbers[0], ", ".join(sources), ", ".join(targets)))
        columns = (list(column) for column in zip(*pairs, strict=True))
        return NumberPairs(*columns)


def _typed(random: np.random.Generator, source: str, target: str) -> tuple[str, str]:
    stop, *leaves_out = random.random(1 + len(_LEFT_OUT)) < 0.5
    for is_left_out, (old, new) in zip(leaves_out, _LEFT_OUT, strict=True):
        source = source.replace(old, new) if is_left_out else source
    return (f"{source}.", f"{target}.") if stop else (source, target)


def split_numbers(settings: NumberWordsSettings) -> tuple[NumberPairs, NumberPairs, NumberPairs]:
    """Randomly split the numbers below `settings.numbers`, using `settings.seed`.

    The numbers in `ALWAYS_TRAINED` are always in the training set.

    Returns:
        `(training, validation, held_out)`, which together contain every number exactly once.

    Raises:
        UserInputError: there are too few numbers for the held-out and validation pairs.
    """
    import numpy as np

    shuffled = np.random.default_rng(settings.seed).permutation(settings.numbers).tolist()
    always = [number for number in shuffled if number in ALWAYS_TRAINED]
    others = [number for number in shuffled if number not in ALWAYS_TRAINED]
    rest = settings.held_out + settings.validation
    if rest > len(others):
        raise UserInputError(
            f"`held_out` and `validation` must be at most {len(others)} together, because the rest "
            f"of the {settings.numbers} numbers is always in the training set. Received: "
            f"held_out={settings.held_out}, validation={settings.validation}"
        )
    training, validation = others[rest:] + always, others[settings.held_out : rest]
    held_out = others[: settings.held_out]
    return NumberPairs.of(training), NumberPairs.of(validation), NumberPairs.of(held_out)
