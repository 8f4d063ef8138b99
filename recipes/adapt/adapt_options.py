"""The recipe's command line and the texts it specifies."""

import argparse
import dataclasses
from collections.abc import Sequence

from keras_transformer import RunDirectory
from keras_transformer.data import ParallelFiles, ParallelText
from keras_transformer.errors import UserInputError
from keras_transformer.training import TrainingCommand
from keras_transformer.translation_training import TranslationData, add_text_arguments, text_of
from recipes.adapt.settings import ADAPTERS_RATE, AdaptSettings
from recipes.recipe_options import recipe_options


def adapt_options(
    description: str | None, arguments: Sequence[str] | None
) -> tuple[TrainingCommand[AdaptSettings], argparse.Namespace]:
    """Read the recipe's command line.

    Args:
        description: text at the top of `--help`.
        arguments: command-line arguments. None means the arguments of the process.

    Returns:
        `(options, values)`: the training options, and the namespace with the texts.

    Raises:
        UserInputError: the run to adapt is missing, or `--general-share` has no general text.
    """
    options, values = recipe_options(
        "adapt", AdaptSettings, description, arguments=arguments, add=_add_arguments
    )
    run = RunDirectory(options.run)
    resumed = options.resume and run.is_run()
    origin = options.origin or (run.record().origin if resumed else None)
    if origin is None:
        raise UserInputError("Pass --from RUN, the run to adapt.")
    RunDirectory.open(origin)  # scored at the end, so a resumed run needs it too
    given = AdaptSettings.given(values, values.settings)
    if "general_share" in given and values.general_source is None:
        raise UserInputError("--general-share needs --general-source and --general-target.")
    if not resumed:  # a resumed run keeps its settings
        own = {name: getattr(AdaptSettings, name) for name in AdaptSettings.__annotations__}
        if given.get("lora_rank") is not None:
            own["learning_rate_scale"] = ADAPTERS_RATE
        settings = dataclasses.replace(options.settings, **{**own, **given})
        options = dataclasses.replace(options, settings=settings)
    return options, values


def adaptation_texts(
    values: argparse.Namespace, settings: AdaptSettings
) -> tuple[TranslationData, ParallelText | None]:
    """Return the texts specified on the command line.

    Args:
        values: the namespace from `adapt_options`.
        settings: the settings, with the share of general text and the number of held-out pairs.

    Returns:
        `(data, general)`: the texts for training, and the general text to score. The latter is the
        given text or pairs held out from the general training text; None without general text.

    Raises:
        UserInputError: a file is missing or empty, or the two sides do not match.
    """
    data = text_of(values)
    general = _general_text(values, "general")
    scored = _general_text(values, "general_test")
    if general is None:
        return data, scored
    if scored is None:
        split = TranslationData([general]).with_dev(settings.held_out, settings.seed)
        (general,), scored = split.train, split.dev
    pairs = sum(
        weight * _num_pairs(text)
        for text, weight in zip(data.train, data.weights or [], strict=True)
    )
    share = settings.general_share
    weight = share / (1 - share) * pairs / _num_pairs(general)
    train, weights = [*data.train, general], [*(data.weights or []), weight]
    return dataclasses.replace(data, train=train, weights=weights), scored


def _general_text(values: argparse.Namespace, part: str) -> ParallelText | None:
    source, target = (getattr(values, f"{part}_{side}") for side in ("source", "target"))
    if (source is None) != (target is None):
        flags = " and ".join(f"--{part}-{side}" for side in ("source", "target"))
        raise UserInputError(f"Pass both {flags}, or neither.".replace("_", "-"))
    return None if source is None else ParallelFiles(source, target)


def _num_pairs(text: ParallelText) -> int:
    text.fingerprint()  # counts lines in files; needed later in any case
    return text.num_pairs or 0


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add_text_arguments(parser)
    group = parser.add_argument_group("general text from outside the domain")
    for part, purpose in (("general", "limit forgetting"), ("general-test", "score only")):
        for side in ("source", "target"):
            group.add_argument(
                f"--{part}-{side}", nargs="+", metavar="FILE", help=f"{side} sentences to {purpose}"
            )
