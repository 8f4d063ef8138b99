"""Adam that tells how large the gradients were."""

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="keras_transformer")
class AdamWithGradientNorm(keras.optimizers.Adam):
    """`keras.optimizers.Adam` that keeps the global norm of the last update's gradients.

    The norm is taken of all gradients together, in float32, before any clipping. Under
    `tf.distribute` the replicas' gradients are added up first, so that norm and clipping are those
    of the whole batch. Keras clips each replica's own gradients and then adds them up. The same
    goes for the gradients of a row that is looked up several times, whose squares Keras takes one
    by one under TensorFlow, in Adam as in clipping.

    Args:
        *args, **kwargs: as of `keras.optimizers.Adam`.

    Attributes:
        gradient_norm: variable, a float32 scalar; None until the optimizer is built.
        gradients_are_summed: whether `apply` is given gradients that were added up over the
            replicas already. A `keras.optimizers.LossScaleOptimizer` around this one needs such, or
            it would look for overflow in one replica's gradients alone;
            `training.training_model` hands them on.

    Example:
        >>> optimizer = AdamWithGradientNorm(0.1, global_clipnorm=1.0)
        >>> weight = keras.Variable([1.0, 1.0])
        >>> optimizer.apply([ops.convert_to_tensor([3.0, 4.0])], [weight])
        >>> float(optimizer.gradient_norm)
        5.0
    """

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.gradient_norm = None
        self.gradients_are_summed = False

    def build(self, var_list):
        if self.built:
            return
        super().build(var_list)
        self.gradient_norm = self.add_variable(
            (), dtype="float32", aggregation="only_first_replica", name="gradient_norm"
        )

    def apply(self, grads, trainable_variables=None):
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

    def _sum_over_replicas(self, grads):
        if not hasattr(super(), "_all_reduce_sum_gradients"):
            return grads  # a backend without replicas
        present = [(gradient, None) for gradient in grads if gradient is not None]
        sums = iter(super()._all_reduce_sum_gradients(present))
        return [None if gradient is None else next(sums)[0] for gradient in grads]

    def _all_reduce_sum_gradients(self, grads_and_vars):
        # Keras adds up here, after clipping; `apply` has done it before.
        return list(grads_and_vars)


def _with_equal_rows_summed(gradient):
    """A tensor of `tf.IndexedSlices`, the rows that a lookup read; anything else as it is."""
    if hasattr(gradient, "indices"):
        return ops.add(gradient, ops.zeros(gradient.shape, gradient.dtype))
    return gradient
