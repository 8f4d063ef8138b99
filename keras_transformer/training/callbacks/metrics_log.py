"""Training logs: CSV files, TensorBoard and the progress bar."""

import abc
import contextlib
import csv
import io
import math
import sys
from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, TextIO

import keras
from tqdm import tqdm

from keras_transformer.argument_checks import check_positive_int
from keras_transformer.evaluation.step_work import StepWork
from keras_transformer.files import note, write_all, write_text, writing
from keras_transformer.optimizers import inner_optimizer
from keras_transformer.training.callbacks.step_callback import (
    CLOCK,
    Logs,
    StepCallback,
    StepMeter,
    StepTotals,
)
from keras_transformer.training.callbacks.training_limits import has_cooldown
from keras_transformer.types import PathLike

FIRST_STEPS = 10
FORMATS = {
    "loss": ".9g",
    "learning_rate": ".9g",
    "target_tokens_per_second": ".1f",
    "nll": ".9g",
    "gradient_norm": ".9g",
    "step_seconds": ".6f",
    "padding_share": ".4f",
    "flop_utilisation": ".4f",
}
LEFT_OUT = ("val_loss", "val_step_loss", "val_step_nll")


class StepLog(StepCallback, abc.ABC):
    """Collects the values of the first 10 steps and of every `every`-th step after that.

    Subclasses write the values in `write_step`. The values are
    - `loss`: mean loss per token in the step, including label smoothing;
    - `learning_rate`;
    - `target_tokens_per_second` and `step_seconds`: means over the steps since the last logged
      step, including input and excluding steps in which the process was stopped;
    - `nll`: plain negative log-likelihood per token in the step, in nats, if a `metrics.StepLoss`
      with an unsmoothed loss is named "step_nll";
    - `gradient_norm`: global norm of the gradients before clipping, if the optimizer stores it;
    - `padding_share`: share of padding in the batch, if known;
    - `flop_utilisation`: fraction of the devices' peak speed used since the last logged step, if
      known.
    """

    def __init__(self, work: StepWork, every: int = 50) -> None:
        super().__init__()
        check_positive_int("every", every)
        self.every = every
        self._work = work
        self._rate = StepTotals(work)

    def on_train_begin(self, logs: Logs | None = None) -> None:
        super().on_train_begin(logs)
        self._learning_rate = learning_rate_function(self.model.optimizer)
        self._rate.restart()

    def on_step_end(self, logs: Logs) -> None:
        if "step_loss" not in logs:
            raise ValueError(
                f"`{type(self).__name__}` needs `metrics.StepLoss` among `weighted_metrics`"
            )
        if not self.was_stopped:
            self._rate.add(self)
        if self.step <= FIRST_STEPS or self.passed_multiple_of(self.every):
            self.write_step(self._values(logs))
            self._rate.restart()

    @abc.abstractmethod
    def write_step(self, values: dict[str, float]) -> None:
        """Write the known values of step `self.step`."""

    def _updates(self) -> int:
        """Return the number of updates for the learning rate, excluding overflows in float16."""
        optimizer = self.model.optimizer
        inner = inner_optimizer(optimizer)
        return self.step if inner is optimizer else max(1, int(inner.iterations.numpy()))

    def _values(self, logs: Logs) -> dict[str, float]:
        values = {
            "loss": float(logs["step_loss"]),
            "learning_rate": self._learning_rate(self._updates() - 1),
        }
        if self._rate.steps:  # 0 if the process was stopped in the only step since
            values["target_tokens_per_second"] = self._rate.tokens_per_second
            values["step_seconds"] = self._rate.step_seconds
        if "step_nll" in logs:
            values["nll"] = float(logs["step_nll"])
        # On JAX, the optimizer's variables are stale until `self.model` updates them.
        norm = getattr(inner_optimizer(self.model.optimizer), "gradient_norm", None)
        if norm is not None:
            values["gradient_norm"] = float(norm.numpy())
        if self._work.padding_share is not None:
            values["padding_share"] = float(self._work.padding_share(self.step - 1))
        if self._rate.flop_utilisation is not None:
            values["flop_utilisation"] = self._rate.flop_utilisation
        return values


