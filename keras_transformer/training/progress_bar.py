"""The progress of a training on stderr."""

import math
import sys
import time

from tqdm import tqdm

from keras_transformer.training.step_callback import StepCallback, TokenRate

LINES_WITHOUT_TERMINAL = 20


def format_duration(seconds):
    """Return seconds as m:ss or h:mm:ss."""
    return tqdm.format_interval(max(0, round(seconds)))


class ProgressBar(StepCallback):
    """Shows step, loss, perplexity, target tokens per second and time left.

    On a terminal it is one bar; elsewhere about twenty lines over the whole training.

    Args:
        target_tokens: function from a zero-based step to its number of target tokens.
        steps: updates after which the training ends, or None.
        minutes: minutes after which the training ends, or None.
        file: where to write. None: stderr.
    """

    def __init__(self, target_tokens, steps=None, minutes=None, file=None):
        super().__init__()
        self.steps = steps
        self.minutes = minutes
        self._rate = TokenRate(target_tokens)
        self._given_file = file
        self._bar = None

    def on_train_begin(self, logs=None):
        super().on_train_begin(logs)
        self._file = self._given_file or sys.stderr
        self._began = time.perf_counter()
        self._first_step = self.step
        self._fraction_of_next_line = 0.0
        if self._file.isatty():
            layout = "{percentage:3.0f}%|{bar:20}| {desc}"
            self._bar = tqdm(total=1.0, file=self._file, bar_format=layout, leave=True)

    def on_step_end(self, logs):
        if self.previous_step > self._first_step:  # the first step also traces the graph
            self._rate.add(self)
        done, left = self._progress()
        if self._bar is not None:
            self._bar.set_description_str(self._line(logs, left), refresh=False)
            self._bar.update(done - self._bar.n)
        elif done >= self._fraction_of_next_line:
            print(f"{done:4.0%}  {self._line(logs, left)}", file=self._file, flush=True)
            self._fraction_of_next_line = done + 1 / LINES_WITHOUT_TERMINAL

    def on_train_end(self, logs=None):
        self.close()

    def close(self):
        """Leave the bar as it is; an interrupted training calls this itself."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None

    def _progress(self):
        """Return the fraction done and the seconds left, by the limit that comes first."""
        elapsed = time.perf_counter() - self._began
        done, left = 0.0, math.inf
        if self.steps is not None:
            steps_left = max(0, self.steps - self.step)
            done = self.step / self.steps
            left = elapsed * steps_left / (self.step - self._first_step)
        if self.minutes is not None:
            done = max(done, elapsed / (60 * self.minutes))
            left = min(left, 60 * self.minutes - elapsed)
        return min(done, 1.0), left

    def _line(self, logs, left):
        of_steps = f"/{self.steps}" if self.steps is not None else ""
        values = [f"step {self.step}{of_steps}", f"loss {logs['loss']:.4f}"]
        if "perplexity" in logs:
            values.append(f"perplexity {logs['perplexity']:.2f}")
        values.append(f"{self._rate.value:,.0f} target tokens/s")
        if math.isfinite(left):
            values.append(f"{format_duration(left)} left")
        return "  ".join(values)
