"""A callback that tells the optimizer when the training ends."""

from collections.abc import Callable

import keras

from keras_transformer.optimizers import inner_optimizer
from keras_transformer.training.callbacks.step_callback import Logs, StepCallback


class Cooldown(StepCallback):
    """Sets `last_update` of an `AdamWithGradientNorm` at the beginning of each epoch.

    A limit of minutes is a number of updates only by the pace so far, which each epoch knows
    better; before the first update there is none, and the learning rate is as without a cooldown.

    Args:
        steps: updates after which the training ends, or None.
        minutes: minutes after which it ends, or None.
        seconds: returns the seconds that the training has taken, with those before a resume.
        agree: as of `TimeLimit`.
    """

    def __init__(
        self,
        steps: int | None,
        minutes: float | None,
        seconds: Callable[[], float],
        agree: Callable[[int], int] | None = None,
    ) -> None:
        super().__init__()
        self._steps = steps
        self._minutes = minutes
        self._seconds = seconds
        self._agree = agree or int

    def on_epoch_begin(self, epoch: int, logs: Logs | None = None) -> None:
        super().on_epoch_begin(epoch, logs)
        inner_optimizer(self.model.optimizer).last_update.assign(self._last_update())

    def _last_update(self) -> int:
        """The number of all updates, as far as it is known; 0: not at all."""
        ends = [] if self._steps is None else [self._steps]
        if self._minutes is not None and self.step:
            pace = self._seconds() / self.step
            ends.append(self._agree(round(60 * self._minutes / pace)))
        return min(ends, default=0)


def has_cooldown(optimizer: keras.optimizers.Optimizer) -> bool:
    """Whether the learning rate falls at the end of the training."""
    return bool(getattr(inner_optimizer(optimizer), "cooldown", 0.0))
