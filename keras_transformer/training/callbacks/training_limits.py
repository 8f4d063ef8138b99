"""Callbacks that end training at a limit, on a plateau, on NaN or on Ctrl-C."""

import contextlib
import math
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any, Literal, Self, TypeAlias

import keras

from keras_transformer.argument_checks import (
    check_one_of,
    check_positive_int,
    check_positive_number,
)
from keras_transformer.errors import TrainingDiverged
from keras_transformer.files import tell
from keras_transformer.optimizers import inner_optimizer
from keras_transformer.training.callbacks.step_callback import CLOCK, Logs, StepCallback


class StepLimit(StepCallback):
    """Ends training after `steps` updates, including those before it was resumed.

    Args:
        steps: positive integer.
        done: number of updates before training was resumed.
    """

    def __init__(self, steps: int, done: int = 0) -> None:
        super().__init__()
        check_positive_int("steps", steps)
        self.steps = steps
        self.reached = done >= steps

    def on_step_end(self, logs: Logs) -> None:
        if self.step >= self.steps:
            self.reached = True
            self.model.stop_training = True


class TimeLimit(StepCallback):
    """Ends training after `minutes` of wall-clock time, including validation and saving.

    Periods in which the process is stopped do not count.

    Args:
        minutes: positive number of minutes.
        elapsed: seconds of training before it was resumed.
        agree: function such as `Devices.largest` that returns the maximum of an integer over all
            processes, because their clocks differ.
    """

    def __init__(
        self,
        minutes: float,
        elapsed: float = 0.0,
        agree: Callable[[int], int] | None = None,
    ) -> None:
        super().__init__()
        check_positive_number("minutes", minutes)
        self.minutes = minutes
        self._agree = agree or int
        self.seconds_left = 60 * minutes - elapsed
        self.reached = self.seconds_left <= 0

    def on_train_begin(self, logs: Logs | None = None) -> None:
        super().on_train_begin(logs)
        self._ends = CLOCK.seconds() + self.seconds_left

    def on_step_end(self, logs: Logs) -> None:
        if self._agree(int(CLOCK.seconds() >= self._ends)):
            self.reached = True
            self.model.stop_training = True


class StopOnPlateau(keras.callbacks.Callback):
    """Ends training after `patience` consecutive validations without improvement.

    Epochs without the value, such as BLEU measured every few epochs, do not count.

    Args:
        monitor: name of the value.
        mode: whether lower or higher values are better.
        patience: positive integer.
        agree: see `TimeLimit`; the last digits of a value may differ between processors.

    Attributes:
        progress: JSON-compatible state for resuming: the `best` value, negated if lower is better,
            and the number of validations `without_progress`.
    """

    def __init__(
        self,
        monitor: str,
        mode: Literal["min", "max"],
        patience: int,
        agree: Callable[[int], int] | None = None,
    ) -> None:
        super().__init__()
        check_one_of("mode", mode, ("min", "max"))
        check_positive_int("patience", patience)
        self.monitor = monitor
        self.mode = mode
        self.patience = patience
        self._agree = agree or int
        self._best = -math.inf
        self._without_progress = 0

    @property
    def reached(self) -> bool:
        """Whether this limit has ended training."""
        return self._without_progress >= self.patience

    @property
    def progress(self) -> dict[str, Any]:
        return {"best": self._best, "without_progress": self._without_progress}

    @progress.setter
    def progress(self, progress: dict[str, Any]) -> None:
        self._best = progress["best"]
        self._without_progress = progress["without_progress"]

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        value = (logs or {}).get(self.monitor)
        if value is None:
            return
        gain = value if self.mode == "max" else -value
        if gain > self._best:
            self._best = gain
            self._without_progress = 0
        else:
            self._without_progress += 1
        if self._agree(int(self.reached)):
            self._without_progress = max(self._without_progress, self.patience)
            self.model.stop_training = True


class StopOnNaN(StepCallback):
    """Raises `TrainingDiverged` after the first step whose loss is not finite.

    A loss is read only after the next step has been dispatched to the device, so the device does
    not wait. At logged steps and at the end of an epoch, the loss is read immediately. Place this
    callback before callbacks that save.

    Args:
        last_good: function that returns a sentence about the last good checkpoint.
        log_every: number of steps between two logged steps.
    """

    def __init__(
        self, last_good: Callable[[], str] | None = None, log_every: int | None = None
    ) -> None:
        super().__init__()
        self.last_good = last_good
        self.log_every = log_every
        self._unread: tuple[int, Logs] | None = None

    def on_step_end(self, logs: Logs) -> None:
        self._check()
        self._unread = self.step, logs
        if self.log_every and self.passed_multiple_of(self.log_every):
            self._check()

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        self._check()

    def _check(self) -> None:
        if self._unread is None:
            return
        (step, logs), self._unread = self._unread, None
        loss = logs["step_loss"] if "step_loss" in logs else logs["loss"]
        if not math.isfinite(loss):
            sentence = f" {self.last_good()}" if self.last_good else ""
            raise TrainingDiverged(
                f"The loss is {loss} at step {step}: training stopped.{sentence} "
                "A lower learning rate or a longer warm-up may help."
            )


