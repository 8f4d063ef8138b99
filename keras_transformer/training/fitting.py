"""Training a compiled model into a run directory: `model.fit` with the callbacks of this folder."""

import dataclasses
import math
import sys
import time

from keras_transformer.argument_checks import check_positive_int
from keras_transformer.training.checkpoints import Checkpoints
from keras_transformer.training.interruption import StopOnInterrupt
from keras_transformer.training.limits import StepLimit, StopOnNaN, TimeLimit
from keras_transformer.training.metrics_log import MetricsLog
from keras_transformer.training.progress_bar import ProgressBar
from keras_transformer.training.step_callback import StepMeter
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
        stopped_because: "steps" or "minutes", the limit that was reached; "interrupted", by Ctrl-C;
            "data", which came to its end.
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
    validation_data=None,
    validation_steps=None,
    monitor="val_perplexity",
    mode="min",
    log_every=50,
    show_progress=True,
    callbacks=(),
):
    """Train a compiled model until a number of steps or minutes, or Ctrl-C.

    Every `save_every` steps are one epoch to Keras: then the model is validated and saved. It is
    at the end as well. After Ctrl-C it is saved, not validated.

    Args:
        model: a `keras.Model` compiled with `metrics.StepLoss` among its weighted metrics.
        data: endless batches for `fit`: a generator or a `tf.data.Dataset`.
        run: the `RunDirectory`, started.
        target_tokens: function from a zero-based step to its number of target tokens.
        steps: updates after which to end, or None.
        minutes: minutes after which to end, or None. At least one of the two limits is needed.
        save_every: updates between two validations and checkpoints.
        keep_last: how many checkpoints to keep besides the best.
        validation_data: as in `fit`, or None.
        validation_steps: as in `fit`.
        monitor: the value by which a checkpoint is best.
        mode: "min" or "max", which values of `monitor` are better.
        log_every: updates between two rows of metrics.csv.
        show_progress: whether to show the progress bar.
        callbacks: further callbacks, called after those that save.

    Returns:
        A `FitRecord`.

    Raises:
        TrainingDiverged: the loss or a weight is no finite number.

    Example:
        >>> run = RunDirectory.create("runs/first")  # doctest: +SKIP
        >>> run.start(model=model, tokenizer=tokenizer, settings={})  # doctest: +SKIP
        >>> record = fit_model(  # doctest: +SKIP
        ...     model, data, run=run, target_tokens=plan.target_tokens, steps=10_000
        ... )
        >>> average_checkpoints(run.checkpoints(), run.weights_path)  # doctest: +SKIP
    """
    check_positive_int("save_every", save_every)
    limits = _limits(steps, minutes)
    meter = StepMeter(target_tokens)
    checkpoints = Checkpoints(run, keep_last, monitor=monitor, mode=mode)
    writers = [MetricsLog(run.metrics_path, target_tokens, log_every)]
    if show_progress:
        writers.append(ProgressBar(target_tokens, steps, minutes))
    interrupt = StopOnInterrupt()
    before_saving = [StopOnNaN(checkpoints.last_good), meter, *writers]
    after_saving = [ValidationLog(run.validation_path), *limits.values(), *callbacks, interrupt]
    began = time.perf_counter()
    try:
        with interrupt:
            model.fit(
                data,
                epochs=math.ceil(steps / save_every) if steps else EPOCHS_WITHOUT_STEP_LIMIT,
                steps_per_epoch=save_every,
                validation_data=validation_data,
                validation_steps=validation_steps,
                callbacks=[*before_saving, checkpoints, *after_saving],
                shuffle=False,  # the batches come in the order of their plan
                verbose=0,
            )
        stopped_because = next((name for name in limits if limits[name].reached), "data")
    except KeyboardInterrupt:
        stopped_because = "interrupted"
        _report_interrupt(interrupt, checkpoints)
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


def _report_interrupt(interrupt, checkpoints):
    """Save the weights if they are whole, and say what can be used."""
    if interrupt.between_steps:
        message = f"Interrupted. The weights are saved: {checkpoints.save()}."
    else:
        message = f"Interrupted within a step. {checkpoints.last_good()}"
    print(message, file=sys.stderr)
