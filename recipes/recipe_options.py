"""The command line of a recipe."""

import pathlib
import shlex
import sys

from keras_transformer.command_line import (
    CommandParser,
    TrainingOptions,
    add_training_arguments,
)


def recipe_options(recipe, settings_class, description, *, arguments, add=None, fine_tuning=True):
    """Read a recipe's command line.

    Args:
        recipe: the name of the recipe's folder.
        settings_class: its `Settings` subclass; every field is a flag.
        description: what `--help` says first.
        arguments: the command line, a list of strings; None: that of the process.
        add: function that gives the parser the recipe's own flags, or None.
        fine_tuning: whether the recipe can start from another run.

    Returns:
        `(options, values)`: the `TrainingOptions`, and the namespace with the recipe's own flags.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    module = f"recipes.{recipe}.train"
    parser = CommandParser(prog=f"python -m {module}", description=description)
    if add is not None:
        add(parser)
    add_training_arguments(parser, settings_class, pathlib.Path("runs", recipe), fine_tuning)
    values = parser.parse_args(arguments)
    command = shlex.join(["python", "-m", module, *arguments])
    return TrainingOptions.from_arguments(values, settings_class, command), values
