"""The loss of the last step."""

import contextlib
from collections.abc import Iterator

import keras
from keras import ops

from keras_transformer.argument_checks import KeepsArguments
from keras_transformer.losses.replicas import replica_share
from keras_transformer.losses.token_batch import sum_dtype
from keras_transformer.types import Tensor


@keras.saving.register_keras_serializable(package="keras_transformer")
class StepLoss(KeepsArguments, keras.metrics.Metric):
    """The loss of the last step; Keras's own `loss` is a running mean.

    Pass it to `compile` as one of `weighted_metrics`, so that it gets the sample weights as the
    loss does. With several replicas, it is the loss of the global batch.

    Args:
        loss: the `keras.losses.Loss` passed to `compile`.
        name: name of the metric.
        dtype: "float32" or "float64", for its value. None: "float32".

    Call arguments:
        y_true: integers, (batch, target_length) or (batch, target_length, 1).
        y_pred: floats, the logits, (batch, target_length, vocabulary_size).
        sample_weight: optional floats, (batch, target_length) or (batch,), as the loss takes them.

    Returns:
        A scalar of the metric's dtype.

    Example:
        >>> import numpy as np
        >>> from keras_transformer.losses import LabelSmoothingCrossEntropy
        >>> metric = StepLoss(LabelSmoothingCrossEntropy(0.0))
        >>> f"{float(metric(np.array([[2]]), np.zeros((1, 1, 4)))):.4f}"
        '1.3863'
        >>> f"{float(metric(np.array([[2]]), np.zeros((1, 1, 8)))):.4f}"
        '2.0794'
    """

    def __init__(
        self,
        loss: keras.losses.Loss,
        name: str = "step_loss",
        dtype: str | keras.DTypePolicy | None = None,
    ) -> None:
        super().__init__(name=name, dtype=sum_dtype(dtype))
        # Keras reports the mean of the replicas' results after a step: each holds its part of the
        # loss times the number of replicas.
        self.last = self.add_variable((), "zeros", self.dtype, aggregation="mean", name="last")
        self._sums = 0

    @contextlib.contextmanager
    def sum_of_updates(self) -> Iterator[None]:
        """Context in which updates add up, for a step that reads its batch in slices."""
        # Entries are counted, because Keras traces the replicas' steps within one another.
        self.last.assign(0.0)
        self._sums += 1
        try:
            yield
        finally:
            self._sums -= 1

    def update_state(self, y_true: Tensor, y_pred: Tensor, sample_weight: Tensor = None) -> None:
        loss = ops.cast(self.loss(y_true, y_pred, sample_weight), self.dtype)
        loss = loss / ops.cast(replica_share(), self.dtype)
        self.last.assign(self.last + loss if self._sums else loss)

    def result(self) -> Tensor:
        return ops.add(self.last, 0.0)  # `fit` needs a tensor, not the variable
