"""Optimizers: the paper's Adam, and Muon for weight matrices."""

from collections.abc import Callable, Sequence
from typing import Any

import keras
from keras import ops

from keras_transformer.argument_checks import (
    KeepsArguments,
    check_one_of,
    check_positive_number,
    check_rate,
)
from keras_transformer.errors import refuse
from keras_transformer.schedules import TransformerSchedule
from keras_transformer.types import OPTIMIZERS, Tensor


@keras.saving.register_keras_serializable(package="keras_transformer")
class AdamWithGradientNorm(KeepsArguments, keras.optimizers.Adam):
    """`keras.optimizers.Adam` that stores the global gradient norm of the last update.

    The norm is computed over all gradients in float32, before clipping. Gradients are summed
    earlier than in Keras so that the norm and clipping apply to the entire batch: under
    `tf.distribute`, over the replicas, which Keras sums after clipping; on TensorFlow, also over
    repeated lookups of an embedding row, whose gradients Keras squares separately.

    Args:
        learning_rate: float or schedule.
        cooldown: fraction of all updates, at the end of training, during which the learning rate
            decreases linearly to 0; at least 0 and less than 1. 0 means no cooldown.
        **kwargs: other arguments of `keras.optimizers.Adam`, except `gradient_accumulation_steps`.

    Attributes:
        gradient_norm: float32 scalar variable; None until the optimizer is built.
        last_update: float32 scalar variable with the total number of updates, at which the cooldown
            ends; None without a cooldown, 0 while the number is unknown. `training.TrainingRun`
            sets it from its limits before each epoch.
        gradients_are_summed: whether the gradients passed to `apply` are already summed over the
            replicas. `training.training_model` sums them earlier if it uses a
            `keras.optimizers.LossScaleOptimizer`, which would otherwise check only one replica's
            gradients for overflow.
        fused_update: callable `(optimizer, gradient, variable, momentum, velocity, learning_rate)`
            that updates the three variables in one pass, or None to use Keras's operations.
            `training.training_model` sets it on TensorFlow.

    Example:
        >>> optimizer = AdamWithGradientNorm(0.1, global_clipnorm=1.0)
        >>> weight = keras.Variable([1.0, 1.0])
        >>> optimizer.apply([ops.convert_to_tensor([3.0, 4.0])], [weight])
        >>> float(optimizer.gradient_norm)
        5.0

    Reference:
        For the cooldown: [Scaling Laws and Compute-Optimal Training Beyond Fixed Training
        Durations](https://arxiv.org/abs/2405.18392), Hägele et al., 2024.
    """

    def __init__(self, learning_rate: Any = 0.001, *, cooldown: float = 0.0, **kwargs: Any) -> None:
        steps = kwargs.get("gradient_accumulation_steps")
        if steps is not None:
            rule = "be None: `training.training_model` accumulates gradients by token"
            refuse("gradient_accumulation_steps", rule, steps)
        super().__init__(learning_rate, **kwargs)
        check_rate("cooldown", cooldown)
        self.gradient_norm: Any = None
        self.last_update: Any = None
        self.gradients_are_summed = False
        self.fused_update: Callable[..., None] | None = None

    def build(self, var_list: Sequence[keras.Variable]) -> None:
        if self.built:
            return
        super().build(var_list)
        self.gradient_norm = self.add_variable(
            (), dtype="float32", aggregation="only_first_replica", name="gradient_norm"
        )
        if self.cooldown:
            self.last_update = self.add_variable(
                (), dtype="float32", aggregation="only_first_replica", name="last_update"
            )

    def cooldown_factor(self, step: Tensor) -> Tensor:
        """Return the factor by which the cooldown multiplies the learning rate.

        Args:
            step: integer scalar, the number of previous updates.

        Returns:
            A float32 scalar between 0 and 1.
        """
        if self.last_update is None:
            return ops.ones((), "float32")
        end = ops.convert_to_tensor(self.last_update)
        left = (end - ops.cast(step, "float32")) / ops.maximum(self.cooldown * end, 1.0)
        return ops.where(end > 0, ops.clip(left, 0.0, 1.0), 1.0)

    def _get_current_learning_rate(self) -> Tensor:
        rate = super()._get_current_learning_rate()
        if self.last_update is None:
            return rate
        return ops.convert_to_tensor(rate) * self.cooldown_factor(self.iterations)

    def update_step(self, gradient: Tensor, variable: Any, learning_rate: Tensor) -> None:
        if self.fused_update is None or self.amsgrad:
            super().update_step(gradient, variable, learning_rate)
            return
        index = self._get_variable_index(variable)
        momentum, velocity = self._momentums[index], self._velocities[index]
        self.fused_update(self, gradient, variable, momentum, velocity, learning_rate)

    def apply(
        self,
        grads: Sequence[Tensor],
        trainable_variables: Sequence[keras.Variable] | None = None,
    ) -> None:
        grads = list(grads)
        if not self.gradients_are_summed:
            grads = self._sum_over_replicas(grads)
        grads = [_with_equal_rows_summed(gradient) for gradient in grads]
        super().apply(grads, trainable_variables)
        squares = [
            ops.sum(ops.square(ops.cast(gradient, "float32")))
            for gradient in grads
            if gradient is not None
        ]
        if squares:
            self.gradient_norm.assign(ops.sqrt(sum(squares)) / (self.loss_scale_factor or 1.0))

    def _sum_over_replicas(self, grads: list[Tensor]) -> list[Tensor]:
        if not hasattr(super(), "_all_reduce_sum_gradients"):
            return grads  # the backend has no replicas
        present = [(gradient, None) for gradient in grads if gradient is not None]
        sums = iter(super()._all_reduce_sum_gradients(present))
        return [None if gradient is None else next(sums)[0] for gradient in grads]

    def _all_reduce_sum_gradients(
        self, grads_and_vars: Sequence[tuple[Tensor, keras.Variable]]
    ) -> list[tuple[Tensor, keras.Variable]]:
        # Keras would sum here, after clipping; `apply` has already done so, before clipping.
        return list(grads_and_vars)


