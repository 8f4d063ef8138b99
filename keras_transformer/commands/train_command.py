"""`keras-transformer train`: from two text files to a model that translates."""

import argparse
import shlex

from keras_transformer.backend_start import start_backend_quietly
from keras_transformer.command_line.command_errors import CommandParser, Verbs

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
    add_training_arguments(parser, TranslationSettings, runs="runs")


def train(values: argparse.Namespace) -> int | None:
    """Run the verb; returns the exit code of a training that a signal ended."""
    from keras_transformer.command_line.training_options import TrainingOptions
    from keras_transformer.translation_training import (
        TranslationSettings,
        text_of,
        train_translation,
    )

    command = shlex.join(["keras-transformer", *values.arguments])
    options = TrainingOptions.from_arguments(values, TranslationSettings, command)
    record = train_translation(
        options.settings,
        text_of(values),
        options.run,
        minutes=options.minutes,
        origin=options.origin,
        overwrite=options.overwrite,
        resume=options.resume,
        command=options.command,
    )
    return record.exit_code
