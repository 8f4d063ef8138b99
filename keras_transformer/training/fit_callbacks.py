"""The callbacks of one training, in order, and the record of what they measured."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING

import keras

from keras_transformer.errors import CannotWrite
from keras_transformer.files.standard_streams import tell
from keras_transformer.training.callbacks.bleu_validation import BleuValidation
from keras_transformer.training.callbacks.compiled_shapes import CompiledShapes
from keras_transformer.training.callbacks.cooldown import Cooldown, has_cooldown
from keras_transformer.training.callbacks.ema_weights import EMAWeights, keeps_average
from keras_transformer.training.callbacks.interruption import StopOnInterrupt
from keras_transformer.training.callbacks.layer_diagnostics import LayerDiagnostics
from keras_transformer.training.callbacks.limits import (
    StepLimit,
    StopOnNaN,
    StopOnPlateau,
    TimeLimit,
)
from keras_transformer.training.callbacks.metrics_log import MetricsLog
from keras_transformer.training.callbacks.progress_bar import ProgressBar
from keras_transformer.training.callbacks.step_callback import StepMeter
from keras_transformer.training.callbacks.tensorboard_log import TensorBoardLog
from keras_transformer.training.callbacks.validation_log import ValidationLog
from keras_transformer.training.cost.step_work import StepWork
from keras_transformer.training.device_time import DeviceTime
from keras_transformer.training.epochs import EpochCallbacks
from keras_transformer.training.fit_record import FitRecord
from keras_transformer.training.states.checkpoints import Checkpoints
from keras_transformer.training.states.saved_states import Progress, SavedStates

if TYPE_CHECKING:
    from keras_transformer.training.training_run import TrainingRun

# `fit` needs a number of epochs; a training limited by minutes never reaches this one.
EPOCHS_WITHOUT_STEP_LIMIT = 1_000_000


class FitCallbacks:
    """The callbacks that an entered `TrainingRun` brings to `fit`; see `TrainingRun.begin`."""

    def __init__(
        self,
        run: TrainingRun,
        model: keras.Model,
        work: StepWork,
        data_fingerprint: str | None,
        validators: Sequence[keras.callbacks.Callback] = (),
        callbacks: Sequence[keras.callbacks.Callback] = (),
    ) -> None:
        self.devices = run.devices
        agree = run.devices.largest
        self.limits = _limits(run, agree)
        self.meter = StepMeter(work)
        counters = {name: self.limits[name] for name in self.limits if name == "patience"}
        elapsed = run.state.progress["seconds"] if run.state else 0.0
        self.device_time = DeviceTime(run.devices, elapsed)
        self.progress = Progress(
            {"meter": self.meter, "devices": self.device_time, **counters}, run.state
        )
        average = EMAWeights() if keeps_average(model.optimizer) else None
        self.checkpoints = Checkpoints(
            run.directory,
            run.keep_last,
            run.keep_best,
            monitor=run.monitor,
            mode=run.mode,
            remove_old=False,
        )
        states = SavedStates(
            run.directory,
            self.checkpoints,
            self.progress,
            average=average,
            save_every=run.save_every,
            settings=run.settings,
            data_fingerprint=data_fingerprint,
        )
        # With an average, all machines put it in: on JAX they assign to weights together.
        of_others = None if average is None else average.put_in
        self.interrupt = StopOnInterrupt(states.save_all if run.is_chief else of_others, agree)
        for each in validators:
            if isinstance(each, BleuValidation):
                each.before_part = self.interrupt.interrupt_if_requested
        self.logs: list[MetricsLog | ProgressBar | TensorBoardLog] = []
        saving: list[keras.callbacks.Callback] = []
        last: list[keras.callbacks.Callback] = []
        if run.is_chief:
            self.logs = _logs(run, work, self.progress, validators)
            log = ValidationLog(run.directory.validation_path, self.progress.seconds)
            saving, last = [self.checkpoints, log, *self.logs], [states]
        if run.is_chief and run.show_progress and model.jit_compile:
            saving.append(CompiledShapes(work.shape_to_compile))
        measuring: list[keras.callbacks.Callback]
        measuring = [StopOnNaN(self.checkpoints.last_good), self.meter]
        measuring += [*([average] if average else []), *validators]
        if has_cooldown(model.optimizer):
            if not model.optimizer.built:  # by `fit`, but after the first epoch has begun
                with run.scope():
                    model.optimizer.build(model.trainable_variables)
            measuring.append(Cooldown(run.steps, run.minutes, lambda: self.progress.seconds, agree))
        diagnostics: list[keras.callbacks.Callback] = []
        if run.layer_diagnostics:  # after the checkpoints, which it must not hold up
            path = run.directory.layers_path if run.is_chief else None
            diagnostics.append(LayerDiagnostics(run.diagnostic_batch, path))
        limits = self.limits.values()
        self.epochs = EPOCHS_WITHOUT_STEP_LIMIT
        if run.steps is not None:
            self.epochs = math.ceil(run.steps / run.save_every)
        self.list = EpochCallbacks(
            [*measuring, *saving, *diagnostics, *limits, *callbacks, *last, self.interrupt],
            model,
            run.state,
            run.save_every,
            self.epochs,
            at_end=self._end,
        )
        self.record: FitRecord | None = None

    @property
    def limit_reached(self) -> str | None:
        """The name of the limit that was reached, or None."""
        return next((name for name in self.limits if self.limits[name].reached), None)

    def break_off(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        """The `__exit__` of a training: true for Ctrl-C and other signals within `fit`."""
        if self.record is not None:
            return False
        self.interrupt.__exit__(exception_type, exception, traceback)
        self._close()
        if isinstance(exception, CannotWrite):
            raise CannotWrite(f"{exception} {self.checkpoints.last_good()}") from exception
        if not isinstance(exception, KeyboardInterrupt):
            return False
        reason = self.interrupt.stopped_because or "interrupted"
        self.record = self._record(reason)
        if self.devices.is_chief:
            self._report_interrupt(reason)
        self.devices.stop()
        return True

    def _end(self) -> None:
        """End `fit`; raises KeyboardInterrupt if a signal came after the last step."""
        self.interrupt.__exit__(None, None, None)
        self._close()
        self.record = self._record(self.limit_reached or "data")
        self.devices.stop()

    def _record(self, stopped_because: str) -> FitRecord:
        rate = self.meter.rate
        return FitRecord(
            steps=self.meter.step,
            seconds=self.progress.seconds,
            target_tokens_per_second=rate.tokens_per_second,
            stopped_because=stopped_because,
            target_tokens=self.meter.all_steps.tokens,
            training_seconds=self.meter.all_steps.seconds,
            step_seconds=rate.step_seconds,
            flops=self.meter.all_steps.flops,
            flop_utilisation=None if self.device_time.changed else rate.flop_utilisation,
            device_seconds=self.device_time.seconds,
        )

    def _close(self) -> None:
        for log in self.logs:
            log.close()

    def _report_interrupt(self, reason: str) -> None:
        """Tell what was saved, and how to resume."""
        if self.interrupt.between_steps:
            message = f"{reason.capitalize()}. The weights are saved: {self.checkpoints.save()}."
        else:
            message = f"{reason.capitalize()} within a step. {self.checkpoints.last_good()}"
        tell(f"{message} The same command with --resume goes on.")


def _limits(
    run: TrainingRun, agree: Callable[[int], int]
) -> dict[str, StepLimit | TimeLimit | StopOnPlateau]:
    """Return the callbacks that end the training, by the name of what they limit."""
    limits: dict[str, StepLimit | TimeLimit | StopOnPlateau] = {}
    if run.steps is not None:
        limits["steps"] = StepLimit(run.steps, run.step)
    if run.minutes is not None:
        elapsed = run.state.progress["seconds"] if run.state else 0.0
        limits["minutes"] = TimeLimit(run.minutes, elapsed, agree)
    if run.patience is not None:
        limits["patience"] = StopOnPlateau(run.monitor, run.mode, run.patience, agree)
    return limits


def _logs(
    run: TrainingRun,
    work: StepWork,
    progress: Progress,
    validators: Sequence[keras.callbacks.Callback],
) -> list[MetricsLog | ProgressBar | TensorBoardLog]:
    """Return the callbacks that are closed at the end."""
    logs: list[MetricsLog | ProgressBar | TensorBoardLog]
    logs = [MetricsLog(run.directory.metrics_path, work, run.log_every)]
    if run.show_progress:
        logs.append(ProgressBar(work, run.steps, run.minutes, progress.seconds))
    if run.tensorboard:
        bleu = next((each for each in validators if isinstance(each, BleuValidation)), None)
        samples = None if bleu is None else lambda: bleu.samples
        path = run.directory.tensorboard_path
        logs.append(TensorBoardLog(path, work, run.log_every, samples))
    return logs
