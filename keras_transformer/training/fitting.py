"""Training a compiled model into a run directory: `model.fit` with the callbacks of this folder."""

import contextlib
import dataclasses
import math

from keras_transformer.argument_checks import check_positive_int
from keras_transformer.command_line.command_errors import HUNG_UP, INTERRUPTED, TERMINATED
from keras_transformer.errors import CannotWrite
from keras_transformer.files.standard_streams import tell
from keras_transformer.training.callbacks.bleu_validation import BleuValidation
from keras_transformer.training.callbacks.compiled_shapes import CompiledShapes
from keras_transformer.training.callbacks.ema_weights import EMAWeights, keeps_average
from keras_transformer.training.callbacks.interruption import StopOnInterrupt
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
from keras_transformer.training.epochs import EpochCallbacks
from keras_transformer.training.states.checkpoints import Checkpoints
from keras_transformer.training.states.rewind import rewind
from keras_transformer.training.states.saved_states import Progress, SavedStates
from keras_transformer.training.states.training_state import check_same_data
from keras_transformer.training.validation_batches import fixed_batches

# `fit` wants a number of epochs; a training limited by minutes never comes near this one.
EPOCHS_WITHOUT_STEP_LIMIT = 1_000_000
EXIT_CODES = {"interrupted": INTERRUPTED, "terminated": TERMINATED, "hung up": HUNG_UP}


