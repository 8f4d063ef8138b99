"""The command line of a recipe."""

import argparse
import pathlib
import shlex
import sys
from collections.abc import Callable, Sequence
from typing import TypeVar

from keras_transformer.toolkit.cli import CommandParser
from keras_transformer.training import TrainingCommand, TrainingSettings, add_training_arguments

RecipeSettings = TypeVar("RecipeSettings", bound=TrainingSettings)


def recipe_options(
    recipe: str,
    settings_class: type[RecipeSettings],
    description: str | None,
    *,
    arguments: Sequence[str] | None,
    add: Callable[[argparse.ArgumentParser], None] | None = None,
    fine_tuning: bool = True,
    fits: bool = False,
) -> tuple[TrainingCommand[RecipeSettings], argparse.Namespace]:
    """Read a recipe's command line.

    Args:
        recipe: name of the recipe's folder.
        settings_class: class of the recipe's settings; every field becomes a flag.
        description: text at the top of `--help`.
        arguments: command-line arguments. None means the arguments of the process.
        add: function that adds the recipe's own flags to the parser.
        fine_tuning: whether the recipe can start from another run.
        fits: whether unspecified settings are fitted to the text, as shown by `--help`.

    Returns:
        `(options, values)`: the training options, and the namespace with the recipe's own flags.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    module = f"recipes.{recipe}.train"
    parser = CommandParser(prog=f"python -m {module}", description=description)
    if add is not None:
        add(parser)
    runs = pathlib.Path("runs", recipe)
    add_training_arguments(parser, settings_class, runs, fine_tuning, fits)
    values = parser.parse_args(arguments)
    command = shlex.join(["python", "-m", module, *arguments])
    return TrainingCommand.from_arguments(values, settings_class, command, fits=fits), values
