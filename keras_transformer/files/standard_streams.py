"""Standard input, output and error of a command that may have been started without them."""

import errno
import io
import os
import sys
from typing import NoReturn, TextIO, cast

from keras_transformer.errors import CannotWrite, UserInputError


class MissingStream(io.TextIOBase):
    """Stands for a closed standard stream: reading and writing raise a `UserInputError`."""

    def __init__(self, name: str, descriptor: int) -> None:
        self._name = name
        self._descriptor = descriptor

    def fileno(self) -> int:
        return self._descriptor

    @property
    def buffer(self) -> NoReturn:
        raise self._error()

    def read(self, size: int | None = -1) -> NoReturn:
        raise self._error()

    def readline(self, size: int | None = -1) -> NoReturn:
        raise self._error()

    def write(self, text: str) -> NoReturn:
        raise self._error()

    def _error(self) -> UserInputError:
        return UserInputError(f"{self._name} is closed.")


def replace_missing_streams() -> None:
    """Replace the standard streams that were closed when Python started.

    The null device takes the descriptor of each; otherwise the next file opened would get it, and
    with it what is written to the stream. Messages to a closed standard error are dropped.
    """
    if sys.stdin is None:
        _open_null(0)
        sys.stdin = cast(TextIO, MissingStream("Standard input", 0))
    if sys.stdout is None:
        _open_null(1)
        sys.stdout = cast(TextIO, MissingStream("Standard output", 1))
    if sys.stderr is None:
        _open_null(2)
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - stays open


def print_any_path() -> None:
    """Let standard output print names of files that are not in its encoding, as they are."""
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="surrogateescape")


def require_standard_output() -> None:
    """Refuse a closed standard output before a command's work instead of after it."""
    sys.stdout.write("")


def output_fault() -> OSError | None:
    """Flush standard output; returns the error if that fails.

    After an error the null device replaces standard output, so that the interpreter's own flush
    at exit succeeds.
    """
    try:
        sys.stdout.flush()
    except OSError as error:
        _replace_by_null(sys.stdout.fileno())
        return error
    return None


def full_output(fault: OSError) -> CannotWrite:
    """The error to raise when standard output cannot be written, e.g. to a full disk."""
    return CannotWrite(f"Cannot write to standard output: {fault.strerror}.")


def tell(message: str) -> None:
    """Print a line to standard error if possible."""
    try:
        print(message, file=sys.stderr, flush=True)
    except OSError:
        _replace_by_null(sys.stderr.fileno())


def say(*lines: object) -> None:
    """Print lines to standard output, or nothing if its terminal has been closed."""
    try:
        print(*lines, sep="\n", flush=True)
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        _replace_by_null(sys.stdout.fileno())


def _open_null(descriptor: int) -> None:
    try:
        os.fstat(descriptor)
    except OSError:
        _replace_by_null(descriptor)


def _replace_by_null(descriptor: int) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    if null == descriptor:
        os.set_inheritable(null, True)  # as standard streams are
        return
    os.dup2(null, descriptor)
    os.close(null)
