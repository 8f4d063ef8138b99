"""The command `keras-transformer`, and what it shares with other programs.

Its verbs are imported when their parsers are made: a training imports `program` from here.
"""

import argparse
import importlib
import sys
from collections.abc import Sequence

from keras_transformer.cli.line_outputs import ResumableOutput
from keras_transformer.cli.program import CommandParser, run_command
from keras_transformer.distribution import __version__

__all__ = ["CommandParser", "ResumableOutput", "main", "make_parser", "run_command"]

# In the order of `--help`; each has a module, `verbs/NAME_command.py`, with `add_parser`.
VERBS = (
    "train",
    "translate",
    "evaluate",
    "tune",
    "evalb",
    "score",
    "align",
    "attention",
    "average",
    "check",
    "cost",
    "export",
    "import",
    "serve",
    "parse",
    "app",
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point of `keras-transformer`; returns the exit code."""
    return run_command(lambda: _run(arguments))


def _run(arguments: Sequence[str] | None) -> int | None:
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    values = make_parser().parse_args(arguments)
    values.arguments = arguments  # for records of the command
    return values.verb(values)


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line; its `verb` is the function of the verb."""
    parser = CommandParser(
        prog="keras-transformer",
        description="Train, use and export translation models and parsers.",
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    verbs = parser.add_subparsers(title="verbs", required=True, metavar="VERB")
    for verb in VERBS:
        importlib.import_module(f"keras_transformer.cli.verbs.{verb}_command").add_parser(verbs)
    return parser
