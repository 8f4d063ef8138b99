"""Adam that keeps the norm of the gradients and can lower the learning rate to 0 at the end."""

from collections.abc import Callable, Sequence
from typing import Any

import keras
from keras import ops

from keras_transformer.argument_checks import KeepsArguments, check_rate
from keras_transformer.types import Tensor


@keras.saving.register_keras_serializable(package="keras_transformer")
class AdamWithGradientNorm(KeepsArguments, keras.optimizers.Adam):
    """`keras.optimizers.Adam` that keeps the global norm of the last update's gradients.

    The norm is over all gradients together, in float32, before clipping. Two sums are taken earlier
    than in Keras, so that norm and clipping are for the whole batch: under `tf.distribute`, the sum
    over replicas, which Keras takes after clipping; and on TensorFlow, the sum over the lookups of
    a row, whose gradients Keras squares one by one.

    Args:
        learning_rate: float or schedule.
        cooldown: share of all updates, at the end, during which the learning rate falls linearly to
            0; at least 0 and below 1. 0: no cooldown.
        **kwargs: other arguments of `keras.optimizers.Adam`, except `gradient_accumulation_steps`.

    Attributes:
        gradient_norm: variable, a float32 scalar; None until the optimizer is built.
        last_update: variable, a float32 scalar: the total number of updates, with which the
            cooldown ends; None without a cooldown, 0 while it is unknown. `training.TrainingRun`
            sets it from its limits, before each epoch.
        gradients_are_summed: whether `apply` gets gradients that have been summed over replicas.
            `training.training_model` sums them earlier for a `keras.optimizers.LossScaleOptimizer`,
            which would otherwise look for overflow in one replica's gradients only.
        fused_update: callable `(optimizer, gradient, variable, momentum, velocity, learning_rate)`
            that updates the three variables in one pass; None: Keras's operations.
            `training.training_model` sets it on TensorFlow.

    Example:
        >>> optimizer = AdamWithGradientNorm(0.1, global_clipnorm=1.0)
        >>> weight = keras.Variable([1.0, 1.0])
        >>> optimizer.apply([ops.convert_to_tensor([3.0, 4.0])], [weight])
        >>> float(optimizer.gradient_norm)
        5.0

    Reference:
        The cooldown is from [Scaling Laws and Compute-Optimal Training Beyond Fixed Training
        Durations](https://arxiv.org/abs/2405.18392), Hägele et al., 2024.
    """

    def __init__(self, learning_rate: Any = 0.001, *, cooldown: float = 0.0, **kwargs: Any) -> None:
        if kwargs.get("gradient_accumulation_steps") is not None:
            raise ValueError(
                "`gradient_accumulation_steps` must be None: `training.training_model` accumulates "
                "gradients, by token. Received: "
                f"gradient_accumulation_steps={kwargs['gradient_accumulation_steps']}"
            )
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
        """The factor by which the cooldown multiplies the learning rate.

        Args:
            step: number of earlier updates, an integer scalar.

        Returns:
            A float32 scalar, from 1 to 0.
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
    """A dense tensor for `tf.IndexedSlices`, the gradient of a lookup; others unchanged."""
    if hasattr(gradient, "indices"):
        return ops.add(gradient, ops.zeros(gradient.shape, gradient.dtype))
    return gradient
