"""Ctrl-C that waits for the end of a step, so that the weights it leaves are whole."""

import signal
import sys
import threading

import keras


class StopOnInterrupt(keras.callbacks.Callback):
    """Raises `KeyboardInterrupt` between two steps, not within one.

    Used as a context manager around `fit`, with itself among the callbacks. The second Ctrl-C
    interrupts at once.

    Attributes:
        between_steps: whether it was raised between two steps.
    """

    def __init__(self):
        super().__init__()
        self.between_steps = False
        self._requested = False
        self._previous_handler = None

    def __enter__(self):
        # Python lets only the main thread handle signals.
        if threading.current_thread() is threading.main_thread():
            self._previous_handler = signal.signal(signal.SIGINT, self._request)
        return self

    def __exit__(self, exception_type, exception, traceback):
        self._restore_handler()
        if exception_type is None:
            self._interrupt_if_requested()  # it came after the last step

    def on_train_batch_end(self, batch, logs=None):
        self._interrupt_if_requested()

    def on_test_batch_end(self, batch, logs=None):
        self._interrupt_if_requested()

    def _request(self, signal_number, frame):
        self._requested = True
        self._restore_handler()
        print("\nStopping after this step. Press Ctrl-C again to stop at once.", file=sys.stderr)

    def _restore_handler(self):
        if self._previous_handler is not None:
            signal.signal(signal.SIGINT, self._previous_handler)
            self._previous_handler = None

    def _interrupt_if_requested(self):
        if self._requested:
            self.between_steps = True
            raise KeyboardInterrupt
