"""What a training shows on stderr: its progress and the number of compiled shapes."""

import contextlib
import math
import sys
from collections.abc import Callable, Hashable
from typing import TextIO

from tqdm import tqdm

from keras_transformer.evaluation.cost.step_work import StepWork
from keras_transformer.training.callbacks.step_callback import CLOCK, Logs, StepCallback, StepMeter

LINES_WITHOUT_TERMINAL = 20
SECONDS_TO_REDRAW = 0.1


class ProgressBar(StepMeter):
    """Shows time left, step, loss, perplexity (on dev too), target tokens/s and step time.

    If the peak speed of the devices is known, it also shows which share of it is used.

    On a terminal it is one bar, elsewhere about twenty lines over the whole training. If it cannot
    be written, for example on a closed terminal, the training continues without it.

    Args:
        work: the work of the training's steps.
        steps: updates after which the training ends.
        minutes: minutes after which the training ends.
        elapsed: seconds that the training took before it was resumed.
        file: where to write. None means stderr.
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
            # The logs of the previous step: the device still computes this one, and must not wait.
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
        """Leave the bar as it is. Call it if `fit` raises, as `on_train_end` is not called then."""
        if self._bar is not None:
            with contextlib.suppress(OSError):
                self._bar.close()
            self._bar = None

    def _progress(self) -> tuple[float, float]:
        """Return the fraction done and the seconds left, by the limit that comes first."""
        now = CLOCK.seconds()
        done, seconds_left = 0.0, math.inf
        if self.steps is not None:
            done = self.step / self.steps
            # The first step traces the graph: the others are faster.
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
        if math.isfinite(seconds_left):  # first, as a narrow terminal cuts the end
            values.append(f"{tqdm.format_interval(round(seconds_left))} left")
        values += [f"step {self.step}{of_steps}", f"loss {logs['loss']:.4f}"]
        if "perplexity" in logs:
            values.append(f"perplexity {logs['perplexity']:.2f}")
        if self._dev_perplexity is not None:
            values.append(f"on dev {self._dev_perplexity:.2f}")
        if self.rate.steps:
            values.append(f"{self.rate.tokens_per_second:,.0f} target tokens/s")
            values.append(f"{self.rate.step_seconds:.3g} s a step")
        if self.rate.flop_utilisation is not None:
            values.append(f"{self.rate.flop_utilisation:.1%} of peak FLOP/s")
        return "  ".join(values)


class CompiledShapes(StepCallback):
    """Prints, at the end of an epoch, how many shapes the training step was compiled for.

    With XLA (on JAX: always), every new shape of a batch is compiled, so the number of shapes
    bounds the time spent compiling. It is printed after the first epoch, and whenever it has grown.

    Args:
        padded_shape: returns the shape of the batch of a zero-based step, such as
            `BatchPlan.padded_shape`.
        file: where to print. None means stderr.

    Attributes:
        shapes: set of the shapes so far.

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
            # Beside a progress bar, not through it; the terminal may be closed.
            with contextlib.suppress(OSError):
                tqdm.write(f"{self._said} compiled shape{plural}", file=self._file or sys.stderr)
