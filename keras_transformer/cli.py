"""The command `keras-transformer`."""

import argparse
import sys
from collections.abc import Sequence

from keras_transformer.command_line.program import CommandParser, run_command
from keras_transformer.commands import (
    align_command,
    app_command,
    attention_command,
    average_command,
    check_command,
    cost_command,
    evalb_command,
    evaluate_command,
    export_command,
    import_command,
    parse_command,
    score_command,
    serve_command,
    train_command,
    translate_command,
    tune_command,
)
from keras_transformer.distribution import __version__

COMMANDS = (
    train_command,
    translate_command,
    evaluate_command,
    tune_command,
    evalb_command,
    score_command,
    align_command,
    attention_command,
    average_command,
    check_command,
    cost_command,
    export_command,
    import_command,
    serve_command,
    parse_command,
    app_command,
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
    for command in COMMANDS:
        command.add_parser(verbs)
    return parser
