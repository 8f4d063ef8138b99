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
from keras_transformer.training.step_callback import StepCallback, TokenRate
from keras_transformer.training.validation_log import ValidationLog

# `fit` wants a number of epochs; a training limited by minutes never comes near this one.
EPOCHS_WITHOUT_STEP_LIMIT = 1_000_000


@dataclasses.dataclass(frozen=True)
class FitRecord:
    """What a training did.

    Args:
        steps: updates done, over the training's whole life.
        seconds: time on the clock, validation and saving included.
        target_tokens_per_second: in training steps alone, without the first, which traces the graph.
        stopped_because: "steps", "minutes", "interrupted" or "data" (the data ended).
    """

    steps: int
    seconds: float
    target_tokens_per_second: float
    stopped_because: str

    @property
    def interrupted(self):
        """Whether Ctrl-C ended it; a program then exits with code 130."""
        return self.stopped_because == "interrupted"


class StepMeter(StepCallback):
    """Measures the target tokens per second of all steps but the first."""

    def __init__(self, target_tokens):
        super().__init__()
        self.rate = TokenRate(target_tokens)
        self.step = 0

    def on_train_begin(self, logs=None):
        super().on_train_begin(logs)
        self._first_step = self.step

    def on_step_end(self, logs):
        if self.previous_step > self._first_step:
            self.rate.add(self)


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

    Every `save_every` steps are one epoch to Keras: then the model is validated and saved. The last
    step ends such an epoch, so what was learned last is validated and saved as well.

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
        callbacks: further callbacks, called last.

    Returns:
        A `FitRecord`.

    Raises:
        TrainingDiverged: the loss or a weight is no finite number.
    """
    check_positive_int("save_every", save_every)
    if steps is None and minutes is None:
        raise ValueError("One of `steps` and `minutes` is needed. Received: both are None")
    meter = StepMeter(target_tokens)
    checkpoints = Checkpoints(run, keep_last, monitor=monitor, mode=mode)
    interrupt = StopOnInterrupt()
    limits = {}
    if steps is not None:
        limits["steps"] = StepLimit(steps)
    if minutes is not None:
        limits["minutes"] = TimeLimit(minutes)
    writers = [MetricsLog(run.metrics_path, target_tokens, log_every)]
    if show_progress:
        writers.append(ProgressBar(target_tokens, steps, minutes))
    all_callbacks = [
        StopOnNaN(checkpoints.last_good),
        meter,
        *writers,
        ValidationLog(run.validation_path),
        checkpoints,
        *limits.values(),
        *callbacks,
        interrupt,
    ]
    began = time.perf_counter()
    stopped_because = "data"
    try:
        with interrupt:
            model.fit(
                data,
                epochs=math.ceil(steps / save_every) if steps else EPOCHS_WITHOUT_STEP_LIMIT,
                steps_per_epoch=save_every,
                validation_data=validation_data,
                validation_steps=validation_steps,
                callbacks=all_callbacks,
                shuffle=False,  # the batches come in the order of their plan
                verbose=0,
            )
    except KeyboardInterrupt:
        stopped_because = "interrupted"
        _report_interrupt(interrupt, checkpoints)
    finally:
        for writer in writers:
            writer.close()
    for name, limit in limits.items():
        if limit.reached and stopped_because == "data":
            stopped_because = name
    return FitRecord(meter.step, time.perf_counter() - began, meter.rate.value, stopped_because)


def _report_interrupt(interrupt, checkpoints):
    """Save the weights if they are whole, and say what can be used."""
    if interrupt.between_steps:
        message = f"Interrupted. The weights are in {checkpoints.save()}."
    else:
        message = f"Interrupted within a step. {checkpoints.last_good()}"
    print(message, file=sys.stderr)