@dataclasses.dataclass(frozen=True)
class FitRecord:
    """What a training did.

    Args:
        steps: updates done, over the training's whole life.
        seconds: time on the clock, validation and saving included, over its whole life.
        target_tokens_per_second: of the training steps alone, without those that trace or compile:
            the first after each start, or the first of each shape where every shape is compiled.
        stopped_because: "steps" or "minutes", the limit that was reached; "patience", which ended;
            "interrupted", by Ctrl-C; "terminated", by SIGTERM; "hung up", by SIGHUP; "data", which
            came to its end.
        target_tokens: those trained on, over the training's whole life.
        training_seconds: time of the training steps alone, over its whole life.
        step_seconds: mean time of a step, without those that trace or compile.
        flops: floating-point operations of all steps, or None where `work` does not know them.
        flop_utilisation: share of the devices' peak that the steps came to, without those that
            trace or compile, or None where it is not known.
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

    @property
    def interrupted(self):
        """Whether a signal such as Ctrl-C ended it: there is more to train."""
        return self.exit_code is not None

    @property
    def exit_code(self):
        """The exit code of a program that ends with it, as shells count it, or None.

        130 after Ctrl-C, 143 after SIGTERM, 129 after SIGHUP.
        """
        return EXIT_CODES.get(self.stopped_because)


def fit_model(
    model,
    data,
    *,
    run,
    work,
    steps=None,
    minutes=None,
    save_every=1000,
    keep_last=5,
    keep_best=1,
    validation_data=None,
    validation_steps=None,
    validators=(),
    monitor="val_perplexity",
    mode="min",
    patience=None,
    ema=False,
    tensorboard=True,
    log_every=50,
    show_progress=True,
    callbacks=(),
    state=None,
    settings=None,
    data_fingerprint=None,
    devices=None,
):
    """Train a compiled model until a number of steps or minutes, or Ctrl-C.

    Every `save_every` steps are one epoch to Keras: then the model is validated and saved. It is
    at the end as well. After Ctrl-C, SIGTERM and SIGHUP it is saved, not validated.

    With the weights goes a state: weights, dropout seeds, the optimizer, what was best so far. A
    training that ends at any moment, also by a kill within a save, goes on from the last one as if
    there had been no break.

    Args:
        model: a `keras.Model` compiled with `metrics.StepLoss` among its weighted metrics. A second
            one, of a loss without smoothing and named "step_nll", adds that to the logs.
        data: endless batches for `fit`: a generator or a `tf.data.Dataset`. Where a state is given,
            its first batch is that of the zero-based step `state.step`.
        run: the `RunDirectory`, started.
        work: the `StepWork` of the training: tokens, padding and operations of a step.
        steps: updates after which to end, or None.
        minutes: minutes after which to end, over the training's whole life, or None. At least one
            of the two limits is needed.
        save_every: updates between two validations and checkpoints.
        keep_last: how many of the last checkpoints to keep.
        keep_best: how many of the best checkpoints to keep besides.
        validation_data: as in `fit`, or None.
        validation_steps: as in `fit`.
        validators: callbacks that add values to the logs of an epoch, such as `BleuValidation`.
        monitor: the value by which a checkpoint is best.
        mode: "min" or "max", which values of `monitor` are better.
        patience: validations in a row without a better value after which to end, or None.
        ema: whether the moving average that the optimizer keeps (`use_ema=True`) is validated and
            saved; the training goes on from the weights themselves.
        tensorboard: whether to write event files to `run.tensorboard_path`.
        log_every: updates between two rows of metrics.csv.
        show_progress: whether to show the progress bar.
        callbacks: further callbacks, called after those that save the weights.
        state: the `TrainingState` to go on from, of `find_state`, or None. What the run directory
            holds of later steps is taken back.
        settings: the training's settings, a JSON-compatible dictionary, or None. The states keep
            them, for `check_same_settings`.
        data_fingerprint: what tells the training text from another one, `BatchReader.fingerprint`,
            or None.
        devices: the `Devices` that the model was compiled for, or None: one process. Only the chief
            of several processes writes files and shows progress.

    Returns:
        A `FitRecord`.

    Raises:
        TrainingDiverged: the loss or a weight is no finite number.
        CannotWrite: the disk is full, or another error of the operating system.
        UserInputError: the state is of other text or another model.
        ValueError: no limit, `patience` without validation, or `ema` against the optimizer.

    Example:
        >>> run = RunDirectory.create("runs/first")  # doctest: +SKIP
        >>> run.start(model=model, tokenizer=tokenizer, settings={})  # doctest: +SKIP
        >>> record = fit_model(  # doctest: +SKIP
        ...     model, data, run=run, work=StepWork.of(plan, model), steps=10_000
        ... )
        >>> average_checkpoints(run.checkpoints(), run.weights_path)  # doctest: +SKIP
    """
    check_positive_int("save_every", save_every)
    _check_ema(model, ema)
    agree = devices.largest if devices else None
    limits = _limits(steps, minutes, state, agree)
    if patience is not None:
        _check_validation(validation_data, validators)
        limits["patience"] = StopOnPlateau(monitor, mode, patience, agree)
    if state is not None:
        _go_back(state, run, model, data_fingerprint, settings, devices)
    meter = StepMeter(work)
    counters = {"meter": meter, **{name: limits[name] for name in limits if name == "patience"}}
    progress = Progress(counters, state)
    average = EMAWeights() if ema else None
    checkpoints = Checkpoints(
        run, keep_last, keep_best, monitor=monitor, mode=mode, remove_old=False
    )
    states = SavedStates(
        run,
        checkpoints,
        progress,
        average=average,
        save_every=save_every,
        settings=settings,
        data_fingerprint=data_fingerprint,
    )
    bar = [ProgressBar(work, steps, minutes, progress.seconds)] if show_progress else []
    shapes = [CompiledShapes(work.shape_to_compile)] if bar and model.jit_compile else []
    logs = [MetricsLog(run.metrics_path, work, log_every), *bar]
    if tensorboard:
        samples = _samples_function(validators)
        logs.append(TensorBoardLog(run.tensorboard_path, work, log_every, samples))
    saving = [checkpoints, ValidationLog(run.validation_path, progress.seconds), *logs, *shapes]
    last = [states]
    interrupt = StopOnInterrupt(states.save_all, agree)
    if devices is not None and not devices.is_chief:
        saving, last, interrupt = [], [], StopOnInterrupt(agree=agree)
    measuring = [StopOnNaN(checkpoints.last_good), meter, *([average] if ema else []), *validators]
    epochs = math.ceil(steps / save_every) if steps else EPOCHS_WITHOUT_STEP_LIMIT
    epoch_callbacks = EpochCallbacks(
        [*measuring, *saving, *limits.values(), *callbacks, *last, interrupt],
        model,
        state,
        save_every,
        epochs,
    )
    try:
        with devices.watch(run) if devices else contextlib.nullcontext(), interrupt:
            model.stop_training = any(limit.reached for limit in limits.values())
            epoch_callbacks.fit(
                data,
                fixed_batches(validation_data, validation_steps),
                validation_steps,
            )
        stopped_because = next((name for name in limits if limits[name].reached), "data")
    except KeyboardInterrupt:
        stopped_because = interrupt.stopped_because or "interrupted"
        if saving:
            _report_interrupt(interrupt, checkpoints)
    except CannotWrite as error:
        raise CannotWrite(f"{error} {checkpoints.last_good()}") from error
    finally:
        for log in logs:
            log.close()
    return FitRecord(
        steps=meter.step,
        seconds=progress.seconds,
        target_tokens_per_second=meter.rate.tokens_per_second,
        stopped_because=stopped_because,
        target_tokens=meter.all_steps.tokens,
        training_seconds=meter.all_steps.seconds,
        step_seconds=meter.rate.step_seconds,
        flops=meter.all_steps.flops,
        flop_utilisation=meter.rate.flop_utilisation,
    )


def _limits(steps, minutes, state, agree):
    """Return the callbacks that end the training, by the name of what they limit."""
    if steps is None and minutes is None:
        raise ValueError("One of `steps` and `minutes` must be given. Received: None for both")
    limits = {}
    if steps is not None:
        limits["steps"] = StepLimit(steps, state.step if state else 0)
    if minutes is not None:
        elapsed = state.progress["seconds"] if state else 0.0
        limits["minutes"] = TimeLimit(minutes, elapsed, agree)
    return limits


def _go_back(state, run, model, data_fingerprint, settings, devices):
    """Make the model and the run what they were, but for settings that may change."""
    check_same_data(state, data_fingerprint)
    if devices is None or devices.is_chief:
        rewind(run, state)
        if settings is not None:
            run.write_json(run.settings_path, settings)
    with devices.scope() if devices else contextlib.nullcontext():
        state.restore(model)


def _check_ema(model, ema):
    kept = keeps_average(model.optimizer)
    if bool(ema) != bool(kept):
        raise ValueError(
            "`ema` must be True where the optimizer has `use_ema=True`, and only there. "
            f"Received: ema={ema}, use_ema={kept}"
        )


def _check_validation(validation_data, validators):
    if validation_data is None and not validators:
        raise ValueError("`patience` needs `validation_data` or `validators`. Received: neither")


def _samples_function(validators):
    """Return a function that returns the last sample translations, None if nobody makes any."""
    for validator in validators:
        if isinstance(validator, BleuValidation):
            return lambda: validator.samples
    return None


def _report_interrupt(interrupt, checkpoints):
    """Say what was saved, and how to go on."""
    name = interrupt.stopped_because or "interrupted"
    if interrupt.between_steps:
        message = f"{name.capitalize()}. The weights are saved: {checkpoints.save()}."
    else:
        message = f"{name.capitalize()} within a step. {checkpoints.last_good()}"
    tell(f"{message} The same command with --resume goes on.")
