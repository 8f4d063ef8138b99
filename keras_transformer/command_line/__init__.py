"""Shared parts of the command-line programs: flags, exit codes, lines in and out."""

from keras_transformer.command_line.line_outputs import ResumableOutput
from keras_transformer.command_line.program import CommandParser, run_command

__all__ = [
    "CommandParser",
    "ResumableOutput",
    "run_command",
]
