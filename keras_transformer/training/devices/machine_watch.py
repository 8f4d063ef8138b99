"""What a process does when another machine of its training has gone."""

import atexit
import contextlib
import ctypes
import os
import signal
import sys
import tempfile
import time

from keras_transformer.backend_start import LOG_LEVEL
from keras_transformer.command_line.command_errors import USER_ERROR
from keras_transformer.errors import UserInputError, WorkerLost

GRACE_SECONDS = 10  # for the main thread to end by itself when the backend ends the process
_begun = []  # the watches that this process is in, the outermost first


class MachineWatch:
    """Context that turns the end of another machine into `WorkerLost`, whatever the backend does.

    A backend raises an error in the step that waits for the other machine, or, where that step
    hangs, ends the process from a thread of its own (`SIGABRT`) when heartbeats fail to come.
    Either way the user reads one line, and the process does not wait for machines that are gone.
    What native code writes to stderr about it is held back; it is shown if another error ends the
    training, and as it comes where `TF_CPP_MIN_LOG_LEVEL` is 0 or 1. A watch within a watch turns
    errors alone. `is_lost` tells whether an exception means that another machine has gone.
    """

    def __init__(self, is_lost, run=None):
        self._is_lost = is_lost
        self._run = run
        self._held = None
        self._undo = contextlib.ExitStack()

    def __enter__(self):
        _begun.append(self)
        if len(_begun) == 1:
            if os.environ.get(LOG_LEVEL, "0") >= "2":
                self._held = self._undo.enter_context(_held_native_stderr())
            self._undo.enter_context(_native_handler(signal.SIGABRT, self._on_abort))
        return self

    def __exit__(self, exception_type, exception, traceback):
        _begun.remove(self)
        if not isinstance(exception, Exception):
            self._undo.close()
            return  # Ctrl-C ends the training of all after the same step
        lost = self._is_lost(exception)
        if not _begun:
            self._end_alone(lost or isinstance(exception, UserInputError))
        if lost:
            raise WorkerLost(self.message()) from exception

    def _end_alone(self, is_expected):
        """The others are gone or wait for this process: it must not wait for them as it ends."""
        if not is_expected:
            self._show_held()
        atexit.register(self._end_process, USER_ERROR if is_expected else 1)

    def message(self):
        """What the user is told."""
        states = self._run.checkpoints.states() if self._run else []
        last = f"The last checkpoint is {states[-1]}. " if states else ""
        return (
            "Lost contact with another machine of this training. "
            f"{last}Start all machines again with --resume."
        )

    def _on_abort(self, signal_number):
        """Called in the thread of the backend that ends the process."""
        time.sleep(GRACE_SECONDS)  # the main thread has seen an error of its own: it ends meanwhile
        print("error:", self.message(), file=sys.stderr)
        self._end_process(USER_ERROR)

    def _end_process(self, code):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)

    def _show_held(self):
        if self._held is not None:
            self._held.seek(0)
            sys.stderr.write(self._held.read())


@contextlib.contextmanager
def _held_native_stderr():
    """Send what native code writes to stderr to a file, which it yields; Python writes on."""
    before = sys.stderr
    before.flush()
    stderr = os.dup(2)
    with tempfile.TemporaryFile("w+", errors="replace") as held:
        sys.stderr = os.fdopen(stderr, "w", buffering=1, errors="backslashreplace")
        os.dup2(held.fileno(), 2)
        try:
            yield held
        finally:
            sys.stderr.flush()
            os.dup2(stderr, 2)
            sys.stderr.close()
            sys.stderr = before


@contextlib.contextmanager
def _native_handler(number, handle):
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
