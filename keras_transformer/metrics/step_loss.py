"""The loss of the last step alone."""

import contextlib

import keras
from keras import ops

from keras_transformer.losses.replicas import replica_share


@keras.saving.register_keras_serializable(package="keras_transformer")
class StepLoss(keras.metrics.Metric):
    """The loss of the last step, not the running mean that Keras reports as `loss`.

    Goes into `weighted_metrics` of `compile`, so that it sees the data's weights as the loss does.
    Under replicas it is the loss of the global batch.

    Args:
        loss: the `keras.losses.Loss` given to `compile`.
        name: name of the metric.

    Call arguments:
        labels: integers, (batch, target_length).
        logits: floats, (batch, target_length, vocabulary_size).
        sample_weight: optional floats, (batch, target_length), as the loss takes them.

    Returns:
        A float32 scalar.

    Example:
        >>> import numpy as np
        >>> from keras_transformer.losses import LabelSmoothingCrossEntropy
        >>> metric = StepLoss(LabelSmoothingCrossEntropy(0.0))
        >>> f"{float(metric(np.array([[2]]), np.zeros((1, 1, 4)))):.4f}"
        '1.3863'
        >>> f"{float(metric(np.array([[2]]), np.zeros((1, 1, 8)))):.4f}"
        '2.0794'
    """

    def __init__(self, loss, name="step_loss"):
        super().__init__(name=name, dtype="float32")
        self.loss = loss
        # Keras shows the mean of the replicas' results after a step, so each holds its part of the
        # loss times their number.
        self.last = self.add_variable((), "zeros", "float32", aggregation="mean", name="last")
        self._sums = 0

    @contextlib.contextmanager
    def sum_of_updates(self):
        """Within it the updates add up: a step reads its batch in slices.

        Keras traces a step once for each replica, one trace within another where they meet, so
        entries are counted.
        """
        self.last.assign(0.0)
        self._sums += 1
        try:
            yield
        finally:
            self._sums -= 1

    def update_state(self, labels, logits, sample_weight=None):
        loss = self.loss(labels, logits, sample_weight) / replica_share()
        self.last.assign(self.last + loss if self._sums else loss)

    def result(self):
        return ops.add(self.last, 0.0)  # a tensor: what `fit` hands on must be no variable

    def get_config(self):
        return {"loss": keras.saving.serialize_keras_object(self.loss), "name": self.name}

    @classmethod
    def from_config(cls, config):
        return cls(**{**config, "loss": keras.saving.deserialize_keras_object(config["loss"])})
