"""The paper's learning rate schedule: linear warmup, then inverse square root decay."""

from typing import Any

import keras
from keras import ops

from keras_transformer.argument_checks import (
    KeepsArguments,
    check_positive_int,
    check_positive_number,
)
from keras_transformer.types import Tensor


@keras.saving.register_keras_serializable(package="keras_transformer")
class TransformerSchedule(KeepsArguments, keras.optimizers.schedules.LearningRateSchedule):
    """`scale * hidden_dim^-0.5 * min(n^-0.5, n * warmup_steps^-1.5)` at the n-th update (n >= 1).

    Keras passes the number of previous updates, so n is that number plus 1.

    Args:
        hidden_dim: positive integer, the model's width.
        warmup_steps: positive integer, number of updates until the peak.
        scale: positive number by which the entire schedule is multiplied.

    Call arguments:
        step: integer, number of previous updates.

    Returns:
        A float32 scalar.

    Raises:
        ValueError: an argument is not positive.

    Example:
        >>> schedule = TransformerSchedule(hidden_dim=512)
        >>> f"{float(schedule(3999)):.3e}"  # the peak, at the 4,000th update
        '6.988e-04'

    Reference:
        [Attention Is All You Need](https://arxiv.org/abs/1706.03762), section 5.3.
    """

    def __init__(self, hidden_dim: int, warmup_steps: int = 4000, scale: float = 1.0) -> None:
        super().__init__()
        check_positive_int("hidden_dim", hidden_dim)
        check_positive_int("warmup_steps", warmup_steps)
        check_positive_number("scale", scale)

    def __call__(self, step: Tensor) -> Tensor:
        update = ops.cast(step, "float32") + 1.0
        curve = ops.minimum(ops.rsqrt(update), update * self.warmup_steps**-1.5)
        return self.scale * self.hidden_dim**-0.5 * curve

    def get_config(self) -> dict[str, Any]:
        return self._kept_arguments()  # Keras's own class has no configuration


__all__ = ["TransformerSchedule"]
