"""How many shapes of batches a compiled training step has met."""

import sys

from tqdm import tqdm

from keras_transformer.training.callbacks.step_callback import StepCallback


class CompiledShapes(StepCallback):
    """Says at the end of an epoch in how many shapes the training step is compiled.

    Where each shape of a batch is compiled (XLA, so JAX always), their number bounds the time that
    goes into it. It is said after the first epoch, and again when there are more.

    Args:
        padded_shape: function from a zero-based step to the shape of its batch, such as
            `BatchPlan.padded_shape`.
        file: where to write. None: stderr.

    Attributes:
        shapes: set of the shapes so far.

    Example:

    ```python
    callback = CompiledShapes(reader.plan.padded_shape)
    model.fit(batches, steps_per_epoch=100, callbacks=[callback])  # 16 compiled shapes
    ```
    """

    def __init__(self, padded_shape, file=None):
        super().__init__()
        self.shapes = set()
        self._padded_shape = padded_shape
        self._file = file
        self._said = 0

    def on_step_end(self, logs):
        self.shapes.update(map(self._padded_shape, range(self.previous_step, self.step)))

    def on_epoch_end(self, epoch, logs=None):
        if len(self.shapes) > self._said:
            self._said = len(self.shapes)
            plural = "" if self._said == 1 else "s"
            # Beside a progress bar, not through it.
            tqdm.write(f"{self._said} compiled shape{plural}", file=self._file or sys.stderr)