def learning_rate_function(optimizer: keras.optimizers.Optimizer) -> Callable[[int], float]:
    """Return a function that maps a zero-based step to the optimizer's learning rate."""
    inner = inner_optimizer(optimizer)
    rate = inner.get_config()["learning_rate"]
    if isinstance(rate, dict):
        rate = keras.optimizers.schedules.deserialize(rate)

    def learning_rate(step: int) -> float:
        value = rate(step) if callable(rate) else rate
        if has_cooldown(inner):
            value = value * inner.cooldown_factor(step)
        return float(keras.ops.convert_to_numpy(value))

    return learning_rate


class MetricsLog(StepLog):
    """Writes the values of `StepLog` to a CSV file, one row per step. Unknown values are empty.

    The columns are `step,loss,learning_rate,target_tokens_per_second,nll,gradient_norm,
    step_seconds,padding_share,flop_utilisation`. Losses have 9 significant digits, so equal digits
    mean equal float32 values.

    Args:
        path: the file; rows are appended if it exists.
        work: the work of the training steps.
        every: interval between written steps after the first 10 steps.
    """

    def __init__(self, path: PathLike, work: StepWork, every: int = 50) -> None:
        super().__init__(work, every)
        self.path = path
        self._file: io.FileIO | None = None

    def on_train_begin(self, logs: Logs | None = None) -> None:
        super().on_train_begin(logs)
        # Do not buffer: `close` would try to write the buffer again on a full disk.
        self._file = open(self.path, "ab", buffering=0)  # noqa: SIM115
        if self._file.tell() == 0:
            self._write(["step", *FORMATS])

    def write_step(self, values: dict[str, float]) -> None:
        cells = (
            format(values[name], form) if name in values else "" for name, form in FORMATS.items()
        )
        self._write([str(self.step), *cells])

    def on_train_end(self, logs: Logs | None = None) -> None:
        self.close()

    def close(self) -> None:
        """Close the file. Call this if `fit` fails, because it then skips `on_train_end`."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _write(self, cells: Sequence[str]) -> None:
        if self._file is not None:
            with writing(self.path):
                write_all(self._file, (",".join(cells) + "\n").encode())


class ValidationLog(StepCallback):
    """Writes one row per validation: the step, the seconds since the start and the `val_` values.

    `val_loss` is omitted, because Keras averages it over sentences (use `metrics.TokenLoss`).
    `val_step_loss` and `val_step_nll` are also omitted, because they cover only the last batch.
    Values that a validation does not measure, such as BLEU, have empty cells.

    Args:
        path: the file; rows are appended if it exists.
        elapsed: seconds of training before it was resumed.
    """

    def __init__(self, path: PathLike, elapsed: float = 0.0) -> None:
        super().__init__()
        self.path = Path(path)
        self.elapsed = elapsed

    def on_train_begin(self, logs: Logs | None = None) -> None:
        super().on_train_begin(logs)
        self._began = CLOCK.seconds() - self.elapsed

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        values = validation_values(logs)
        if not values:
            return
        seconds = CLOCK.seconds() - self._began
        row = {"step": str(self.step), "seconds": f"{seconds:.1f}"}
        row |= {name: f"{value:.9g}" for name, value in values.items()}
        rows = [*self._rows(), row]
        columns = list(dict.fromkeys(name for row in rows for name in row))
        lines = [columns, *([row.get(name, "") for name in columns] for row in rows)]
        write_text(self.path, "".join(",".join(line) + "\n" for line in lines))

    def _rows(self) -> list[dict[str, str]]:
        """Return the rows written so far."""
        if not self.path.is_file():
            return []
        with open(self.path, encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))


def validation_values(logs: Logs | None) -> dict[str, float]:
    """Return the validation values in the logs of an epoch, sorted by name."""
    return {
        name: value
        for name, value in sorted((logs or {}).items())
        if name.startswith("val_") and name not in LEFT_OUT
    }


SAMPLE_COLUMNS = ("source", "translation", "reference")


class TensorBoardLog(StepLog):
    """Writes event files with the values of `StepLog`, each validation, and sample translations.

    View the files with `tensorboard --logdir DIRECTORY`. TensorFlow writes the files. Without
    TensorFlow (possible on JAX), a note is printed and nothing is written.

    Disk errors are raised as `CannotWrite`, because Keras's `fit` would interpret TensorFlow's "out
    of range" error for an oversized file as the end of the data.

    Args:
        directory: folder for the event files.
        work: the work of the training steps.
        every: interval between written steps after the first 10 steps.
        samples: function that returns the last sample translations as `(source, hypothesis,
            reference)`, which are written with each `val_bleu`.
    """

    def __init__(
        self,
        directory: PathLike,
        work: StepWork,
        every: int = 50,
        samples: Callable[[], Sequence[tuple[str, str, str]]] | None = None,
    ) -> None:
        super().__init__(work, every)
        self.directory = directory
        self._samples = samples
        self._writer: Any = None  # a `tf.summary.SummaryWriter` during training

    def on_train_begin(self, logs: Logs | None = None) -> None:
        super().on_train_begin(logs)
        try:
            import tensorflow as tf

            from keras_transformer.data.tensorflow_files import leave_gpus_to_keras

            with self._writing():
                leave_gpus_to_keras()
                self._writer = tf.summary.create_file_writer(str(self.directory))
        except ImportError:
            note("TensorFlow is not installed: no TensorBoard logs are written.")

    def on_step_end(self, logs: Logs) -> None:
        if self._writer is not None:
            with self._writing():
                super().on_step_end(logs)

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        if self._writer is None:
            return
        values = validation_values(logs)
        with self._writing():
            self.write_step(values)
            if "val_bleu" in values and self._samples is not None:
                table = [SAMPLE_COLUMNS, *self._samples()]
                self._write("samples", table, plugin="text", data_class=2)
            self._writer.flush()

    def write_step(self, values: dict[str, float]) -> None:
        for name, value in values.items():
            self._write(name, float(value), plugin="scalars", data_class=1)

    def on_train_end(self, logs: Logs | None = None) -> None:
        self.close()

    def close(self) -> None:
        """Close the file. Call this if `fit` fails, because it then skips `on_train_end`."""
        if self._writer is not None:
            writer, self._writer = self._writer, None
            with self._writing():
                writer.close()

    def _writing(self) -> AbstractContextManager[None]:
        from keras_transformer.data.tensorflow_files import tensorflow_writing

        return tensorflow_writing(self.directory)

    def _write(self, name, value, plugin, data_class):
        """Mimic `tf.summary.scalar` (data class 1) or `.text` (2), which need TensorBoard.

        `tensorflow/core/framework/summary.proto` defines the classes.
        """
        import tensorflow as tf

        metadata = tf.compat.v1.SummaryMetadata(data_class=data_class)
        metadata.plugin_data.plugin_name = plugin
        with self._writer.as_default(step=self.step):
            tf.summary.write(name, tf.constant(value), metadata=metadata)


LINES_WITHOUT_TERMINAL = 20
SECONDS_TO_REDRAW = 0.1


class ProgressBar(StepMeter):
    """Shows remaining time, step, loss, train and dev perplexity, target tokens/s and step time.

    If the peak speed of the devices is known, the bar also shows their utilization.

    On a terminal, a single bar is updated; other outputs receive about twenty lines in total. If
    the bar cannot be written, for example to a closed terminal, training continues without a bar.

    Args:
        work: the work of the training steps.
        steps: number of updates after which training ends.
        minutes: number of minutes after which training ends.
        elapsed: seconds of training before it was resumed.
        file: output file. None means stderr.
    """

    def __init__(
        self,
        work: StepWork,
        steps: int | None = None,
        minutes: float | None = None,
        elapsed: float = 0.0,
        file: TextIO | None = None,
    ) -> None:
        super().__init__(work)
        self.steps = steps
        self.minutes = minutes
        self._elapsed = elapsed
        self._file = file or sys.stderr
        self._bar = None

    def on_train_begin(self, logs: Logs | None = None) -> None:
        super().on_train_begin(logs)
        self._began = CLOCK.seconds() - self._elapsed
        self._fraction_of_next_line = 0.0
        self._drawn = -math.inf
        self._dev_perplexity: float | None = None
        self._previous_logs: Logs | None = None
        if self._file.isatty():
            self._bar = tqdm(
                desc="preparing the first step",
                total=1.0,
                file=self._file,
                bar_format="{percentage:3.0f}%|{bar:20}| {desc}",
                miniters=0,
            )

    def on_step_end(self, logs: Logs) -> None:
        super().on_step_end(logs)
        if self.previous_step == self.first_step:
            self._first_step_ended = CLOCK.seconds()
        done, seconds_left = self._progress()
        if self._is_due(done):
            # Use the logs of the previous step to avoid waiting for the current step.
            shown = logs if done >= 1 else self._previous_logs or logs
            with contextlib.suppress(OSError):
                self._show(done, self._line(shown, seconds_left))
        self._previous_logs = logs

    def _is_due(self, done: float) -> bool:
        if self._bar is None:
            return done >= self._fraction_of_next_line
        is_due = done >= 1 or CLOCK.seconds() - self._drawn >= SECONDS_TO_REDRAW
        if is_due:
            self._drawn = CLOCK.seconds()
        return is_due

    def _show(self, done: float, line: str) -> None:
        if self._bar is not None:
            self._bar.set_description_str(line, refresh=False)
            self._bar.update(done - self._bar.n)
            return
        print(f"{done:4.0%}  {line}", file=self._file, flush=True)
        lines = math.floor(done * LINES_WITHOUT_TERMINAL) + 1
        self._fraction_of_next_line = lines / LINES_WITHOUT_TERMINAL

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        self._dev_perplexity = (logs or {}).get("val_perplexity", self._dev_perplexity)

    def on_train_end(self, logs: Logs | None = None) -> None:
        self.close()

    def close(self) -> None:
        """Leave the bar as is. Call this if `fit` fails, because it then skips `on_train_end`."""
        if self._bar is not None:
            with contextlib.suppress(OSError):
                self._bar.close()
            self._bar = None

    def _progress(self) -> tuple[float, float]:
        """Return the completed fraction and the seconds left until the first limit."""
        now = CLOCK.seconds()
        done, seconds_left = 0.0, math.inf
        if self.steps is not None:
            done = self.step / self.steps
            # The first step traces the graph; later steps are faster.
            steps_timed = self.step - self.first_step - 1
            if steps_timed > 0:
                pace = (now - self._first_step_ended) / steps_timed
                seconds_left = max(0.0, pace * (self.steps - self.step))
        if self.minutes is not None:
            elapsed = now - self._began
            done = max(done, elapsed / (60 * self.minutes))
            seconds_left = min(seconds_left, max(0.0, 60 * self.minutes - elapsed))
        return min(done, 1.0), seconds_left

    def _line(self, logs: Logs, seconds_left: float) -> str:
        of_steps = f"/{self.steps}" if self.steps is not None and self.minutes is None else ""
        values = []
        if math.isfinite(seconds_left):  # first, because a narrow terminal truncates the line
            values.append(f"{tqdm.format_interval(round(seconds_left))} left")
        values += [f"step {self.step}{of_steps}", f"loss {logs['loss']:.4f}"]
        if "perplexity" in logs:
            values.append(f"perplexity {logs['perplexity']:.2f}")
        if self._dev_perplexity is not None:
            values.append(f"on dev {self._dev_perplexity:.2f}")
        if self.rate.steps:
            values.append(f"{self.rate.tokens_per_second:,.0f} target tokens/s")
            values.append(f"{self.rate.step_seconds:.3g} s per step")
        if self.rate.flop_utilisation is not None:
            values.append(f"{self.rate.flop_utilisation:.1%} of peak FLOP/s")
        return "  ".join(values)


class CompiledShapes(StepCallback):
    """Prints the number of shapes compiled for the training step at the end of an epoch.

    With XLA (always on JAX), each new batch shape is compiled, so the number of shapes determines
    the compilation time. The number is printed after the first epoch and whenever it has increased.

    Args:
        padded_shape: function that maps a zero-based step to the shape of its batch, such as
            `BatchPlan.padded_shape`.
        file: output file. None means stderr.

    Attributes:
        shapes: set of shapes seen so far.

    Example:

    ```python
    callback = CompiledShapes(reader.plan.padded_shape)
    model.fit(batches, steps_per_epoch=100, callbacks=[callback])  # 16 compiled shapes
    ```
    """

    def __init__(self, padded_shape: Callable[[int], Hashable], file: TextIO | None = None) -> None:
        super().__init__()
        self.shapes: set[Hashable] = set()
        self._padded_shape = padded_shape
        self._file = file
        self._said = 0

    def on_step_end(self, logs: Logs) -> None:
        self.shapes.update(map(self._padded_shape, range(self.previous_step, self.step)))

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        if len(self.shapes) > self._said:
            self._said = len(self.shapes)
            plural = "" if self._said == 1 else "s"
            # Do not overwrite a progress bar; the terminal may be closed.
            with contextlib.suppress(OSError):
                tqdm.write(f"{self._said} compiled shape{plural}", file=self._file or sys.stderr)
