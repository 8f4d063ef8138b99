"""The ordered callbacks of a training run, its epochs, and its final record."""

import collections
import contextlib
import dataclasses
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Self

import keras

from keras_transformer.data.batch_reader import Batch
from keras_transformer.errors import CannotWrite
from keras_transformer.evaluation.step_work import StepWork
from keras_transformer.files import tell
from keras_transformer.optimizers import inner_optimizer
from keras_transformer.runs.run_directory import RunDirectory
from keras_transformer.training.callbacks.bleu_validation import BleuValidation
from keras_transformer.training.callbacks.layer_diagnostics import LayerDiagnostics
from keras_transformer.training.callbacks.metrics_log import (
    CompiledShapes,
    MetricsLog,
    ProgressBar,
    TensorBoardLog,
    ValidationLog,
)
from keras_transformer.training.callbacks.step_callback import (
    EMAWeights,
    Logs,
    StepMeter,
    keeps_average,
)
from keras_transformer.training.callbacks.training_limits import (
    SIGNALS,
    Cooldown,
    StepLimit,
    StopOnInterrupt,
    StopOnNaN,
    StopOnPlateau,
    TimeLimit,
    has_cooldown,
)
from keras_transformer.training.checkpoints.checkpoints import (
    Checkpoints,
    DeviceTime,
    Progress,
    SavedStates,
)
from keras_transformer.training.checkpoints.training_state import TrainingState
from keras_transformer.training.devices.devices import Devices
from keras_transformer.training.training_options import TrainingOptions

# `fit` requires a number of epochs. Training limited by minutes never reaches this number.
EPOCHS_WITHOUT_STEP_LIMIT = 1_000_000
# The exit codes reported by a shell.
EXIT_CODES = {reason: 128 + number for number, reason in SIGNALS.items()}


@dataclasses.dataclass(frozen=True)
class FitRecord:
    """Totals of a training run, including all parts of a resumed run.

    Args:
        steps: number of updates.
        seconds: wall-clock time, including validation and saving.
        target_tokens_per_second: speed of the training steps, excluding steps that trace or
            compile: the first step after each start, or the first step with each shape if all
            shapes are compiled.
        stopped_because: "steps", "minutes" or "patience" if this limit was reached; "interrupted"
            after Ctrl-C, "terminated" after SIGTERM, "hung up" after SIGHUP; "data" if the data
            ended.
        target_tokens: number of target tokens trained on.
        training_seconds: time spent in training steps.
        step_seconds: mean time of a step, excluding steps that trace or compile.
        flops: number of floating-point operations in all steps, if known.
        flop_utilisation: share of the devices' peak speed that was used, excluding steps that trace
            or compile. None if unknown, or if the devices changed when the run was resumed.
        device_seconds: `seconds` times the number of devices, summed over the parts of a resumed
            run. None if the devices were of different kinds.
    """

    steps: int
    seconds: float
    target_tokens_per_second: float
    stopped_because: str
    target_tokens: int = 0
    training_seconds: float = 0.0
    step_seconds: float = 0.0
    flops: int | None = None
    flop_utilisation: float | None = None
    device_seconds: float | None = None

    @property
    def interrupted(self) -> bool:
        """Whether a signal such as Ctrl-C ended training."""
        return self.exit_code is not None

    @property
    def exit_code(self) -> int | None:
        """The program's exit code: 130 after Ctrl-C, 143 after SIGTERM, 129 after SIGHUP."""
        return EXIT_CODES.get(self.stopped_because)


class OpenRun:
    """The state of an entered `TrainingRun`."""

    directory: RunDirectory
    options: TrainingOptions
    devices: Devices
    state: TrainingState | None

    @property
    def settings(self) -> dict[str, Any]:
        """The JSON-compatible settings of the training run."""
        return self.options.settings or {}

    @property
    def command(self) -> str:
        """The command line that started the training run."""
        return self.options.command

    @property
    def is_chief(self) -> bool:
        """Whether this process writes the files and continues after `fit`."""
        return self.devices.is_chief

    @property
    def step(self) -> int:
        """The number of updates before training was resumed."""
        return self.state.step if self.state else 0

    def scope(self) -> contextlib.AbstractContextManager[object]:
        """Return the context in which to build and compile the model."""
        return self.devices.scope()


