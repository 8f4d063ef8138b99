"""Texts for training a translation model, and settings fitted to their size.

The settings are modeled on `recipes/translate_text/one_hour.toml`, for an hour on two cores.
"""

import argparse
import dataclasses
import itertools
import math
import random
import shlex
import time
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Self

import numpy as np

from keras_transformer import models
from keras_transformer.argument_checks import check_positive_int
from keras_transformer.data import (
    ParallelCorpus,
    ParallelFiles,
    ParallelText,
    SentencePairs,
    find_text_files,
    plan_batches,
)
from keras_transformer.errors import UserInputError
from keras_transformer.losses import LabelSmoothingCrossEntropy
from keras_transformer.settings import MAX_REPEATS, WITH_MINUTES, SettingValue
from keras_transformer.text.sentencepiece_tokenizer import draw_some
from keras_transformer.training import TrainingCommand, TrainingRun, make_reproducible
from keras_transformer.training.translation.settings import TranslationSettings
from keras_transformer.types import TERM_TAGS, PathLike, SpecialTokens


@dataclasses.dataclass(frozen=True)
class TranslationData:
    """The training, dev and test texts.

    Args:
        train: training texts.
        weights: how often each training text is read per epoch. None means once.
        dev: text for checkpoint selection. None holds out pairs of the first training text.
        test: text to score at the end. None means `dev`.
        alignments: files with the word alignments of the first training text in Pharaoh format, for
            guided alignment. None means that eflomal computes them.

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
    alignments: Sequence[PathLike] | None = None

    def __post_init__(self) -> None:
        if not self.train:
            raise UserInputError("Training needs at least one text")
        weights = [1.0] * len(self.train) if self.weights is None else list(self.weights)
        if len(weights) != len(self.train):
            raise UserInputError(
                "`weights` must have one number for each training text. "
                f"Received: {len(weights)} weights, {len(self.train)} texts"
            )
        object.__setattr__(self, "weights", weights)

    @property
    def dev_text(self) -> ParallelText:
        """The dev text. Raises UserInputError if there is none."""
        if self.dev is None:
            raise UserInputError("There is no dev text: `with_dev` holds one out")
        return self.dev

    def with_dev(
        self, held_out: int, seed: int, fits: Callable[[str, str], bool] | None = None
    ) -> "TranslationData":
        """Return the data with a dev text, held out of the first training text if necessary.

        Args:
            held_out: maximum number of pairs to hold out; never more than a tenth of the text.
            seed: random seed for choosing pairs.
            fits: function of a source and a target that returns whether the pair may be held out.
                All other pairs stay in the training text. None means that any pair may be held out.
        """
        if self.dev is not None:
            return self
        rest, dev = hold_out(self.train[0], held_out, seed, fits)
        return dataclasses.replace(self, train=[rest, *self.train[1:]], dev=dev)


class RemainingText(ParallelText):
    """A text that omits pairs, specified by their zero-based numbers."""

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
        """Return the number of pairs, or None if it is unknown for the text."""
        pairs = self.text.num_pairs
        return None if pairs is None else pairs - len(self.left_out)

    def line_numbers(self) -> Iterator[int]:
        """Yield the line numbers of the text, excluding omitted pairs."""
        for place, number in enumerate(self.text.line_numbers()):
            if place not in self.left_out:
                yield number

    def fingerprint(self) -> str:
        """Return the fingerprint of the text with the numbers of the omitted pairs."""
        return f"{self.text.fingerprint()} without {sorted(self.left_out)}"


def hold_out(
    text: ParallelText,
    most: int,
    seed: int,
    fits: Callable[[str, str], bool] | None = None,
) -> tuple[ParallelText, ParallelText]:
    """Split a text at random into `(rest, held_out)`.

    The text is read once and never fully loaded into memory. At most `most` pairs and at most a
    tenth of the text are held out. Pairs that `fits(source, target)` rejects stay in the rest.

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
            f"{text.name} has {seen} pairs with text, too few to hold out some for validation. "
            "Provide a dev text"
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
    """Return the texts specified on a command line.

    Args:
        values: namespace of a parser that `add_text_arguments` extended.

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
        alignments=values.alignments and find_text_files(values.alignments),
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


_SAMPLE = 20_000  # number of pairs for counting characters
_BYTES = 256  # number of ids used by `byte_fallback`
_CHARACTERS_A_TOKEN = 3.5
# Presets for texts with fewer pairs; larger texts use base.
_TINY, _SMALL = 10_000, 1_000_000
_FEW = 1000  # with fewer pairs, a model learns nothing useful
_LITTLE = 50_000  # with fewer pairs, a small model overfits without more dropout
_UPDATES = 3000  # target for a few minutes of training; determines the batch size
FEWEST_UPDATES = 1000  # with fewer updates, a smaller model is trained
_SMALLEST_BATCH, _MEASURED_BATCH = 1024, 2048
_TIMED_STEPS = 3
_VALIDATIONS = 12
_VALIDATION_SHARE = 0.9  # share of the minutes available for updates


@dataclasses.dataclass(frozen=True)
class TextSize:
    """The size of a training text.

    Args:
        pairs: number of pairs.
        characters: number of distinct case-folded characters in a sample of the pairs.
        words: number of distinct words in the sample.
        target_tokens: approximate mean number of tokens per target.
        alphabet: number of distinct characters in all pairs, each of which needs an id.
    """

    pairs: int
    characters: int
    words: int
    target_tokens: float
    alphabet: int = 0

    @classmethod
    def of(cls, texts: Sequence[ParallelText]) -> Self:
        """Count pairs and characters, and sample the words."""
        pairs = 0
        for text in texts:
            text.fingerprint()  # counts lines in files; needed later in any case
            pairs += sum(1 for _ in text) if text.num_pairs is None else text.num_pairs
        sample = list(itertools.islice(itertools.chain(*texts), _SAMPLE))
        sides = [unicodedata.normalize("NFKC", side).casefold() for pair in sample for side in pair]
        words = {word for side in sides for word in side.split()}
        characters = set().union(*words)
        length = sum(len(target) for _, target in sample) / max(1, len(sample))
        return cls(
            pairs,
            len(characters),
            len(words),
            max(1.0, length / _CHARACTERS_A_TOKEN),
            _alphabet(itertools.chain.from_iterable(itertools.chain(*texts))),
        )


def _alphabet(lines: Iterable[str]) -> int:
    """Count distinct characters with and without normalization, and return the larger number."""
    plain, normalized = set(" "), set(" ")
    for line in lines:
        plain.update(line)
        normalized.update(unicodedata.normalize("NFKC", line))
    return max(len(plain), len(normalized))


def fit_settings(
    call: TrainingCommand[TranslationSettings], data: TranslationData, run: TrainingRun
) -> TranslationSettings:
    """Return the training settings, with unspecified settings fitted to the text and minutes.

    The size of the text determines the model and the vocabulary. With `--minutes`, a few steps are
    timed. The number of updates then determines the batch size, the warm-up and the validation
    interval, and a smaller model is chosen if there are too few updates. `settings.FITTED` lists
    the settings that this function may change.

    Args:
        call: the command. Its settings stay unchanged if `given` is None, if it resumes a run, or
            if it starts from another run.
        data: the texts.
        run: the training run, before `begin`; it adopts the settings.
    """
    if call.given is None or run.earlier is not None:
        return call.settings
    text = TextSize.of(data.train)
    if text.pairs < _FEW:
        run.say(
            f"warning: only {text.pairs:,} pairs. A translator needs a few thousand pairs, a good "
            "one hundreds of thousands."
        )
    fitted = {"max_repeats": MAX_REPEATS, **_by_language(call.given.get("target_language"))}
    given = {**fitted, **call.given}
    settings = _settings(given, by_text(text))
    if call.minutes is not None:
        settings = _fit_to_minutes(given, settings, text, 60 * call.minutes, run)
    run.adopt(settings)
    values, preset = settings.to_dict(), TranslationSettings(preset=settings.preset).to_dict()
    others = [name for name in values if values[name] != preset[name]]
    changed = {
        name: values[name]
        for name in ("preset", "vocabulary_size", *others)
        if name not in call.given
    }
    if call.minutes is not None:
        changed.pop("steps", None)  # large enough for the minutes to end training
    if changed:
        run.say(f"Settings for {text.pairs:,} pairs: {_flags(changed)}")
    return settings


def by_text(text: TextSize, preset: str | None = None) -> dict[str, SettingValue]:
    """Return the settings that depend on the size of the text.

    Args:
        text: size of the text.
        preset: preset to use if there is too little time for the preset that fits the text.

    Example:
        >>> text = TextSize(pairs=162_000, characters=150, words=20_000, target_tokens=9)
        >>> by_text(text)["preset"], by_text(text)["vocabulary_size"]
        ('small', 6400)
    """
    if preset is None:
        preset = "tiny" if text.pairs < _TINY else "small" if text.pairs < _SMALL else "base"
    size = _BYTES + text.characters + min(text.words, round(50 * text.pairs**0.4))
    least = _BYTES + len(dataclasses.fields(SpecialTokens)) + text.alphabet
    values: dict[str, SettingValue] = {
        "preset": preset,
        "vocabulary_size": max(least, min(32_000, size - size % 100 if size > 1000 else size)),
    }
    if preset != "base":
        values["normalize_first"] = True  # avoids a plateau at the start, as updates are few
    if preset == "small":
        values["intermediate_dim"] = 512
        if text.pairs < _LITTLE:
            values["dropout"] = 0.3
    return values


def by_minutes(
    settings: TranslationSettings, seconds: float, tokens_per_second: float
) -> dict[str, SettingValue]:
    """Return the settings that depend on time and speed.

    Args:
        settings: current settings.
        seconds: training time in seconds.
        tokens_per_second: number of target tokens trained on per second.
    """
    tokens = seconds * _VALIDATION_SHARE * tokens_per_second
    most = int(settings.batch_tokens or _SMALLEST_BATCH)
    wanted = 2 ** round(math.log2(max(1.0, tokens / _UPDATES)))
    longest = most if settings.max_tokens is None else settings.max_tokens + 1
    batch_tokens = min(most, max(_SMALLEST_BATCH, longest, wanted))
    updates = max(1, round(tokens / batch_tokens))
    preset_warmup = int(settings.warmup_steps or 1)
    warmup = max(1, min(preset_warmup, updates // 8))
    save_every = max(10, min(settings.save_every, updates // _VALIDATIONS))
    return {
        "batch_tokens": batch_tokens,
        "warmup_steps": warmup,
        # The peak is the same as with the preset's warm-up, or lower for a smaller batch.
        "learning_rate_scale": round(
            math.sqrt(warmup / preset_warmup) * min(1.0, (batch_tokens / 4096) ** 0.5), 4
        ),
        "save_every": save_every,
        **WITH_MINUTES,
        "steps": max(int(settings.steps or 1), 10 * updates),  # the minutes end training
    }


def _by_language(code: SettingValue) -> dict[str, SettingValue]:
    """Return BLEU's tokenizer for languages without spaces or with long word endings (Korean)."""
    tokenizers = {"zh": "zh", "ja": "char", "ko": "char", "th": "char"}
    name = str(code).partition("-")[0].lower()
    return {"bleu_tokenize": tokenizers[name]} if name in tokenizers else {}


