"""The values of single steps and of validations, for metrics.csv and validation.csv."""

import abc
import csv
import io
from collections.abc import Callable, Sequence
from pathlib import Path

import keras

from keras_transformer.argument_checks import check_positive_int
from keras_transformer.evaluation.cost.step_work import StepWork
from keras_transformer.files.output_files import write_all
from keras_transformer.files.whole_files import write_text, writing
from keras_transformer.optimizers import inner_optimizer
from keras_transformer.training.callbacks.step_callback import CLOCK, Logs, StepCallback, StepTotals
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
    """Collects the values of the first 10 steps, then of every `every`-th step.

    A subclass writes them in `write_step`. The values are
    - `loss`: the mean per token of that step, including label smoothing;
    - `learning_rate`;
    - `target_tokens_per_second` and `step_seconds`: means over the steps since the last logged
      one, including input, excluding steps in which the process was stopped;
    - `nll`: the plain negative log-likelihood per token of that step, in nats, if a
      `metrics.StepLoss` with a loss without smoothing is named "step_nll";
    - `gradient_norm`: global norm of the gradients before clipping, if the optimizer keeps it;
    - `padding_share`: share of padding in that batch, if known;
    - `flop_utilisation`: share of the devices' peak speed over the steps since the last logged
      one, if known.
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
        """Log the known values of step `self.step`."""

    def _updates(self) -> int:
        """Updates that the learning rate counts: not steps that overflowed in float16."""
        optimizer = self.model.optimizer
        inner = inner_optimizer(optimizer)
        return self.step if inner is optimizer else max(1, int(inner.iterations.numpy()))

    def _values(self, logs: Logs) -> dict[str, float]:
        values = {
            "loss": float(logs["step_loss"]),
            "learning_rate": self._learning_rate(self._updates() - 1),
        }
        if self._rate.steps:  # 0 if the process was stopped in the only step since then
            values["target_tokens_per_second"] = self._rate.tokens_per_second
            values["step_seconds"] = self._rate.step_seconds
        if "step_nll" in logs:
            values["nll"] = float(logs["step_nll"])
        # On JAX the optimizer's variables are stale until `self.model` updates them.
        norm = getattr(inner_optimizer(self.model.optimizer), "gradient_norm", None)
        if norm is not None:
            values["gradient_norm"] = float(norm.numpy())
        if self._work.padding_share is not None:
            values["padding_share"] = float(self._work.padding_share(self.step - 1))
        if self._rate.flop_utilisation is not None:
            values["flop_utilisation"] = self._rate.flop_utilisation
        return values


def learning_rate_function(optimizer: keras.optimizers.Optimizer) -> Callable[[int], float]:
    """Return a function from a zero-based step to the optimizer's learning rate."""
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
    """Writes the values of `StepLog` to a CSV file, one row per step; unknown values are empty.

    The columns are `step,loss,learning_rate,target_tokens_per_second,nll,gradient_norm,
    step_seconds,padding_share,flop_utilisation`. Losses have 9 significant digits, so that equal
    digits mean equal float32 values.

    Args:
        path: the file; rows are appended if it exists.
        work: the work of the training's steps.
        every: after the first 10 steps, every `every`-th step is written.
    """

    def __init__(self, path: PathLike, work: StepWork, every: int = 50) -> None:
        super().__init__(work, every)
        self.path = path
        self._file: io.FileIO | None = None

    def on_train_begin(self, logs: Logs | None = None) -> None:
        super().on_train_begin(logs)
        # Without a buffer, which `close` would try to write again on a full disk.
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
        """Close the file. Call it if `fit` raises, as `on_train_end` is not called then."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _write(self, cells: Sequence[str]) -> None:
        if self._file is not None:
            with writing(self.path):
                write_all(self._file, (",".join(cells) + "\n").encode())


class ValidationLog(StepCallback):
    """Writes the step, the seconds since the start and the `val_` values, one row per validation.

    It leaves out `val_loss`, which Keras averages over sentences (use `metrics.TokenLoss`), and
    `val_step_loss` and `val_step_nll`, which cover only the last batch. If a value, such as BLEU,
    is not measured at a validation, its cell is empty.

    Args:
        path: the file; rows are appended if it exists.
        elapsed: seconds that the training took before it was resumed.
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
        """The rows written so far."""
        if not self.path.is_file():
            return []
        with open(self.path, encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))


def validation_values(logs: Logs | None) -> dict[str, float]:
    """Return the values of a validation from the logs of an epoch, sorted by name."""
    return {
        name: value
        for name, value in sorted((logs or {}).items())
        if name.startswith("val_") and name not in LEFT_OUT
    }
