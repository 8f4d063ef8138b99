"""The command `keras-transformer`."""

import sys

from keras_transformer.command_line.command_errors import CommandParser, run_command
from keras_transformer.commands import (
    align_command,
    average_command,
    check_command,
    evalb_command,
    evaluate_command,
    export_command,
    parse_command,
    score_command,
    serve_command,
    train_command,
    translate_command,
)
from keras_transformer.distribution import __version__

COMMANDS = (
    train_command,
    translate_command,
    evaluate_command,
    evalb_command,
    score_command,
    align_command,
    average_command,
    check_command,
    export_command,
    serve_command,
    parse_command,
)


def main(arguments=None):
    """Entry point of `keras-transformer`; returns the exit code."""
    return run_command(lambda: _run(arguments))


def _run(arguments):
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    values = make_parser().parse_args(arguments)
    values.arguments = arguments  # as they were given, for records of what was done
    return values.verb(values)


def make_parser():
    """Return the parser of the command line; a verb's options have its function as `verb`."""
    parser = CommandParser(
        prog="keras-transformer",
        description="Train, use and export translation models and parsers.",
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    verbs = parser.add_subparsers(title="verbs", required=True, metavar="VERB")
    for command in COMMANDS:
        command.add_parser(verbs)
    return parser