def _settings(
    given: Mapping[str, SettingValue],
    of_text: Mapping[str, SettingValue],
    of_time: Mapping[str, SettingValue] | None = None,
) -> TranslationSettings:
    """Return the given settings, with fitted values for all other settings.

    A given preset is used unchanged; the text then determines only the vocabulary.
    """
    size = int(of_text["vocabulary_size"] or 0) + len(str(given.get("symbols") or "").split())
    if given.get("glossary_tags"):
        size += len(TERM_TAGS)
    if given.get("byte_fallback") is False:
        size -= _BYTES
    of_text = {**({} if "preset" in given else of_text), "vocabulary_size": size}
    return TranslationSettings.from_dict({**of_text, **(of_time or {}), **given})


def _fit_to_minutes(
    given: Mapping[str, SettingValue],
    settings: TranslationSettings,
    text: TextSize,
    seconds: float,
    run: TrainingRun,
) -> TranslationSettings:
    of_text = by_text(text)
    while True:
        run.say(f"Timing training steps of the preset {settings.preset}")
        speed = measured_speed(settings, text, run)
        updates = seconds * _VALIDATION_SHARE * speed / _SMALLEST_BATCH
        smaller = {"base": "small", "small": "tiny"}.get(settings.preset)
        if "preset" in given or smaller is None or updates >= FEWEST_UPDATES:
            if updates < FEWEST_UPDATES:
                minutes = math.ceil(seconds / 60 * FEWEST_UPDATES / max(updates, 1))
                run.say(
                    f"warning: time for only about {updates:,.0f} updates, so translations will be "
                    f"poor. Use at least --minutes {minutes}; a usable translator takes much longer"
                )
            of_time = by_minutes(settings, seconds, speed)
            of_time["tune_alpha"] = text.pairs >= _FEW  # otherwise, too few pairs for a choice
            return _settings(given, of_text, of_time)
        of_text = by_text(text, smaller)
        settings = _settings(given, of_text)


