"""Shared parts of the command-line programs: flags, exit codes, lines in and out."""

from keras_transformer.command_line.command_errors import CommandParser, run_command
from keras_transformer.command_line.resumable_output import ResumableOutput

__all__ = [
    "CommandParser",
    "ResumableOutput",
    "run_command",
]