class Cooldown(StepCallback):
    """Sets `last_update` of `AdamWithGradientNorm` at the start of each epoch.

    A limit in minutes is converted to a number of updates at the mean pace so far. The number is
    re-estimated at each epoch. Before the first update, the pace is unknown, and the learning rate
    is the same as without a cooldown.

    Args:
        steps: number of updates after which training ends, or None.
        minutes: number of minutes after which training ends, or None.
        seconds: returns the seconds of training so far, including time before it was resumed.
        agree: as in `TimeLimit`.
    """

    def __init__(
        self,
        steps: int | None,
        minutes: float | None,
        seconds: Callable[[], float],
        agree: Callable[[int], int] | None = None,
    ) -> None:
        super().__init__()
        self._steps = steps
        self._minutes = minutes
        self._seconds = seconds
        self._agree = agree or int

    def on_epoch_begin(self, epoch: int, logs: Logs | None = None) -> None:
        super().on_epoch_begin(epoch, logs)
        inner_optimizer(self.model.optimizer).last_update.assign(self._last_update())

    def _last_update(self) -> int:
        """Return the total number of updates, or 0 if unknown."""
        ends = [] if self._steps is None else [self._steps]
        if self._minutes is not None and self.step:
            pace = self._seconds() / self.step
            ends.append(self._agree(round(60 * self._minutes / pace)))
        return min(ends, default=0)


def has_cooldown(optimizer: keras.optimizers.Optimizer) -> bool:
    """Whether the learning rate decreases at the end of training."""
    return bool(getattr(inner_optimizer(optimizer), "cooldown", 0.0))


SIGNALS = {
    signal.SIGINT: "interrupted",
    signal.SIGTERM: "terminated",
}
if hasattr(signal, "SIGHUP"):  # not on Windows
    SIGNALS[signal.SIGHUP] = "hung up"
REASONS = (None, *SIGNALS.values())
# The type of handlers accepted and returned by `signal.signal`.
Handler: TypeAlias = Callable[[int, FrameType | None], Any] | int | None


class StopOnInterrupt(keras.callbacks.Callback):
    """Raises `KeyboardInterrupt` between two steps, never within a step.

    Use this callback as a context manager around `fit`, and as the last callback. The first Ctrl-C
    waits for the end of the step; the second interrupts immediately. SIGTERM, sent by cluster
    managers, always acts like a first Ctrl-C. So does SIGHUP, sent by a closing terminal, except
    under `nohup`. SIGCONT notifies the training clock that the process was stopped.

    Args:
        save: called before `KeyboardInterrupt` is raised, while the model and optimizer are as the
            last step left them; at its end, `fit` may load the optimizer's average into the model.
        agree: function such as `Devices.largest` that returns the maximum of an integer over all
            processes, so all processes stop after the same step.

    Attributes:
        between_steps: whether `KeyboardInterrupt` was raised between two steps.
        stopped_because: "interrupted" after Ctrl-C, "terminated" after SIGTERM, "hung up" after
            SIGHUP, otherwise None.
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
        # In Python, only the main thread can handle signals.
        if threading.current_thread() is threading.main_thread():
            handlers: dict[int, Handler] = {**dict.fromkeys(SIGNALS, self._request)}
            if hasattr(signal, "SIGHUP"):
                handlers[signal.SIGCONT] = self._go_on
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
            self.between_steps = True  # the signal came after the last step, when all was saved
            raise KeyboardInterrupt

    def on_train_batch_end(self, batch: int, logs: Logs | None = None) -> None:
        self.interrupt_if_requested()

    def on_test_batch_end(self, batch: int, logs: Logs | None = None) -> None:
        self.interrupt_if_requested()

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        self.interrupt_if_requested()

    def interrupt_if_requested(self) -> None:
        """Save and raise `KeyboardInterrupt` if any process has received a signal.

        All processes must call this the same number of times, and only if everything can be saved.
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
            more = " Press Ctrl-C again to stop immediately."
        with contextlib.suppress(RuntimeError):  # the signal arrived during a write to stderr
            tell(f"\nStopping after this step.{more}")

    def _go_on(self, signal_number: int, frame: FrameType | None) -> None:
        CLOCK.went_on()

    def _restore_handler(self, number):
        previous = self._previous_handlers.pop(number, None)
        if previous is not None:
            signal.signal(number, previous)
