"""What every recipe's command line has: its settings, and where and how long it trains."""

import dataclasses
import datetime
import pathlib
import shlex
import sys

from keras_transformer.command_errors import CommandParser, positive_number
from keras_transformer.settings import Settings


@dataclasses.dataclass(frozen=True)
class RecipeOptions:
    """One call of a recipe.

    Args:
        settings: the recipe's settings; the run directory keeps them.
        run: the run directory.
        overwrite: replace a run directory that is there already.
        minutes: stop after so many minutes of training, or None.
        command: the command that the user gave, fit to be pasted into a shell.
        paths: the recipe's own path arguments by name, such as `{"data": Path("corpus")}`.
    """

    settings: Settings
    run: pathlib.Path
    overwrite: bool
    minutes: float | None
    command: str
    paths: dict[str, pathlib.Path]


def recipe_options(recipe, settings_class, description, *, paths=None, arguments=None):
    """Read a recipe's command line.

    Args:
        recipe: the name of the recipe's folder.
        settings_class: its `Settings` subclass; every field is a flag.
        description: what `--help` says first.
        paths: required path flags of this recipe, name to help text: `{"data": "folder of ..."}`.
        arguments: the command line, a list of strings; `sys.argv` by default.

    Returns:
        `RecipeOptions`.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    module = f"recipes.{recipe}.train"
    parser = CommandParser(prog=f"python -m {module}", description=description)
    for name, help_text in (paths or {}).items():
        parser.add_argument(f"--{name}", type=pathlib.Path, required=True, help=help_text)
    default_run = pathlib.Path("runs", recipe, f"{datetime.datetime.now():%Y%m%d-%H%M%S}")
    parser.add_argument(
        "--run",
        type=pathlib.Path,
        default=default_run,
        metavar="DIR",
        help=f"run directory (default: {default_run.parent}/<date>-<time>)",
    )
    parser.add_argument("--overwrite", action="store_true", help="replace an existing run")
    parser.add_argument(
        "--minutes",
        type=positive_number,
        metavar="M",
        help="stop after M minutes of training, then finish as usual (default: train all steps)",
    )
    settings_class.add_arguments(parser)
    values = parser.parse_args(arguments)
    return RecipeOptions(
        settings=settings_class.from_arguments(values),
        run=values.run,
        overwrite=values.overwrite,
        minutes=values.minutes,
        command=shlex.join(["python", "-m", module, *arguments]),
        paths={name: getattr(values, name) for name in paths or {}},
    )
