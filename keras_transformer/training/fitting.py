"""Training a compiled model into a run directory: `model.fit` with the callbacks of this folder."""

import dataclasses
import math
import sys
import time

from keras_transformer.argument_checks import check_positive_int
from keras_transformer.training.bleu_validation import BleuValidation
from keras_transformer.training.checkpoints import Checkpoints
from keras_transformer.training.ema_weights import EMAWeights, keeps_average
from keras_transformer.training.interruption import StopOnInterrupt
from keras_transformer.training.limits import StepLimit, StopOnNaN, StopOnPlateau, TimeLimit
from keras_transformer.training.metrics_log import MetricsLog
from keras_transformer.training.progress_bar import ProgressBar
from keras_transformer.training.step_callback import StepMeter
from keras_transformer.training.tensorboard_log import TensorBoardLog
from keras_transformer.training.validation_log import ValidationLog

# `fit` wants a number of epochs; a training limited by minutes never comes near this one.
EPOCHS_WITHOUT_STEP_LIMIT = 1_000_000


@dataclasses.dataclass(frozen=True)
class FitRecord:
    """What a training did.

    Args:
        steps: updates done, over the training's whole life.
        seconds: time on the clock, validation and saving included.
        target_tokens_per_second: of the training steps alone, without the first, which traces the
            graph.
        stopped_because: "steps" or "minutes", the limit that was reached; "patience", which ended;
            "interrupted", by Ctrl-C; "data", which came to its end.
    """

    steps: int
    seconds: float
    target_tokens_per_second: float
    stopped_because: str

    @property
    def interrupted(self):
        """Whether Ctrl-C ended it; a program then exits with code 130."""
        return self.stopped_because == "interrupted"


def fit_model(
    model,
    data,
    *,
    run,
    target_tokens,
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
    padding_share=None,
    log_every=50,
    show_progress=True,
    callbacks=(),
):
    """Train a compiled model until a number of steps or minutes, or Ctrl-C.

    Every `save_every` steps are one epoch to Keras: then the model is validated and saved. It is
    at the end as well. After Ctrl-C it is saved, not validated.

    Args:
        model: a `keras.Model` compiled with `metrics.StepLoss` among its weighted metrics. A second
            one, of a loss without smoothing and named "step_nll", adds that to the logs.
        data: endless batches for `fit`: a generator or a `tf.data.Dataset`.
        run: the `RunDirectory`, started.
        target_tokens: function from a zero-based step to its number of target tokens.
        steps: updates after which to end, or None.
        minutes: minutes after which to end, or None. At least one of the two limits is needed.
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
        padding_share: function from a zero-based step to the share of padding in its batch, for
            TensorBoard, or None.
        log_every: updates between two rows of metrics.csv.
        show_progress: whether to show the progress bar.
        callbacks: further callbacks, called after those that save.

    Returns:
        A `FitRecord`.

    Raises:
        TrainingDiverged: the loss or a weight is no finite number.
        ValueError: no limit, `patience` without validation, or `ema` against the optimizer.

    Example:
        >>> run = RunDirectory.create("runs/first")  # doctest: +SKIP
        >>> run.start(model=model, tokenizer=tokenizer, settings={})  # doctest: +SKIP
        >>> record = fit_model(  # doctest: +SKIP
        ...     model, data, run=run, target_tokens=plan.target_tokens, steps=10_000
        ... )
        >>> average_checkpoints(run.checkpoints(), run.weights_path)  # doctest: +SKIP
    """
    check_positive_int("save_every", save_every)
    _check_ema(model, ema)
    limits = _limits(steps, minutes)
    if patience is not None:
        _check_validation(validation_data, validators)
        limits["patience"] = StopOnPlateau(monitor, mode, patience)
    meter = StepMeter(target_tokens)
    average = [EMAWeights()] if ema else []
    checkpoints = Checkpoints(run, keep_last, keep_best, monitor=monitor, mode=mode)
    writers = [MetricsLog(run.metrics_path, target_tokens, log_every)]
    if show_progress:
        writers.append(ProgressBar(target_tokens, steps, minutes))
    if tensorboard:
        logged = (target_tokens, log_every, padding_share, _samples_function(validators))
        writers.append(TensorBoardLog(run.tensorboard_path, *logged))
    interrupt = StopOnInterrupt()
    saving = [StopOnNaN(checkpoints.last_good), meter, *average, *validators, checkpoints]
    logging = [ValidationLog(run.validation_path), *writers]
    began = time.perf_counter()
    try:
        with interrupt:
            model.fit(
                data,
                epochs=math.ceil(steps / save_every) if steps else EPOCHS_WITHOUT_STEP_LIMIT,
                steps_per_epoch=save_every,
                validation_data=validation_data,
                validation_steps=validation_steps,
                callbacks=[*saving, *logging, *limits.values(), *callbacks, interrupt],
                shuffle=False,  # the batches come in the order of their plan
                verbose=0,
            )
        stopped_because = next((name for name in limits if limits[name].reached), "data")
    except KeyboardInterrupt:
        stopped_because = "interrupted"
        _report_interrupt(interrupt, checkpoints, average)
    finally:
        for writer in writers:
            writer.close()
    return FitRecord(meter.step, time.perf_counter() - began, meter.rate.value, stopped_because)


def _limits(steps, minutes):
    """Return the callbacks that end the training, by the name of what they limit."""
    if steps is None and minutes is None:
        raise ValueError("One of `steps` and `minutes` must be given. Received: None for both")
    limits = {}
    if steps is not None:
        limits["steps"] = StepLimit(steps)
    if minutes is not None:
        limits["minutes"] = TimeLimit(minutes)
    return limits


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


def _report_interrupt(interrupt, checkpoints, average):
    """Save the weights if they are whole, and say what can be used."""
    if interrupt.between_steps:
        for callback in average:
            callback.put_in()
        message = f"Interrupted. The weights are saved: {checkpoints.save()}."
    else:
        message = f"Interrupted within a step. {checkpoints.last_good()}"
    print(message, file=sys.stderr)
