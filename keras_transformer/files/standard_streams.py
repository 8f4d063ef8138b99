"""Standard input, output and error of a command that may have been started without them."""

import io
import os
import sys

from keras_transformer.errors import CannotWrite, UserInputError


class MissingStream(io.TextIOBase):
    """Stands for a closed standard stream: to read from it or write to it is a user's error."""

    def __init__(self, name, descriptor):
        self._name = name
        self._descriptor = descriptor

    def fileno(self):
        return self._descriptor

    @property
    def buffer(self):
        raise self._error()

    def read(self, size=-1):
        raise self._error()

    def readline(self, size=-1):
        raise self._error()

    def write(self, text):
        raise self._error()

    def _error(self):
        return UserInputError(f"{self._name} is closed.")


def replace_missing_streams():
    """Make what Python found closed when it started safe to use.

    The null device takes the place of each: else the next file that is opened would, and get what
    is written to the stream. Errors that nobody could see are dropped.
    """
    if sys.stdin is None:
        _open_null(0)
        sys.stdin = MissingStream("Standard input", 0)
    if sys.stdout is None:
        _open_null(1)
        sys.stdout = MissingStream("Standard output", 1)
    if sys.stderr is None:
        _open_null(2)
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - for good


def require_standard_output():
    """Refuse before a command's work what would fail after it: standard output is closed."""
    sys.stdout.write("")


def output_fault():
    """Send on what was printed; the `OSError` that keeps it from going out, or None.

    After a fault the null device takes the place of standard output: the interpreter, which sends
    it on once more as it ends, then finds nothing to complain of.
    """
    try:
        sys.stdout.flush()
    except OSError as error:
        _replace_by_null(sys.stdout.fileno())
        return error
    return None


def full_output(fault):
    """The error of a standard output that takes no more, such as a file on a full disk."""
    return CannotWrite(f"Cannot write to standard output: {fault.strerror}.")


def tell(message):
    """Print a line to standard error, where that is possible."""
    try:
        print(message, file=sys.stderr, flush=True)
    except OSError:
        _replace_by_null(sys.stderr.fileno())


def _open_null(descriptor):
    try:
        os.fstat(descriptor)
    except OSError:
        _replace_by_null(descriptor)


def _replace_by_null(descriptor):
    null = os.open(os.devnull, os.O_RDWR)
    if null == descriptor:
        os.set_inheritable(null, True)  # as standard streams are
        return
    os.dup2(null, descriptor)
    os.close(null)
