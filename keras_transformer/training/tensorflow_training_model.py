"""The exact training step on TensorFlow for one or several replicas."""

import contextlib
from typing import Any

import keras
import tensorflow as tf

from keras_transformer.errors import reject
from keras_transformer.optimizers import inner_optimizer
from keras_transformer.training.devices.tensorflow_devices import MultiWorkerSteps
from keras_transformer.training.step_sums import StepSums
from keras_transformer.types import Tensor

# Number of draws between the streams of two replicas. A draw uses the count modulo 2^31 - 2
# (`keras.random` on TensorFlow), so the streams of 128 replicas are 2^24 draws apart in this
# cycle. The count itself, an int64, still identifies the replica of the stream.
STRIDE = 2**24 + 2**10 * (2**31 - 2)


class TensorFlowTrainingModel(StepSums, MultiWorkerSteps):
    """The model of `training_model` on TensorFlow.

    Under `tf.distribute`, the gradients of all replicas are summed before they are passed to an
    optimizer with the `gradients_are_summed` attribute, such as `optimizers.AdamWithGradientNorm`,
    either directly or within a `keras.optimizers.LossScaleOptimizer`. Clipping and overflow checks
    then use the gradients of the entire batch. Any other optimizer receives the gradients of each
    replica, as in Keras, clips them and then sums them.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.after_restore()

    def after_restore(self) -> None:
        """Give each replica separate dropout masks, derived from the first replica's state."""
        spread_dropout_seeds(self, self.distribute_strategy)

    def compile(self, *args: Any, **options: Any) -> None:
        """Compile like `keras.Model.compile`, and tell the optimizer that gradients are summed.

        With several replicas, XLA compiles the loss and the gradients of each replica; the sums
        over replicas, the update and validation run without XLA. If the loss is a mean, it is
        itself summed over replicas, and steps are not compiled.
        """
        super().compile(*args, **options)
        self._replica_gradients = self._all_slices
        replicas = self.distribute_strategy.num_replicas_in_sync
        if self.jit_compile and replicas > 1:
            if not tf.config.list_physical_devices("GPU"):
                fault = "TensorFlow does not compile with XLA for several devices of a CPU"
                reject(fault, xla=True, replicas=replicas)
            self.jit_compile = False
            self.with_xla = getattr(self.loss, "reduction", None) == "sum"
            if self.with_xla:
                self._replica_gradients = tf.function(
                    self._all_slices, jit_compile=True, reduce_retracing=True, autograph=False
                )
        if hasattr(inner_optimizer(self.optimizer), "fused_update"):
            inner_optimizer(self.optimizer).fused_update = _adam_in_one_pass
        self._sums_gradients = hasattr(inner_optimizer(self.optimizer), "gradients_are_summed")
        if self._sums_gradients:
            inner_optimizer(self.optimizer).gradients_are_summed = True

    def train_step(self, data: Any) -> dict[str, Tensor]:
        """Perform one update from one batch. `fit` calls this on each replica with its own rows."""
        loss, gradients = self._replica_gradients(data)
        self._track_loss(loss, data)
        gradients = _all_at_once(self._sum_over_replicas(gradients))
        self.optimizer.apply(gradients, self.trainable_weights)
        return self.get_metrics_result()

    def test_step(self, data: Any) -> dict[str, Tensor]:
        """Same as `keras.Model.test_step`."""
        _, labels, weights = keras.utils.unpack_x_y_sample_weight(data)
        with self.scoring(labels, weights, needs_gradient=False):
            return super().test_step(data)

    def gradients(self, data: Any) -> list[Tensor | None]:
        """Return the gradients of a batch's loss on one device, without dropout or state changes.

        Args:
            data: `(inputs, labels, weights)`.

        Returns:
            Tensors in the order of `trainable_weights`, with None for weights that do not affect
            the loss.
        """
        return self._plain_gradients(keras.tree.map_structure(tf.convert_to_tensor, data))

    @tf.function(reduce_retracing=True)
    def _plain_gradients(self, data):
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
        scale = self.optimizer.scale_loss(1.0)
        with tf.GradientTape() as tape:
            with self.scoring(y, sample_weight, scale=scale):
                y_pred = self(x, training=False)
            loss = self.compute_loss(x, y, y_pred, sample_weight, training=False)
            scaled_loss = self.optimizer.scale_loss(loss)
        found = tape.gradient(scaled_loss, [weight.value for weight in self.trainable_weights])
        return [
            None if gradient is None else keras.ops.divide(_dense(gradient), scale)
            for gradient in found
        ]

    def _all_slices(self, data):
        """Return the loss of a replica's rows and its gradients, and update the metrics."""
        if self.accumulate == 1:
            return self._loss_and_gradients(data)
        with contextlib.ExitStack() as stack:
            for metric in self.step_losses:
                stack.enter_context(metric.sum_of_updates())
            return self._sum_over_slices(data)

    def _loss_and_gradients(self, data):
        """Return the loss of some rows and its dense gradients, with None for unused weights."""
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(self.passes(data))
        with tf.GradientTape() as tape:
            with self.scoring(y, sample_weight, scale=self.optimizer.scale_loss(1.0)):
                y_pred = self(x, training=True)
            loss = self.compute_loss(x, y, y_pred, sample_weight, training=True)
            scaled_loss = self.optimizer.scale_loss(loss)
        gradients = tape.gradient(scaled_loss, self.trainable_weights)
        self.compute_metrics(x, y, y_pred, sample_weight)
        return loss, [None if gradient is None else _dense(gradient) for gradient in gradients]

    def _sum_over_slices(self, data):
        """Return the total loss and gradients of all rows, computed slice by slice."""
        slices = keras.tree.map_structure(self._in_slices, data)
        without_gradient: set[int] = set()

        def add_slice(index, loss, sums):
            rows = keras.tree.map_structure(lambda tensor: tf.gather(tensor, index), slices)
            slice_loss, gradients = self._loss_and_gradients(rows)
            without_gradient.update(i for i, each in enumerate(gradients) if each is None)
            added = [
                total if each is None else total + each
                for total, each in zip(sums, gradients, strict=True)
            ]
            return index + 1, loss + tf.cast(slice_loss, "float32"), added

        nothing = [tf.zeros(weight.shape, weight.dtype) for weight in self.trainable_weights]
        _, loss, sums = tf.while_loop(
            lambda index, loss, sums: index < self.accumulate,
            add_slice,
            (0, 0.0, nothing),
            parallel_iterations=1,  # limit memory use to one slice
            maximum_iterations=self.accumulate,
        )
        return loss, [None if i in without_gradient else total for i, total in enumerate(sums)]

    def _in_slices(self, tensor):
        """Reshape (rows, ...) to (accumulate, rows / accumulate, ...)."""
        self.check_rows(tensor.shape[0])
        shape = tf.shape(tensor)
        message = f"The rows of a replica must be a multiple of `accumulate`, {self.accumulate}"
        whole = tf.debugging.assert_equal(shape[0] % self.accumulate, 0, message)
        with tf.control_dependencies([whole] if whole is not None else []):
            parts = tf.stack([self.accumulate, shape[0] // self.accumulate])
            slices = tf.reshape(tensor, tf.concat([parts, shape[1:]], axis=0))
        return tf.ensure_shape(slices, (self.accumulate, None, *tensor.shape[1:]))

    def _aggregate_additional_loss(self, loss):
        """Return a loss that a layer adds. Keras divides it by the number of replicas.

        The weights of links are shares of the entire batch, so their losses add up.
        """
        is_guided = isinstance(self.input, dict) and "links" in self.input
        return loss if is_guided else super()._aggregate_additional_loss(loss)

    def _track_loss(self, loss, data):
        """Update Keras's `loss`, a mean over replicas, to show the sum over replicas."""
        replicas = tf.distribute.get_strategy().num_replicas_in_sync
        rows = tf.shape(keras.tree.flatten(data)[0])[0]
        tracker = next(metric for metric in self.metrics if metric.name == "loss")
        tracker.update_state(loss * replicas, sample_weight=rows)

    def _sum_over_replicas(self, gradients):
        context = tf.distribute.get_replica_context()
        if not self._sums_gradients or context.num_replicas_in_sync == 1:
            return gradients
        present = [gradient for gradient in gradients if gradient is not None]
        sums = iter(context.all_reduce(tf.distribute.ReduceOp.SUM, present))
        return [None if gradient is None else next(sums) for gradient in gradients]

    def _maybe_symbolic_build(self, iterator=None, data_batch=None):
        """Create the variables of the metrics and the optimizer from the shapes of the data.

        Under `tf.distribute`, Keras would read a batch for this purpose and require the same shape
        on all replicas. Otherwise, it would create the variables in the first step, which is
        impossible in a loop over slices.
        """
        if iterator is not None:
            specification = iterator._get_iterator().element_spec
            data_batch = keras.tree.map_structure(_of_first_replica, specification)
        with self.distribute_strategy.scope():
            self._symbolic_build(data_batch=data_batch)


def _of_first_replica(spec):
    """Return the shape and dtype of a batch's rows on one replica, or None for missing weights."""
    first = tf.nest.flatten(spec, expand_composites=True)[0]
    return None if first.dtype == tf.variant else first


def _all_at_once(gradients):
    """Make gradients available only when all of them have been computed.

    Otherwise, on a busy CPU, a weight can be updated before a gradient that depends on it is
    computed; the gradient then uses the new weight. With Keras's training step, two dense layers
    and plain SGD, one step in four was wrong.
    """
    with tf.control_dependencies([gradient for gradient in gradients if gradient is not None]):
        return [None if gradient is None else tf.identity(gradient) for gradient in gradients]


def _adam_in_one_pass(optimizer, gradient, variable, momentum, velocity, learning_rate):
    """Update with Adam in one TensorFlow operation. Keras's update needs ten memory passes."""
    dtype = variable.dtype
    step = tf.cast(optimizer.iterations + 1, dtype)
    beta_1, beta_2 = (tf.cast(beta, dtype) for beta in (optimizer.beta_1, optimizer.beta_2))
    tf.raw_ops.ResourceApplyAdam(
        var=variable.handle,
        m=momentum.value.handle,
        v=velocity.value.handle,
        beta1_power=beta_1**step,
        beta2_power=beta_2**step,
        lr=tf.cast(learning_rate, dtype),
        beta1=beta_1,
        beta2=beta_2,
        epsilon=tf.cast(optimizer.epsilon, dtype),
        grad=tf.cast(gradient, dtype),
    )


def _dense(gradient):
    """Convert a lookup's gradient, whose rows differ between replicas and slices, to a tensor."""
    return tf.convert_to_tensor(gradient)


def spread_dropout_seeds(model: keras.Model, strategy: tf.distribute.Strategy) -> None:
    """Give each replica of a strategy a separate stream of dropout masks.

    Keras keeps identical copies of a seed on all replicas, which would draw identical masks. Here,
    replica r counts its draws from `r x STRIDE`. The first replica's stream is unchanged and
    determines all other streams: restoring it and calling this function restores all streams.
    """
    if strategy.num_replicas_in_sync == 1:
        return
    replicas = strategy.experimental_local_results(
        strategy.experimental_distribute_values_from_function(
            lambda context: context.replica_id_in_sync_group
        )
    )
    for variable in model.non_trainable_variables:
        if variable.path.endswith("seed_generator_state"):
            copies = strategy.experimental_local_results(variable.value)
            seed, count = copies[0].numpy()
            for replica, copy in zip(replicas, copies, strict=True):
                copy.assign([seed, count % STRIDE + int(replica) * STRIDE])