def measured_speed(settings: TranslationSettings, text: TextSize, run: TrainingRun) -> float:
    """Measure target tokens per second for these settings with timed training steps."""
    batch_tokens = int(settings.batch_tokens or _MEASURED_BATCH)
    if run.devices.device_name == "CPU":
        batch_tokens = min(_MEASURED_BATCH, batch_tokens)
    # Word positions need tokenizers, which do not exist yet. Other positions are equally fast.
    positions = None if settings.kind_of_positions.reads_tokens else settings.positions
    timed = dataclasses.replace(settings, batch_tokens=batch_tokens, positions=positions)
    with run.scope():
        model = models.build_transformer(
            timed.preset, vocabulary_size=timed.vocabulary_size, **timed.model_options()
        )
        loss = LabelSmoothingCrossEntropy(
            timed.label_smoothing or 0.0, vocabulary_size=timed.vocabulary_size, reduction="sum"
        )
        trained = timed.compile(model, loss, run.accumulate, SpecialTokens())
    reader = plan_batches(
        _random_text(timed, text.target_tokens), SpecialTokens(), **timed.plan_options()
    )
    data = run.devices.batches(reader, 0, run.accumulate)
    trained.fit(data, steps_per_epoch=1, shuffle=False, verbose=0)  # compiles the step
    began = time.perf_counter()
    trained.fit(data, steps_per_epoch=_TIMED_STEPS, shuffle=False, verbose=0)
    trained.optimizer.iterations.numpy()  # JAX may still compute after `fit` has returned
    took = time.perf_counter() - began
    tokens = sum(reader.plan.target_tokens(step) for step in range(1, 1 + _TIMED_STEPS))
    # Reset the seed: the timed steps must not affect the random numbers of training.
    make_reproducible(settings.seed, settings.deterministic)
    # All machines must agree on one number.
    return 1e6 / run.devices.largest(round(1e6 * took / tokens))


def _random_text(settings: TranslationSettings, length: float) -> ParallelCorpus:
    """Return enough equally long random sentences of about the given length for timed steps."""
    batch_tokens = int(settings.batch_tokens or 1)
    longest = min(batch_tokens, settings.max_length or batch_tokens)
    length = max(1, min(round(length), longest - 1))
    rows = (_TIMED_STEPS + 1) * max(1, batch_tokens // (length + 1))
    ids = np.random.default_rng(settings.seed).integers(
        len(dataclasses.fields(SpecialTokens)), settings.vocabulary_size, rows * length, "int32"
    )
    offsets = np.arange(0, rows * length + 1, length)
    return ParallelCorpus(ids, offsets, ids, offsets, np.arange(rows), metadata={})


def _flags(values: Mapping[str, Any]) -> str:
    flags = []
    for name, value in values.items():
        flag = f"--{name.replace('_', '-')}"
        if isinstance(value, bool):
            flags.append(flag if value else flag.replace("--", "--no-", 1))
        else:
            flags += [flag, str(value)]
    return shlex.join(flags)
