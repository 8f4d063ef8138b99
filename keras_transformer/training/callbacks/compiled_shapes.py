"""The number of batch shapes that a training step was compiled for."""

import contextlib
import sys
from collections.abc import Callable, Hashable
from typing import TextIO

from tqdm import tqdm

from keras_transformer.training.callbacks.step_callback import Logs, StepCallback


class CompiledShapes(StepCallback):
    """Prints, at the end of an epoch, how many shapes the training step was compiled for.

    With XLA (on JAX: always) every new shape of a batch is compiled, so the number of shapes
    bounds the time spent compiling. It is printed after the first epoch, and whenever it grew.

    Args:
        padded_shape: returns the shape of the batch of a zero-based step, such as
            `BatchPlan.padded_shape`.
        file: where to print. None: stderr.

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