class FitCallbacks:
    """The callbacks that an entered `TrainingRun` passes to `fit`; see `TrainingRun.begin`.

    In this context, signals take effect at the end of a step. The context exits when `fit` ends, on
    an error, or on a signal, which is suppressed. `record` then describes the run.

    Args:
        run: the run.
        model, work, data_fingerprint, validators, callbacks: see `TrainingRun.begin`.
        measured: batch that `LayerDiagnostics` measures, or None.
    """

    def __init__(
        self,
        run: OpenRun,
        model: keras.Model,
        work: StepWork,
        data_fingerprint: str | None,
        measured: Batch | None = None,
        validators: Sequence[keras.callbacks.Callback] = (),
        callbacks: Sequence[keras.callbacks.Callback] = (),
    ) -> None:
        options, agree = run.options, run.devices.largest
        elapsed = run.state.progress["seconds"] if run.state else 0.0
        bleu = [each for each in validators if isinstance(each, BleuValidation)]
        self._optimizer = model.optimizer
        self.devices = run.devices
        self.limits = _limits(run, elapsed)
        self.meter = StepMeter(work)
        self.device_time = DeviceTime(run.devices, elapsed)
        counters = {name: self.limits[name] for name in self.limits if name == "patience"}
        self.progress = Progress(
            {"meter": self.meter, "devices": self.device_time, **counters}, run.state
        )
        self.checkpoints = Checkpoints(
            run.directory,
            options.keep_last,
            options.keep_best,
            monitor=options.monitor,
            mode=options.mode,
            remove_old=False,
        )
        average = EMAWeights() if keeps_average(model.optimizer) else None
        states = SavedStates(
            run.directory,
            self.checkpoints,
            self.progress,
            average=average,
            save_every=options.save_every,
            settings=run.settings,
            data_fingerprint=data_fingerprint,
        )
        # All machines load the average into the model, because on JAX they assign weights together.
        of_others = average.put_in if average else None
        self.interrupt = StopOnInterrupt(states.save_all if run.is_chief else of_others, agree)
        for each in bleu:
            each.before_part = self.interrupt.interrupt_if_requested
        self.logs = _logs(run, work, self.progress, bleu) if run.is_chief else []
        layers_path = run.directory.layers_path if run.is_chief else None
        in_order = [
            StopOnNaN(self.checkpoints.last_good, options.log_every),
            self.meter,
            *([average] if average else ()),
            *validators,
            *_cooldowns(run, model, self.progress),
            *(self._saving(run, model, work) if run.is_chief else ()),
            # After the checkpoints, to avoid delaying them
            *([] if measured is None else [LayerDiagnostics(measured, layers_path)]),
            *self.limits.values(),
            *callbacks,
            *([states] if run.is_chief else ()),
            self.interrupt,
        ]
        self.epochs = EPOCHS_WITHOUT_STEP_LIMIT
        if options.steps is not None:
            self.epochs = math.ceil(options.steps / options.save_every)
        self.list = EpochCallbacks(
            in_order, model, run.state, options.save_every, self.epochs, at_end=self._end
        )
        self.record: FitRecord | None = None

    def _saving(
        self, run: OpenRun, model: keras.Model, work: StepWork
    ) -> list[keras.callbacks.Callback]:
        """Return the callbacks that record and display the progress of `fit`."""
        log = ValidationLog(run.directory.validation_path, self.progress.seconds)
        saving = [self.checkpoints, log, *self.logs]
        if run.options.show_progress and compiles(model):
            saving.append(CompiledShapes(work.shape_to_compile))
        return saving

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as until_end:
            until_end.enter_context(self.interrupt)
            for log in self.logs:
                until_end.callback(log.close)
            self._until_end = until_end.pop_all()
        return self

    def __exit__(self, kind: Any, exception: BaseException | None, traceback: Any) -> bool:
        if self.record is not None:
            return False
        self._until_end.__exit__(kind, exception, traceback)
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

    @property
    def limit_reached(self) -> str | None:
        """The name of the limit that was reached, or None."""
        return next((name for name in self.limits if self.limits[name].reached), None)

    def _end(self) -> None:
        """End `fit`, raising KeyboardInterrupt if a signal was received after the last step."""
        self._until_end.close()
        self.record = self._record(self.limit_reached or "data")
        if self.devices.is_chief:
            self._warn_of_warm_up()
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

    def _warn_of_warm_up(self) -> None:
        """Warn if training ended during warm-up, because longer training would be much better."""
        rate = inner_optimizer(self._optimizer).get_config()["learning_rate"]
        warmup = rate["config"].get("warmup_steps", 0) if isinstance(rate, dict) else 0
        if self.meter.step < warmup:
            tell(
                f"warning: training ended after {self.meter.step:,} of the {warmup:,} warm-up "
                "updates, with a low learning rate: train longer (--minutes, --steps), or lower "
                "--warmup-steps."
            )

    def _report_interrupt(self, reason: str) -> None:
        """Print which weights were saved and how to resume."""
        if self.interrupt.between_steps:
            message = f"{reason.capitalize()}. The weights are saved: {self.checkpoints.save()}."
        else:
            message = f"{reason.capitalize()} within a step. {self.checkpoints.last_good()}"
        tell(f"{message} Run the same command with --resume to continue.")


def compiles(model: keras.Model) -> bool:
    """Return whether XLA compiles the training step of a model."""
    return getattr(model, "with_xla", model.jit_compile)


