"""`keras-transformer demo`: train a first model without downloading data."""

import argparse
import pathlib
import shlex

from keras_transformer.installation import start_backend_quietly
from keras_transformer.settings import add_export_argument, add_run_arguments
from keras_transformer.toolkit.cli.program import CommandParser

RUNS = pathlib.Path("runs", "number_words")
HELP = "train a small first model in two minutes"
DESCRIPTION = """Train a small Transformer to translate English number words into German, which
takes about two minutes on two cores, and print commands to try next. Nothing is downloaded."""


def add_essential(parser: CommandParser) -> None:
    """Add the flags shown by `--help` to a parser."""
    add_export_argument(parser)
    add_run_arguments(parser, RUNS, fine_tuning=False)


def add_arguments(parser: CommandParser) -> None:
    """Add the verb's arguments to its parser."""
    from keras_transformer.toolkit.demo import NumberWordsSettings
    from keras_transformer.training.training_command import add_training_arguments

    add_export_argument(parser)
    add_training_arguments(parser, NumberWordsSettings, RUNS, fine_tuning=False)


def demo(values: argparse.Namespace) -> int | None:
    """Run the verb and return the exit code if a signal ended training."""
    start_backend_quietly(devices=False)
    from keras_transformer.toolkit.demo import NumberWordsSettings, train_number_words
    from keras_transformer.training import TrainingCommand

    command = shlex.join(["keras-transformer", *values.arguments])
    call = TrainingCommand.from_arguments(values, NumberWordsSettings, command)
    return train_number_words(call, values.export)
