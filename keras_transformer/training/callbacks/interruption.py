"""Signals that take effect at the end of a step, so that the weights are never half updated."""

import contextlib
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any, Self, TypeAlias

import keras

from keras_transformer.files.standard_streams import tell
from keras_transformer.training.callbacks.step_callback import CLOCK, Logs

SIGNALS = {
    signal.SIGINT: "interrupted",
    signal.SIGTERM: "terminated",
    signal.SIGHUP: "hung up",
}
REASONS = (None, *SIGNALS.values())
# What `signal.signal` takes and returns.
Handler: TypeAlias = Callable[[int, FrameType | None], Any] | int | None


class StopOnInterrupt(keras.callbacks.Callback):
    """Raises `KeyboardInterrupt` between two steps, not within one.

    Use it as a context manager around `fit`, and as the last callback. The first Ctrl-C waits for
    the end of the step; the second interrupts at once. SIGTERM, with which cluster managers end a
    program, always acts like a first Ctrl-C. So does SIGHUP, which a closing terminal sends, except
    under `nohup`. SIGCONT tells the training's clock that the process was stopped.

    Args:
        save: called before `KeyboardInterrupt` is raised, with model and optimizer as the last
            step left them: `fit` may put the optimizer's average into the model when it ends.
        agree: returns the maximum of an integer over all processes, such as `Devices.largest`, so
            that all processes stop after the same step.

    Attributes:
        between_steps: whether `KeyboardInterrupt` was raised between two steps.
        stopped_because: "interrupted" after Ctrl-C, "terminated" after SIGTERM, "hung up" after
            SIGHUP, else None.
    """

    def __init__(
        self,
        save: Callable[[], object] | None = None,
        agree: Callable[[int], int] | None = None,
    ) -> None:
        super().__init__()
        self._agree = agree or int
        self.between_steps = False
        self.stopped_because: str | None = None
        self._save = save
        self._previous_handlers: dict[int, Handler] = {}

    def __enter__(self) -> Self:
        # Python lets only the main thread handle signals.
        if threading.current_thread() is threading.main_thread():
            handlers = {**dict.fromkeys(SIGNALS, self._request), signal.SIGCONT: self._go_on}
            if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
                del handlers[signal.SIGHUP]
            self._previous_handlers = {
                number: signal.signal(number, handler) for number, handler in handlers.items()
            }
        return self

    def __exit__(self, kind: Any, exception: BaseException | None, traceback: Any) -> None:
        for number in list(self._previous_handlers):
            self._restore_handler(number)
        if exception is None and self.stopped_because is not None:
            self.between_steps = True  # it came after the last step, when everything was saved
            raise KeyboardInterrupt

    def on_train_batch_end(self, batch: int, logs: Logs | None = None) -> None:
        self.interrupt_if_requested()

    def on_test_batch_end(self, batch: int, logs: Logs | None = None) -> None:
        self.interrupt_if_requested()

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        self.interrupt_if_requested()

    def interrupt_if_requested(self) -> None:
        """Save and raise `KeyboardInterrupt` if any process has received a signal.

        All processes must call it equally often, and only when everything can be saved.
        """
        agreed = self._agree(REASONS.index(self.stopped_because))
        if agreed:
            self.stopped_because = REASONS[agreed]
            if self._save is not None:
                self._save()
            self.between_steps = True
            raise KeyboardInterrupt

    def _request(self, signal_number: int, frame: FrameType | None) -> None:
        if self.stopped_because is None:
            self.stopped_because = SIGNALS[signal.Signals(signal_number)]
        more = ""
        if signal_number == signal.SIGINT:
            self._restore_handler(signal_number)
            more = " Press Ctrl-C again to stop at once."
        with contextlib.suppress(RuntimeError):  # the signal came during a write to stderr
            tell(f"\nStopping after this step.{more}")

    def _go_on(self, signal_number: int, frame: FrameType | None) -> None:
        CLOCK.went_on()

    def _restore_handler(self, number):
        previous = self._previous_handlers.pop(number, None)
        if previous is not None:
            signal.signal(number, previous)
