"""The training flags that do not import Keras: texts, run and the essential settings."""

import argparse
import dataclasses
import datetime
import pathlib

from keras_transformer.argument_checks import positive_number
from keras_transformer.settings import Settings, setting
from keras_transformer.types import PathLike

_PARTS = {"dev": "choose the weights that translate", "test": "score at the end"}


@dataclasses.dataclass(frozen=True)
class EssentialSettings(Settings):
    """The settings of a training that `--help` shows; `TranslationSettings` has them all."""

    preset: str = setting(
        "base",
        "size of the model; ROW is a row of the paper's Table 3, such as A-h4 or C-N2; not given: "
        "by the amount of text in keras-transformer train, base in a recipe",
        shown="tiny|small|base|big|ROW",
    )
    source_language: str | None = setting(
        None, "language code of the source, such as en; used in titles and to split sentences"
    )
    target_language: str | None = setting(
        None, "language code of the target, such as de; used in titles and to tokenize for BLEU"
    )
    steps: int | None = setting(None, "number of weight updates; none: the preset's", minimum=1)
    batch_tokens: int | None = setting(
        None, "most source tokens and most target tokens in a step; none: the preset's", minimum=1
    )


def add_text_arguments(parser: argparse.ArgumentParser, *, mix: bool = True) -> None:
    """Add to a parser the flags that `translation_training.text_of` reads.

    Args:
        parser: the parser.
        mix: whether to include `--mix`.
    """
    add = parser.add_argument_group("text (UTF-8, one sentence a line, plain or .gz)").add_argument
    for side in ("source", "target"):
        add(
            f"--{side}",
            nargs="+",
            required=True,
            metavar="FILE",
            help=f"{side} sentences to train on; several files or quoted patterns are joined",
        )
    for part, purpose in _PARTS.items():
        for side in ("source", "target"):
            add(f"--{part}-{side}", metavar="FILE", help=f"{side} sentences to {purpose}")
    if mix:
        add(
            "--mix",
            nargs=3,
            action="append",
            default=[],
            metavar=("SOURCE", "TARGET", "WEIGHT"),
            help="more text, read WEIGHT times in each epoch, such as 2 or 0.25; repeatable",
        )


def add_run_arguments(
    parser: argparse.ArgumentParser, runs: PathLike, fine_tuning: bool = True
) -> None:
    """Add to a parser the flags of a `training.TrainingCommand`, without its settings.

    Args:
        parser: the parser.
        runs: parent of the default run directory, which is named after the current time.
        fine_tuning: whether the training can start from another run.
    """
    default_run = pathlib.Path(runs, f"{datetime.datetime.now():%Y%m%d-%H%M%S}")
    group = parser.add_argument_group("run")
    add = group.add_argument
    add(
        "--run",
        type=pathlib.Path,
        default=default_run,
        metavar="DIR",
        help=f"run directory (default: {default_run.parent}/<date>-<time>)",
    )
    parser.set_defaults(default_run=default_run)
    either = group.add_mutually_exclusive_group()
    either.add_argument("--overwrite", action="store_true", help="replace an existing run")
    either.add_argument(
        "--resume",
        action="store_true",
        help="resume the run in DIR from its last checkpoint, or start it if there is none; with "
        "--deterministic the result is bit-equal; needs --run",
    )
    add(
        "--minutes",
        type=positive_number,
        metavar="M",
        help="stop training after M minutes, then average and score as usual (default: all steps); "
        "with --resume, M counts the whole training",
    )
    if fine_tuning:
        add(
            "--from",
            type=pathlib.Path,
            metavar="RUN",
            help="start from the weights of another run, with its model, tokenizers and settings",
        )
    add(
        "--settings",
        type=pathlib.Path,
        metavar="FILE",
        help="JSON or TOML file of settings, such as a run's settings.json; flags override it",
    )


def add_export_argument(parser: argparse.ArgumentParser) -> None:
    """Add the flag `--export` to a parser."""
    parser.add_argument(
        "--export",
        metavar="DIRECTORY",
        help="export the result there at the end, as a SavedModel, and translate through it",
    )
