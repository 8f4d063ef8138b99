"""Signals that wait for the end of a step, so that the weights they leave are whole."""

import contextlib
import signal
import threading

import keras

from keras_transformer.files.standard_streams import tell
from keras_transformer.training.callbacks.running_clock import CLOCK

SIGNALS = {
    signal.SIGINT: "interrupted",
    signal.SIGTERM: "terminated",
    signal.SIGHUP: "hung up",
}
REASONS = (None, *SIGNALS.values())


class StopOnInterrupt(keras.callbacks.Callback):
    """Raises `KeyboardInterrupt` between two steps, not within one.

    Used as a context manager around `fit`, with itself the last of the callbacks. The second Ctrl-C
    interrupts at once. SIGTERM, by which the manager of a cluster asks a program to end, does the
    same as the first Ctrl-C, however often it comes; so does SIGHUP, the end of the terminal, but
    under `nohup`, which lets a program ignore it. At SIGCONT the training's clock is told that the
    process was stopped.

    Args:
        save: function without arguments that is called before, while all is as the last step left
            it: `fit` may put the optimizer's average into the model when it is left. Or None.
        agree: function from a number to the largest of those of all processes, such as
            `Devices.largest`, so that what one is asked to do all do after the same step; or None.

    Attributes:
        between_steps: whether it was raised between two steps.
        stopped_because: "interrupted" after Ctrl-C, "terminated" after SIGTERM, "hung up" after
            SIGHUP, else None.
    """

    def __init__(self, save=None, agree=None):
        super().__init__()
        self._agree = agree or int
        self.between_steps = False
        self.stopped_because = None
        self._save = save
        self._previous_handlers = {}

    def __enter__(self):
        # Python lets only the main thread handle signals.
        if threading.current_thread() is threading.main_thread():
            handlers = {**dict.fromkeys(SIGNALS, self._request), signal.SIGCONT: self._go_on}
            if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
                del handlers[signal.SIGHUP]
            self._previous_handlers = {
                number: signal.signal(number, handler) for number, handler in handlers.items()
            }
        return self

    def __exit__(self, exception_type, exception, traceback):
        for number in list(self._previous_handlers):
            self._restore_handler(number)
        if exception_type is None and self.stopped_because is not None:
            self.between_steps = True  # it came after the last step, when all was saved
            raise KeyboardInterrupt

    def on_train_batch_end(self, batch, logs=None):
        self._interrupt_if_requested()

    def on_test_batch_end(self, batch, logs=None):
        self._interrupt_if_requested()

    def on_epoch_end(self, epoch, logs=None):
        self._interrupt_if_requested()

    def _request(self, signal_number, frame):
        if self.stopped_because is None:
            self.stopped_because = SIGNALS[signal_number]
        more = ""
        if signal_number == signal.SIGINT:
            self._restore_handler(signal_number)
            more = " Press Ctrl-C again to stop at once."
        with contextlib.suppress(RuntimeError):  # it came in the middle of a write to stderr
            tell(f"\nStopping after this step.{more}")

    def _go_on(self, signal_number, frame):
        CLOCK.went_on()

    def _restore_handler(self, number):
        previous = self._previous_handlers.pop(number, None)
        if previous is not None:
            signal.signal(number, previous)

    def _interrupt_if_requested(self):
        agreed = self._agree(REASONS.index(self.stopped_because))
        if agreed:
            self.stopped_because = REASONS[agreed]
            if self._save is not None:
                self._save()
            self.between_steps = True
            raise KeyboardInterrupt
