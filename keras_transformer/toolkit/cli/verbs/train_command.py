"""`keras-transformer train`: train a translation model on two text files."""

from __future__ import annotations

import argparse
import functools
import pathlib
import shlex
from typing import TYPE_CHECKING

from keras_transformer.installation import start_backend_quietly
from keras_transformer.settings import (
    FITTED,
    EssentialSettings,
    add_run_arguments,
    add_text_arguments,
)
from keras_transformer.toolkit.cli.cluster_job import add_training_cluster, check_cluster
from keras_transformer.toolkit.cli.program import CommandParser

if TYPE_CHECKING:
    from keras_transformer.training import TrainingCommand
    from keras_transformer.training.translation.settings import TranslationSettings

DESCRIPTION = """Train a Transformer to turn the lines of one text file into the lines of another:
translation, or any other text-to-text task. The command trains a vocabulary, tokenizes and filters
the text, trains with validation and checkpoints, averages checkpoints and scores the result."""
HELP = "train a model on two text files"
USAGE = "%(prog)s --source FILE [FILE ...] --target FILE [FILE ...] [FLAG ...]"


def add_essential(parser: CommandParser) -> None:
    """Add the flags shown by `--help` to a parser."""
    add_text_arguments(parser, mix=False)
    add_run_arguments(parser, "runs")
    EssentialSettings.add_arguments(parser, FITTED)


def add_arguments(parser: CommandParser) -> None:
    """Add the verb's arguments to its parser."""
    from keras_transformer.training.training_command import add_training_arguments
    from keras_transformer.training.translation.settings import TranslationSettings

    add_text_arguments(parser)
    add_training_cluster(parser)
    add_training_arguments(parser, TranslationSettings, runs="runs", fits=True)


def train(values: argparse.Namespace) -> int | None:
    """Run the verb and return the exit code if a signal ended training."""
    check_cluster(values)
    start_backend_quietly(devices=False)
    from keras_transformer.training.translation.data import text_of
    from keras_transformer.training.translation.training import train_as_called

    call = _call_of(values)  # refuse invalid settings before anything starts
    if values.cluster is None:
        return train_as_called(call, text_of(values)).exit_code
    from keras_transformer.toolkit.cluster import train_on_ray

    train_on_ray(
        functools.partial(_train_in_worker, values.arguments, str(values.run.absolute())),
        values.run,
        address=values.cluster,
        workers=values.workers,
        worker_cpus=values.worker_cpus,
        overwrite=values.overwrite,
        resume=values.resume,
    )
    return None


def _train_in_worker(arguments: list[str], run: str, resume: bool) -> None:
    """Run the training command in a cluster worker and write to a run directory."""
    from keras_transformer.toolkit.cli import make_parser
    from keras_transformer.toolkit.cluster import RaySifter
    from keras_transformer.training.translation.data import text_of
    from keras_transformer.training.translation.training import train_as_called

    values = make_parser().parse_args(arguments)
    values.arguments = arguments
    values.run, values.resume = pathlib.Path(run), resume
    values.overwrite = values.overwrite and not resume
    train_as_called(_call_of(values), text_of(values), RaySifter())


def _call_of(values: argparse.Namespace) -> TrainingCommand[TranslationSettings]:
    from keras_transformer.training import TrainingCommand
    from keras_transformer.training.translation.settings import TranslationSettings

    command = shlex.join(["keras-transformer", *values.arguments])
    return TrainingCommand.from_arguments(values, TranslationSettings, command, fits=True)
