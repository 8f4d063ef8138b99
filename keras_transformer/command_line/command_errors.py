"""How a command reads its flags and ends: an error is one line on stderr, and has its exit code."""

import argparse
import math
import signal
import sys

from keras_transformer.distribution import conflict
from keras_transformer.errors import UserInputError, is_out_of_memory
from keras_transformer.files.standard_streams import (
    full_output,
    output_fault,
    replace_missing_streams,
    tell,
)

USER_ERROR = 2
INTERRUPTED = 128 + signal.SIGINT  # 130, as a shell reports it
TERMINATED = 128 + signal.SIGTERM  # 143
HUNG_UP = 128 + signal.SIGHUP  # 129
_MOST = 2**31 - 1  # that the integers of models hold
_MOST_CHARACTERS = 2000  # of an error: a library's own message may hold a whole file


class CommandParser(argparse.ArgumentParser):
    """An `argparse` parser whose errors are one line and which takes no abbreviated flags.

    Flags may be written with `_` for `-`, so that a setting's own name works: `--batch_tokens`.

    Args:
        *args, **kwargs: as of `argparse.ArgumentParser`.
        prepare: function that gets the parser and adds flags when they are first needed: what its
            imports cost is not paid by the other verbs of a command.
    """

    def __init__(self, *args, prepare=None, **kwargs):
        super().__init__(*args, allow_abbrev=False, **kwargs)
        self._prepare = prepare

    def complete(self):
        """Add the flags of `prepare`, if they are not there yet."""
        if self._prepare is not None:
            prepare, self._prepare = self._prepare, None
            prepare(self)

    def parse_known_args(self, args=None, namespace=None):
        self.complete()
        args = sys.argv[1:] if args is None else args
        return super().parse_known_args([_dashed(argument) for argument in args], namespace)

    def _print_message(self, message, file=None):
        # That of `argparse` passes over a full device.
        if file is sys.stdout:
            file.write(message)
        else:
            tell(message.removesuffix("\n"))

    def error(self, message):
        self.exit(USER_ERROR, f"{self.prog}: error: {message} (see {self.prog} --help)\n")


def _number(convert, name, is_fit):
    """An `argparse` type, which says "invalid NAME value: 'x'"."""

    def parse(text):
        value = convert(text)
        if not is_fit(value):
            raise ValueError(text)
        return value

    parse.__name__ = name
    return parse


positive_int = _number(int, f"integer from 1 to {_MOST}", lambda value: 1 <= value <= _MOST)
int_from_zero = _number(int, f"integer from 0 to {_MOST}", lambda value: 0 <= value <= _MOST)
positive_number = _number(float, "positive number", lambda value: 0 < value < math.inf)
number_from_zero = _number(float, "number from 0", lambda value: 0 <= value < math.inf)
share = _number(float, "number above 0 and at most 1", lambda value: 0 < value <= 1)


def run_command(main):
    """Call `main()` and return the exit code of the process.

    Args:
        main: a function without arguments that returns an exit code, or None for success. A
            `UserInputError`, a file or standard stream that cannot be read or written, or a memory
            that does not suffice is told on stderr in one line (exit code 2). Ctrl-C ends with
            130, and a reader that closed our output early (`| head`) ends it without a word.

    Example:
        >>> run_command(lambda: None)
        0
    """
    replace_missing_streams()
    if found := conflict():
        tell(f"warning: {found}")
    try:
        code = _code_of(main)
    except SystemExit as exit:  # of `argparse`, which has printed its help, or an error
        code = _sent_on(exit.code or 0)
        if code != (exit.code or 0):
            return code
        raise
    return _sent_on(code)


def _code_of(main):
    """Call `main()`; its exit code, or that of an error, which is told."""
    try:
        return main() or 0
    except UserInputError as error:
        return _user_error(str(error))
    except BrokenPipeError:
        output_fault()  # drops what is left to be printed: there is nobody left to read it
        return 0
    except OSError as error:
        if error.filename is not None:
            return _user_error(f"{error.strerror}: {error.filename}")
        return _sent_on(0) or _user_error(f"Cannot read or write: {error.strerror or error}")
    except KeyboardInterrupt:
        tell("interrupted")
        return INTERRUPTED
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        return _user_error(
            "The memory does not suffice: take a smaller batch, shorter sentences, or a smaller "
            "model."
        )


def _sent_on(code):
    """The exit code of a command that ends with `code`, once what it printed has gone out."""
    fault = output_fault()
    if fault is None or isinstance(fault, BrokenPipeError) or code:
        return code
    return _user_error(str(full_output(fault)))


def _user_error(message):
    line = " ".join(message.split())
    tell(f"error: {line if len(line) <= _MOST_CHARACTERS else line[:_MOST_CHARACTERS] + '...'}")
    return USER_ERROR


def _dashed(argument):
    if not argument.startswith("--"):
        return argument
    flag, equals, value = argument.partition("=")
    return flag.replace("_", "-") + equals + value
