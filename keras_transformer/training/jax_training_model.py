"""The exact training step on JAX, which processes a batch in slices."""

import contextlib
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import keras

from keras_transformer.losses import TokenScores
from keras_transformer.training.step_sums import StepSums
from keras_transformer.types import Tensor

# Values of trainable, non-trainable, optimizer and metrics variables.
State: TypeAlias = tuple[list[Tensor], list[Tensor], list[Tensor], list[Tensor]]

# A step returns the model's predictions.
jax.tree_util.register_pytree_node(
    TokenScores,
    lambda scores: ((scores.values, scores.slope, scores.mask), scores.vocabulary_size),
    lambda vocabulary_size, parts: TokenScores(*parts, vocabulary_size),
)


class JaxTrainingModel(StepSums):
    """The model of `training_model` on JAX.

    A step is a single program for all devices of a `keras.distribution.DataParallel`, so its sums
    cover all devices. Slice j contains rows j, j + accumulate, j + 2 * accumulate and so on: each
    slice contains a share of each device's rows, and no row moves to a different device.
    """

    def compile(self, *args: Any, **options: Any) -> None:
        """Compile like `keras.Model.compile`, and prepare the compiled function for `gradients`."""
        super().compile(*args, **options)

        def scaled_loss(trainable, non_trainable, scale, x, y, sample_weight):
            with self.scoring(y, sample_weight, scale=scale):
                y_pred, _ = self.stateless_call(trainable, non_trainable, x, training=False)
            return scale * self.compute_loss(x, y, y_pred, sample_weight, training=False)

        def gradients(trainable, non_trainable, scale, *batch):
            scaled = jax.grad(scaled_loss)(trainable, non_trainable, scale, *batch)
            return [gradient / scale for gradient in scaled]

        self._plain_gradients = jax.jit(gradients)

    def after_restore(self) -> None:
        """Do nothing, because all devices draw parts of a single mask array from one seed."""

    def compute_loss_and_updates(
        self,
        *values: Any,
        training: bool = False,
        optimizer_variables: list[Tensor] | None = None,
    ) -> tuple[Tensor, Any]:
        """Compute the loss and updates like Keras's JAX trainer, whose steps all call this method.

        Args:
            values: values of trainable, non-trainable and metrics variables, then inputs, labels
                and weights.
            training, optimizer_variables: see Keras's method.
        """
        *_, labels, weights = values
        scale = 1.0
        if optimizer_variables is not None:
            mapping = zip(self.optimizer.variables, optimizer_variables, strict=True)
            with keras.StatelessScope(state_mapping=list(mapping)):
                scale = self.optimizer.scale_loss(1.0)
        with self.scoring(labels, weights, scale=scale, needs_gradient=training):
            return super().compute_loss_and_updates(
                *values, training=training, optimizer_variables=optimizer_variables
            )

    def train_step(self, state: State, data: Any) -> tuple[dict[str, Tensor], State]:
        """Perform one update from one batch, like `keras.Model.train_step` on JAX."""
        if self.accumulate == 1:
            return super().train_step(state, self.passes(data))
        trainable, non_trainable, optimizer_variables, metrics = state
        with contextlib.ExitStack() as stack:
            metrics = self._with_metrics(
                metrics,
                lambda: [stack.enter_context(each.sum_of_updates()) for each in self.step_losses],
            )
            loss, gradients, non_trainable, metrics = self._sum_over_slices(
                trainable, non_trainable, optimizer_variables, metrics, data
            )
        trainable, optimizer_variables = self.optimizer.stateless_apply(
            optimizer_variables, gradients, trainable
        )
        logs: dict[str, Tensor] = {}
        metrics = self._with_metrics(metrics, lambda: logs.update(self._track_loss(loss, data)))
        return logs, (trainable, non_trainable, optimizer_variables, metrics)

    def gradients(self, data: Any) -> list[Tensor | None]:
        """See `TensorFlowTrainingModel.gradients`. All processes must call this method together."""
        trainable, non_trainable = (
            [variable.value for variable in variables]
            for variables in (self.trainable_variables, self.non_trainable_variables)
        )
        scale = self.optimizer.scale_loss(1.0)
        batch = keras.utils.unpack_x_y_sample_weight(data)
        return self._plain_gradients(trainable, non_trainable, scale, *batch)

    def _sum_over_slices(self, trainable, non_trainable, optimizer_variables, metrics, data):
        """Return the loss and gradients of all rows, and the state after the last slice."""
        gradient_of = jax.value_and_grad(self.compute_loss_and_updates, has_aux=True)
        options = {"training": True, "optimizer_variables": optimizer_variables}

        def add_slice(carry, rows):
            total, sums, non_trainable, metrics = carry
            x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(self.passes(rows))
            (_, (loss, y_pred, non_trainable, metrics)), gradients = gradient_of(
                trainable, non_trainable, metrics, x, y, sample_weight, **options
            )
            metrics = self._with_metrics(
                metrics, lambda: self.compute_metrics(x, y, y_pred, sample_weight)
            )
            sums = jax.tree.map(jnp.add, sums, gradients)
            return (total + loss.astype("float32"), sums, non_trainable, metrics), None

        nothing = jax.tree.map(jnp.zeros_like, trainable)
        carry = (jnp.zeros((), "float32"), nothing, non_trainable, metrics)
        carry, _ = jax.lax.scan(add_slice, carry, jax.tree.map(self._in_slices, data))
        return carry

    def _in_slices(self, array: jax.Array) -> jax.Array:
        """Reshape (rows, ...) to (accumulate, rows / accumulate, ...)."""
        self.check_rows(array.shape[0])
        slices = array.reshape(-1, self.accumulate, *array.shape[1:])
        return jnp.swapaxes(slices, 0, 1)

    def _with_metrics(self, values, update):
        """Return the values of the metric variables after `update()`."""
        mapping = zip(self.metrics_variables, values, strict=True)
        with keras.StatelessScope(state_mapping=list(mapping)) as scope:
            update()
        return [scope.get_current_value(variable) for variable in self.metrics_variables]

    def _track_loss(self, loss, data):
        """Update Keras's `loss` metric with the sum over slices, and return all logs."""
        rows = jax.tree.leaves(data)[0].shape[0]
        tracker = next(metric for metric in self.metrics if metric.name == "loss")
        tracker.update_state(loss, sample_weight=rows)
        return self.get_metrics_result()