def _limits(run: OpenRun, elapsed: float) -> dict[str, StepLimit | TimeLimit | StopOnPlateau]:
    """Return the callbacks that end training, keyed by limit.

    `elapsed` is the number of seconds of training before it was resumed.
    """
    options, agree = run.options, run.devices.largest
    limits: dict[str, StepLimit | TimeLimit | StopOnPlateau] = {}
    if options.steps is not None:
        limits["steps"] = StepLimit(options.steps, run.step)
    if options.minutes is not None:
        limits["minutes"] = TimeLimit(options.minutes, elapsed, agree)
    if options.patience is not None:
        limits["patience"] = StopOnPlateau(options.monitor, options.mode, options.patience, agree)
    return limits


def _cooldowns(run: OpenRun, model: keras.Model, progress: Progress) -> list[Cooldown]:
    """Return the callback for an optimizer with a cooldown, building the optimizer if needed."""
    if not has_cooldown(model.optimizer):
        return []
    if not model.optimizer.built:  # `fit` would build it only after the first epoch has started
        with run.scope():
            model.optimizer.build(model.trainable_variables)
    options = run.options
    agree = run.devices.largest
    return [Cooldown(options.steps, options.minutes, lambda: progress.seconds, agree)]


def _logs(
    run: OpenRun, work: StepWork, progress: Progress, bleu: Sequence[BleuValidation]
) -> list[MetricsLog | ProgressBar | TensorBoardLog]:
    """Return the logging callbacks, which are closed at the end."""
    options = run.options
    logs: list[MetricsLog | ProgressBar | TensorBoardLog]
    logs = [MetricsLog(run.directory.metrics_path, work, options.log_every)]
    if options.show_progress:
        logs.append(ProgressBar(work, options.steps, options.minutes, progress.seconds))
    if options.tensorboard:
        samples = (lambda: bleu[0].samples) if bleu else None
        path = run.directory.tensorboard_path
        logs.append(TensorBoardLog(path, work, options.log_every, samples))
    return logs


class StepLogs(collections.UserDict[str, float]):
    """Metric values after a step, read from the device only when needed."""

    def __getitem__(self, name: str) -> float:
        return float(self.data[name])


class EpochCallbacks(keras.callbacks.CallbackList):
    """The callbacks of a training run, whose epochs end at multiples of `save_every` steps.

    In `fit`, all epochs have the same number of steps. A run resumed in the middle of an epoch
    would therefore be validated and saved at different steps than an uninterrupted run, so its
    first epoch is shortened. Training can also resume between the last step of an epoch and its
    validation. `at_end` is called after all callbacks when `fit` ends.
    """

    def __init__(
        self,
        callbacks: Sequence[keras.callbacks.Callback],
        model: keras.Model,
        state: TrainingState | None,
        save_every: int,
        epochs: int,
        at_end: Callable[[], None],
    ) -> None:
        super().__init__(
            callbacks, add_history=True, model=model, epochs=epochs, steps=save_every, verbose=0
        )
        self._save_every = save_every
        self._first_step = state.step if state else 0
        self._validation_due = state is not None and state.progress["validation_due"]
        self._at_end = at_end
        self._steps = save_every
        self._is_cut = False
        self._has_begun = False

    def validate_if_due(
        self, validation_data: Iterable[object] | None, validation_steps: int | None
    ) -> None:
        """Finish the epoch as `fit` does if training stopped before the epoch's validation."""
        if not self._validation_due:
            return
        self.on_train_begin()
        logs = {}
        if validation_data is not None:
            inputs, labels, weights = keras.utils.unpack_x_y_sample_weight(validation_data)
            values = self.model.evaluate(
                inputs,
                labels,
                sample_weight=weights,
                steps=validation_steps,
                callbacks=self,
                return_dict=True,
                verbose=0,
            )
            logs = {f"val_{name}": value for name, value in values.items()}
        self.on_epoch_end(math.ceil(self._first_step / self._save_every) - 1, logs)

    def on_train_begin(self, logs: Logs | None = None) -> None:
        if not self._has_begun:
            self._has_begun = True
            if self._first_step:
                logs = {**(logs or {}), "steps_done": self._first_step}
            super().on_train_begin(logs)

    def on_train_end(self, logs: Logs | None = None) -> None:
        super().on_train_end(logs)
        self._at_end()

    def on_epoch_begin(self, epoch: int, logs: Logs | None = None) -> None:
        super().on_epoch_begin(epoch, logs)
        self._steps = self._save_every
        if epoch == self._first_step // self._save_every:
            self._steps -= self._first_step % self._save_every

    def on_train_batch_end(self, batch: int, logs: Logs | None = None) -> None:
        # Keras's method reads all values of a step, and therefore waits for the device.
        step_logs = StepLogs(logs or {})
        for callback in self.callbacks:
            callback.on_train_batch_end(batch, logs=step_logs)
        is_short = self._steps < self._save_every
        if is_short and batch + 1 >= self._steps and not self.model.stop_training:
            self.model.stop_training = self._is_cut = True

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        if self._is_cut:
            self.model.stop_training = self._is_cut = False
        super().on_epoch_end(epoch, logs)
