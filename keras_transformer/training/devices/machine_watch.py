"""The end of a training whose other machines are lost."""

import atexit
import contextlib
import ctypes
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import IO, NoReturn, Self, TextIO

from keras_transformer.backend_start import LOG_LEVEL
from keras_transformer.cli.program import USER_ERROR
from keras_transformer.errors import UserInputError, WorkerLost
from keras_transformer.files.standard_streams import tell
from keras_transformer.runs.run_directory import RunDirectory

GRACE_SECONDS = 10  # for the main thread to end by itself when the backend ends the process
_begun: list["MachineWatch"] = []  # the open watches of this process, the outermost first


class MachineWatch:
    """Context that turns the loss of another machine into `WorkerLost`.

    A backend raises an error in the step that waits for the other machine, or, if that step hangs,
    ends the process from a thread of its own (`SIGABRT`) when heartbeats stop. Either way the user
    reads one line, and the process does not wait for lost machines. Messages of native code on
    stderr are held back, and shown if another error ends the training; with
    `TF_CPP_MIN_LOG_LEVEL` 0 or 1 they appear as they come. A nested watch only turns errors.
    `is_lost` tells whether an exception means that a machine is lost.
    """

    def __init__(
        self, is_lost: Callable[[BaseException], bool], run: RunDirectory | None = None
    ) -> None:
        self._is_lost = is_lost
        self._run = run
        self._held: IO[str] | None = None
        self._undo = contextlib.ExitStack()

    def __enter__(self) -> Self:
        _begun.append(self)
        if len(_begun) == 1:
            if os.environ.get(LOG_LEVEL, "0") >= "2":
                self._held = self._undo.enter_context(_held_native_stderr())
            self._undo.enter_context(_native_handler(signal.SIGABRT, self._on_abort))
        return self

    def __exit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        _begun.remove(self)
        if not isinstance(exception, Exception):
            self._undo.close()
            return  # Ctrl-C ends the training of all after the same step
        lost = self._is_lost(exception)
        if not _begun:
            self._end_alone(lost or isinstance(exception, UserInputError))
        if lost:
            raise WorkerLost(self.message()) from exception

    def _end_alone(self, is_expected: bool) -> None:
        """End without waiting for the others, which are gone or wait for this process."""
        if not is_expected:
            self._show_held()
        atexit.register(self._end_process, USER_ERROR if is_expected else 1)

    def message(self) -> str:
        """The error message: what happened, and how to continue."""
        states = self._run.checkpoints.states() if self._run else []
        last = f"The last checkpoint is {states[-1]}. " if states else ""
        return (
            "Lost contact with another machine of this training. "
            f"{last}Start all machines again with --resume."
        )

    def _on_abort(self, signal_number: int) -> None:
        """Called in the backend's thread that ends the process."""
        time.sleep(GRACE_SECONDS)  # a main thread with an error of its own ends in this time
        tell(f"error: {self.message()}")
        self._end_process(USER_ERROR)

    def _end_process(self, code: int) -> NoReturn:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)

    def _show_held(self) -> None:
        if self._held is not None:
            self._held.seek(0)
            sys.stderr.write(self._held.read())


@contextlib.contextmanager
def _held_native_stderr() -> Iterator[IO[str]]:
    """Send native code's stderr to the yielded file; Python's own goes where it went."""
    before = sys.stderr
    before.flush()
    with (
        tempfile.TemporaryFile("w+", errors="replace") as held,
        os.fdopen(os.dup(2), "w", buffering=1, errors="backslashreplace") as stderr,
    ):
        if _is_native(before):
            sys.stderr = stderr
        os.dup2(held.fileno(), 2)
        try:
            yield held
        finally:
            stderr.flush()
            os.dup2(stderr.fileno(), 2)
            sys.stderr = before


def _is_native(stream: TextIO) -> bool:
    """Whether native code writes to the same file."""
    try:
        return stream.fileno() == 2
    except OSError:  # a stream without a file
        return False


@contextlib.contextmanager
def _native_handler(number: int, handle: Callable[[int], None]) -> Iterator[None]:
    """Handle a signal at once; Python's own handlers wait for the main thread, which hangs."""
    library = ctypes.CDLL(None)
    library.signal.argtypes = (ctypes.c_int, ctypes.c_void_p)
    library.signal.restype = ctypes.c_void_p
    handler = ctypes.CFUNCTYPE(None, ctypes.c_int)(handle)
    before = library.signal(number, ctypes.cast(handler, ctypes.c_void_p))
    try:
        yield
    finally:
        library.signal(number, before)
