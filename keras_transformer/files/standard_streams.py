"""Standard input, output and error of a command, which may have started without them."""

import errno
import io
import os
import re
import sys
from typing import NoReturn, TextIO, cast

from keras_transformer.errors import CannotWrite, UserInputError

_is_quiet = False


class MissingStream(io.TextIOBase):
    """Replaces a closed standard stream; reading and writing raise a `UserInputError`."""

    def __init__(self, name: str) -> None:
        self._name = name

    def _refuse(self, *_: object) -> NoReturn:
        raise UserInputError(f"{self._name} is closed.")

    read = readline = write = _refuse
    buffer = property(_refuse)


def replace_missing_streams() -> None:
    """Replace the standard streams that were closed when Python started.

    The null device takes the descriptor of each closed stream. Otherwise, the next file opened
    would get that descriptor, and everything written to the stream. Messages to a closed standard
    error are dropped.
    """
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if stream is None:  # the system assigns the lowest free descriptor
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    sys.stdin = sys.stdin or cast(TextIO, MissingStream("Standard input"))
    sys.stdout = sys.stdout or cast(TextIO, MissingStream("Standard output"))
    sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - stays open


def print_any_path() -> None:
    """Let standard output print file names that its encoding lacks, unchanged."""
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="surrogateescape")


def require_standard_output() -> None:
    """Refuse a closed standard output before a command's work, not after it."""
    sys.stdout.write("")


def output_fault() -> OSError | None:
    """Flush standard output; returns the error if flushing fails.

    After an error, the null device replaces standard output, so that the interpreter's own flush
    at exit succeeds.
    """
    try:
        sys.stdout.flush()
    except OSError as error:
        _replace_by_null(sys.stdout.fileno())
        return error
    return None


def full_output(fault: OSError) -> CannotWrite:
    """The error to raise if standard output cannot be written, e.g. to a full disk."""
    return CannotWrite(f"Cannot write to standard output: {fault.strerror}.")


def be_quiet(quiet: bool) -> None:
    """From now on, show only results, warnings and errors, or show everything again."""
    global _is_quiet
    _is_quiet = quiet


def is_quiet() -> bool:
    """Whether notes and progress bars are hidden."""
    return _is_quiet


def note(message: str) -> None:
    """Print an informational line to standard error, unless `be_quiet` silenced it."""
    if not _is_quiet:
        tell(message)


def printable(text: str) -> str:
    r"""Return text for a terminal: names from files may hold characters that control it.

    Example:
        >>> printable("layer\x1b[31m")
        'layer\ufffd[31m'
    """
    return re.sub(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", "\N{REPLACEMENT CHARACTER}", text)


def tell(message: str) -> None:
    """Print a line to standard error if possible."""
    try:
        print(printable(message), file=sys.stderr, flush=True)
    except OSError:
        _replace_by_null(sys.stderr.fileno())


def say(*lines: object, result: bool = False) -> None:
    """Print lines to standard output, or nothing if its terminal has been closed.

    Args:
        *lines: the lines.
        result: whether to print the lines even after `be_quiet`.
    """
    if _is_quiet and not result:
        return
    try:
        texts = [printable(str(line)) if sys.stdout.isatty() else line for line in lines]
        print(*texts, sep="\n", flush=True)
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        _replace_by_null(sys.stdout.fileno())


def _replace_by_null(descriptor: int) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, descriptor)
    os.close(null)
