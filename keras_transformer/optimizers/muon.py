"""Muon for the matrices of the layers, Adam for all other weights."""

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from keras_transformer.argument_checks import check_positive_number, check_rate
from keras_transformer.optimizers.adam_with_gradient_norm import AdamWithGradientNorm
from keras_transformer.types import Tensor

# Of `newton_schulz`, chosen by Jordan for a steep slope at 0; see `Muon`.
_COEFFICIENTS = 3.4445, -4.7750, 2.0315
_ITERATIONS = 5


@keras.saving.register_keras_serializable(package="keras_transformer")
class Muon(AdamWithGradientNorm):
    """Muon for the matrices of the layers, `AdamWithGradientNorm` for all other weights.

    The direction of a matrix's update is its momentum with all singular values brought close to 1,
    so that rare directions are learned as fast as frequent ones. The formula is the same as in
    `keras.optimizers.Muon`, with these differences: no weight decay; each projection in a fused
    attention matrix (queries, keys, values) is a separate matrix, since their singular values are
    unrelated; norm, clipping, cooldown and Adam are as in `AdamWithGradientNorm`.

    Adam updates vectors, and matrices whose path contains "embedding" or "logits".

    Args:
        learning_rate: float or schedule, for Adam and Muon alike.
        momentum: decay of the mean of a matrix's gradients, with Nesterov momentum; at least 0 and
            below 1.
        rms_rate: positive number; approximate root mean square of the elements of a matrix's
            update, in learning rates. The 0.2 of Keras and Moonlight matches Adam's updates.
        **kwargs: other arguments of `AdamWithGradientNorm`.

    Example:
        >>> muon = Muon(0.1, rms_rate=1.0)
        >>> weight = keras.Variable([[1.0, 0.0], [0.0, 1.0]], name="kernel")
        >>> muon.apply([ops.convert_to_tensor([[3.0, 0.0], [0.0, 1.0]])], [weight])
        >>> bool(weight[0, 0] < 0.93)
        True

    Reference:
        [Muon: An optimizer for hidden layers in neural networks](
        https://kellerjordan.github.io/posts/muon/), Jordan et al., 2024; the scale is from [Muon is
        Scalable for LLM Training](https://arxiv.org/abs/2502.16982), Liu et al., 2025.
    """

    def __init__(
        self,
        learning_rate: Any = 0.001,
        *,
        momentum: float = 0.95,
        rms_rate: float = 0.2,
        **kwargs: Any,
    ) -> None:
        super().__init__(learning_rate, **kwargs)
        check_rate("momentum", momentum)
        check_positive_number("rms_rate", rms_rate)
        self._parts: list[tuple[int, ...] | None] = []

    def build(self, var_list: Sequence[keras.Variable]) -> None:
        if self.built:
            return
        self._parts = [_parts(variable) for variable in var_list]
        super().build(var_list)

    def add_variable_from_reference(
        self, reference_variable: Any, name: Any = None, initializer: Any = "zeros"
    ) -> Any:
        if name == "velocity" and _parts(reference_variable) is not None:
            return None  # only Adam has it
        return super().add_variable_from_reference(reference_variable, name, initializer)

    def update_step(self, gradient: Tensor, variable: Any, learning_rate: Tensor) -> None:
        index = self._get_variable_index(variable)
        parts = self._parts[index]
        if parts is None:
            super().update_step(gradient, variable, learning_rate)
            return
        gradient = ops.cast(gradient, variable.dtype)
        momentum = self._momentums[index]
        self.assign(momentum, ops.add(ops.multiply(momentum, self.momentum), gradient))
        ahead = ops.add(gradient, ops.multiply(momentum, self.momentum))
        update = ops.multiply(self._direction(ahead, parts), ops.cast(learning_rate, ahead.dtype))
        self.assign_sub(variable, update)

    def _direction(self, matrix: Tensor, parts: tuple[int, ...]) -> Tensor:
        """The update of a matrix per learning rate.

        Args:
            matrix: tensor (rows, columns).
            parts: numbers of columns of the matrices that it contains side by side.

        Returns:
            Tensor (rows, columns).
        """
        rows = matrix.shape[0]
        if len(set(parts)) == 1:
            each = ops.reshape(matrix, (rows, len(parts), parts[0]))
            each = newton_schulz(ops.transpose(each, (1, 0, 2)))
            each = ops.multiply(each, self.rms_rate * max(rows, parts[0]) ** 0.5)
            return ops.reshape(ops.transpose(each, (1, 0, 2)), matrix.shape)
        ends = [sum(parts[:i]) for i in range(1, len(parts))]
        return ops.concatenate(
            [
                ops.multiply(newton_schulz(part), self.rms_rate * max(part.shape) ** 0.5)
                for part in ops.split(matrix, ends, axis=1)
            ],
            axis=1,
        )


def newton_schulz(matrix: Tensor) -> Tensor:
    """Bring all singular values of matrices close to 1, from about 0.7 to 1.2.

    Five iterations of a polynomial of degree 5, which keeps the singular vectors.

    Args:
        matrix: tensor (..., rows, columns).

    Returns:
        Tensor of the same shape.
    """
    is_tall = matrix.shape[-2] > matrix.shape[-1]
    x = ops.swapaxes(matrix, -2, -1) if is_tall else matrix
    x = x / (ops.sqrt(ops.sum(ops.square(x), axis=(-2, -1), keepdims=True)) + 1e-7)
    a, b, c = _COEFFICIENTS
    for _ in range(_ITERATIONS):
        squares = ops.matmul(x, ops.swapaxes(x, -2, -1))
        x = a * x + ops.matmul(b * squares + c * ops.matmul(squares, squares), x)
    return ops.swapaxes(x, -2, -1) if is_tall else x


def _parts(variable: keras.Variable) -> tuple[int, ...] | None:
    """Numbers of columns of the matrices in a weight, or None if Adam updates it."""
    if len(variable.shape) != 2 or any(name in variable.path for name in ("embedding", "logits")):
        return None
    return getattr(variable, "side_by_side", (variable.shape[1],))