def _with_equal_rows_summed(gradient: Tensor) -> Tensor:
    """Convert `tf.IndexedSlices`, the gradient of a lookup, to a dense tensor; keep dense ones."""
    if hasattr(gradient, "indices"):
        return ops.add(gradient, ops.zeros(gradient.shape, gradient.dtype))
    return gradient


# Coefficients for `newton_schulz`, chosen by Jordan for a steep slope at 0; see `Muon`.
_COEFFICIENTS = 3.4445, -4.7750, 2.0315
_ITERATIONS = 5


@keras.saving.register_keras_serializable(package="keras_transformer")
class Muon(AdamWithGradientNorm):
    """Muon for the layers' weight matrices, `AdamWithGradientNorm` for all other weights.

    The direction of a matrix's update is its momentum with all singular values brought close to 1,
    so rare directions are learned as fast as frequent ones. The formula is the same as
    in `keras.optimizers.Muon`, with these differences: There is no weight decay. Each projection in
    a fused attention matrix (queries, keys, values) is treated as a separate matrix, since their
    singular values are unrelated. The norm, clipping, cooldown and Adam work as in
    `AdamWithGradientNorm`. Adam updates vectors, and matrices whose path contains "embedding" or
    "logits".

    Args:
        learning_rate: float or schedule, for both Adam and Muon.
        momentum: decay rate of a matrix's gradient average, with Nesterov momentum; at least 0 and
            less than 1.
        rms_rate: positive number, the approximate root mean square of the elements of a matrix's
            update, in units of the learning rate. The default, 0.2, as in Keras and Moonlight,
            matches Adam's updates.
        **kwargs: other arguments of `AdamWithGradientNorm`.

    Example:
        >>> muon = Muon(0.1, rms_rate=1.0)
        >>> weight = keras.Variable([[1.0, 0.0], [0.0, 1.0]], name="kernel")
        >>> muon.apply([ops.convert_to_tensor([[3.0, 0.0], [0.0, 1.0]])], [weight])
        >>> bool(weight[0, 0] < 0.93)
        True

    Reference:
        [Muon: An optimizer for hidden layers in neural networks](
        https://kellerjordan.github.io/posts/muon/), Jordan et al., 2024; for the scale, [Muon is
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
            return None  # only Adam has one
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
        """Return a matrix's update for a learning rate of 1.

        Args:
            matrix: tensor (rows, columns).
            parts: column counts of the submatrices that are stored side by side.

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
    """Bring all singular values of a matrix close to 1: between about 0.7 and 1.2.

    Uses five iterations of a polynomial of degree 5, which preserves the singular vectors.

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
    """Return the column counts of the matrices in a weight, or None if Adam updates it."""
    if len(variable.shape) != 2 or any(name in variable.path for name in ("embedding", "logits")):
        return None
    return getattr(variable, "side_by_side", (variable.shape[1],))


def transformer_adam(
    hidden_dim: int,
    warmup_steps: int = 4000,
    scale: float = 1.0,
    dtype: Any = "float32",
    **overrides: Any,
) -> keras.optimizers.Optimizer:
    """Return the paper's Adam: betas 0.9 and 0.98, epsilon 1e-9, and `TransformerSchedule`.

    Args:
        hidden_dim: positive integer, the model's width.
        warmup_steps: positive integer, number of updates until the learning rate peaks.
        scale: positive number by which the learning rate is multiplied.
        dtype: dtype policy or compute dtype of the model's layers. "mixed_float16" and "float16"
            enable loss scaling, without which small gradients would underflow to 0. (Keras enables
            loss scaling only if this is the policy of the model itself.)
        **overrides: arguments of `AdamWithGradientNorm`, such as `global_clipnorm` or `cooldown`,
            that override the paper's values.

    Returns:
        An `AdamWithGradientNorm`, wrapped in a `keras.optimizers.LossScaleOptimizer` for float16.

    Example:
        >>> transformer_adam(hidden_dim=512, global_clipnorm=1.0).epsilon
        1e-09

    Reference:
        [Attention Is All You Need](https://arxiv.org/abs/1706.03762), section 5.3.
    """
    return transformer_optimizer(
        hidden_dim, "adam", warmup_steps=warmup_steps, scale=scale, dtype=dtype, **overrides
    )


def transformer_optimizer(
    hidden_dim: int,
    optimizer: str = "adam",
    warmup_steps: int = 4000,
    scale: float = 1.0,
    dtype: Any = "float32",
    rms_rate: float = 0.5,
    **overrides: Any,
) -> keras.optimizers.Optimizer:
    """Return the paper's Adam, or `Muon` with the paper's schedule and Adam.

    Args:
        hidden_dim: positive integer, the model's width.
        optimizer: "adam" or "muon".
        warmup_steps, scale, dtype: as in `transformer_adam`.
        rms_rate: positive number, the size of Muon's updates relative to Adam's learning rate.
            Ignored by Adam.
        **overrides: arguments of `AdamWithGradientNorm` or `Muon` that override the paper's values.

    Returns:
        The optimizer, wrapped in a `keras.optimizers.LossScaleOptimizer` for float16.

    Example:
        >>> transformer_optimizer(hidden_dim=128, optimizer="muon").rms_rate
        0.5
    """
    check_one_of("optimizer", optimizer, OPTIMIZERS)
    arguments = {
        "learning_rate": TransformerSchedule(hidden_dim, warmup_steps, scale),
        "beta_1": 0.9,
        "beta_2": 0.98,
        "epsilon": 1e-9,
        **overrides,
    }
    if optimizer == "muon":
        made = Muon(rms_rate=rms_rate, **arguments)
    else:
        made = AdamWithGradientNorm(**arguments)
    compute_dtype = keras.dtype_policies.get(dtype).compute_dtype
    return keras.optimizers.LossScaleOptimizer(made) if compute_dtype == "float16" else made


def inner_optimizer(optimizer: keras.optimizers.Optimizer) -> keras.optimizers.Optimizer:
    """Return the optimizer inside a `LossScaleOptimizer`. Return other optimizers unchanged.

    Args:
        optimizer: a `keras.optimizers.Optimizer`.

    Example:
        >>> adam = keras.optimizers.Adam()
        >>> inner_optimizer(keras.optimizers.LossScaleOptimizer(adam)) is adam
        True
        >>> inner_optimizer(adam) is adam
        True
    """
    return getattr(optimizer, "inner_optimizer", optimizer)


__all__ = [
    "AdamWithGradientNorm",
    "Muon",
    "inner_optimizer",
    "transformer_adam",
    "transformer_optimizer",
]
