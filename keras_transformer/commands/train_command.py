"""`keras-transformer train`: from two text files to a model that translates."""

import argparse
import dataclasses
import pathlib
import shlex
from typing import TYPE_CHECKING, Any

from keras_transformer.backend_start import start_backend_quietly
from keras_transformer.command_line.program import CommandParser, Verbs
from keras_transformer.commands.arguments.cluster_arguments import (
    add_training_cluster,
    check_cluster,
)

if TYPE_CHECKING:
    from keras_transformer.command_line.training_options import TrainingOptions
    from keras_transformer.translation_training import TranslationSettings

DESCRIPTION = """Train a Transformer to turn the lines of one text file into those of another:
translation, or any other text-to-text task. It trains a vocabulary, tokenizes and filters the text,
trains with validation and checkpoints, averages checkpoints and scores the result."""


def add_parser(verbs: Verbs) -> None:
    """Add the verb to the command line."""
    parser = verbs.add_parser(
        "train",
        help="train a model on two text files",
        description=DESCRIPTION,
        prepare=_add_arguments,
    )
    parser.set_defaults(verb=train)


def _add_arguments(parser: CommandParser) -> None:
    # The settings import Keras: too slow for the other verbs.
    start_backend_quietly(devices=False)
    from keras_transformer.command_line.training_options import add_training_arguments
    from keras_transformer.translation_training import TranslationSettings, add_text_arguments

    add_text_arguments(parser)
    add_training_cluster(parser)
    add_training_arguments(parser, TranslationSettings, runs="runs")


def train(values: argparse.Namespace) -> int | None:
    """Run the verb; returns the exit code of a training that a signal ended."""
    check_cluster(values)
    if values.cluster is None:
        return _train(values)
    from keras_transformer.cluster import train_on_ray

    _options_of(values)  # wrong ones are refused before anything starts
    train_on_ray(
        _TrainInWorker(tuple(values.arguments), str(values.run.absolute())),
        values.run,
        address=values.cluster,
        workers=values.workers,
        worker_cpus=values.worker_cpus,
        overwrite=values.overwrite,
        resume=values.resume,
    )
    return None


@dataclasses.dataclass(frozen=True)
class _TrainInWorker:
    """The training of a command line in a worker of a cluster, into a run directory."""

    arguments: tuple[str, ...]
    run: str

    def __call__(self, resume: bool) -> None:
        from keras_transformer.cluster import RaySifter

        parser = CommandParser()
        add_parser(parser.add_subparsers())
        values = parser.parse_args(self.arguments)
        values.arguments = list(self.arguments)
        values.run, values.resume = pathlib.Path(self.run), resume
        values.overwrite = values.overwrite and not resume
        _train(values, sift=RaySifter())


def _train(values: argparse.Namespace, **arguments: Any) -> int | None:
    from keras_transformer.translation_training import text_of, train_translation

    options = _options_of(values)
    record = train_translation(
        options.settings,
        text_of(values),
        options.run,
        minutes=options.minutes,
        origin=options.origin,
        overwrite=options.overwrite,
        resume=options.resume,
        command=options.command,
        **arguments,
    )
    return record.exit_code


def _options_of(values: argparse.Namespace) -> "TrainingOptions[TranslationSettings]":
    from keras_transformer.command_line.training_options import TrainingOptions
    from keras_transformer.translation_training import TranslationSettings

    command = shlex.join(["keras-transformer", *values.arguments])
    return TrainingOptions.from_arguments(values, TranslationSettings, command)
