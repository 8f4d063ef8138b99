"""Metrics for target tokens, excluding padding: perplexity, accuracy, and the loss of a step."""

import abc
import contextlib
from collections.abc import Iterator
from typing import Any

import keras
from keras import ops

from keras_transformer.argument_checks import KeepsArguments, check_non_negative_int
from keras_transformer.losses import (
    LabelSmoothingCrossEntropy,
    gold_margins,
    negative_log_likelihood,
    replica_share,
    sum_dtype,
    token_batch,
)
from keras_transformer.types import Tensor


class TokenMean(KeepsArguments, keras.metrics.Metric, abc.ABC):
    """Mean of a value over all real tokens.

    Subclasses implement `token_values`. The total and the token count are summed over batches and
    replicas, so a token has the same weight in every batch. Both sums are float32 under every dtype
    policy, or float64 if `dtype` is "float64".
    """

    _direction = "down"  # the direction that Keras's callbacks with `mode="auto"` treat as better

    def __init__(
        self,
        padding_id: int = 0,
        name: str | None = None,
        dtype: str | keras.DTypePolicy | None = None,
    ) -> None:
        check_non_negative_int("padding_id", padding_id)
        super().__init__(name=name, dtype=sum_dtype(dtype))
        self.total = self.add_variable((), "zeros", dtype=self.dtype, name="total")
        self.tokens = self.add_variable((), "zeros", dtype=self.dtype, name="tokens")

    @abc.abstractmethod
    def token_values(self, labels: Tensor, logits: Tensor) -> Tensor:
        """Return the value of each token, (batch, target_length)."""

    def update_state(self, y_true: Tensor, y_pred: Tensor, sample_weight: Tensor = None) -> None:
        """Add a batch: labels (batch, length), logits (batch, length, vocabulary_size)."""
        ids, logits, weights = token_batch(
            y_true, y_pred, sample_weight, self.padding_id, dtype=self.dtype
        )
        values = ops.cast(self.token_values(ids, logits), self.dtype)
        self.total.assign_add(ops.sum(values * weights))
        self.tokens.assign_add(ops.sum(weights))

    def result(self) -> Tensor:
        """Return the mean over all tokens so far, or 0 if there are none."""
        return ops.divide_no_nan(self.total, self.tokens)


@keras.saving.register_keras_serializable(package="keras_transformer")
class TokenLoss(TokenMean):
    """Mean of the training loss over all target tokens.

    Keras's own `loss` is a mean over batches, weighted by the number of sentences in each batch.
    Batches with equal token counts contain many short or few long sentences, so Keras's value is
    not the mean over tokens.

    Args:
        loss: a `keras.losses.Loss` whose `call` returns one loss for each token.
        padding_id: integer, the label to ignore.
        name: name of the metric.
        dtype: dtype of the sums, "float32" or "float64". Defaults to "float32".

    Call arguments:
        y_true: integers, (batch, target_length) or (batch, target_length, 1).
        y_pred: floats, the logits, (batch, target_length, vocabulary_size).
        sample_weight: optional floats, (batch, target_length) or (batch,), as in `Perplexity`.

    Returns:
        A scalar of the metric's dtype.

    Example:
        >>> import numpy as np
        >>> from keras_transformer.losses import LabelSmoothingCrossEntropy
        >>> metric = TokenLoss(LabelSmoothingCrossEntropy())
        >>> f"{float(metric(np.array([[2, 0]]), np.zeros((1, 2, 4)))):.4f}"
        '1.3863'
    """

    def __init__(
        self,
        loss: keras.losses.Loss,
        padding_id: int = 0,
        name: str = "token_loss",
        dtype: str | keras.DTypePolicy | None = None,
    ) -> None:
        super().__init__(padding_id, name, dtype)

    def token_values(self, labels: Tensor, logits: Tensor) -> Tensor:
        return self.loss.call(labels, logits)


@keras.saving.register_keras_serializable(package="keras_transformer")
class Perplexity(TokenMean):
    """Perplexity per target token: `exp` of the mean negative log-likelihood, without smoothing.

    Args:
        padding_id: integer, the label to ignore.
        name: name of the metric.
        dtype: dtype of the sums, "float32" or "float64". Defaults to "float32".

    Call arguments:
        y_true: integers, (batch, target_length) or (batch, target_length, 1).
        y_pred: floats, the logits, (batch, target_length, vocabulary_size).
        sample_weight: optional floats, (batch, target_length), or (batch,) for sentence weights. To
            count every real token once, pass the metric to `compile` in `metrics`, not in
            `weighted_metrics`. Padding never counts. Tokens of weight 0 can have any label.

    Returns:
        A scalar of the metric's dtype.

    Raises:
        ValueError: see `losses.LabelSmoothingCrossEntropy`.

    Example:
        >>> import numpy as np
        >>> perplexity = Perplexity()
        >>> f"{float(perplexity(np.array([[2, 0]]), np.zeros((1, 2, 4)))):.4f}"
        '4.0000'
    """

    def __init__(
        self,
        padding_id: int = 0,
        name: str = "perplexity",
        dtype: str | keras.DTypePolicy | None = None,
    ) -> None:
        super().__init__(padding_id, name, dtype)

    def token_values(self, labels: Tensor, logits: Tensor) -> Tensor:
        return negative_log_likelihood(labels, logits)

    def result(self) -> Tensor:
        return ops.exp(super().result())


@keras.saving.register_keras_serializable(package="keras_transformer")
class TokenAccuracy(TokenMean):
    """Fraction of target tokens whose label has the largest logit, including ties.

    Args:
        padding_id: integer, the label to ignore.
        name: name of the metric.
        dtype: dtype of the sums, "float32" or "float64". Defaults to "float32".

    Call arguments:
        y_true: integers, (batch, target_length) or (batch, target_length, 1).
        y_pred: floats, the logits, (batch, target_length, vocabulary_size).
        sample_weight: optional floats, (batch, target_length) or (batch,), as in `Perplexity`.

    Returns:
        A scalar of the metric's dtype in [0, 1].

    Example:
        >>> import numpy as np
        >>> accuracy = TokenAccuracy()
        >>> float(accuracy(np.array([[2, 1, 0]]), np.eye(4)[[[2, 3, 0]]]))
        0.5
    """

    _direction = "up"

    def __init__(
        self,
        padding_id: int = 0,
        name: str = "accuracy",
        dtype: str | keras.DTypePolicy | None = None,
    ) -> None:
        super().__init__(padding_id, name, dtype)

    def token_values(self, labels: Tensor, logits: Tensor) -> Tensor:
        # The loss needs the margins too. An argmax would need an additional pass.
        return ops.greater_equal(gold_margins(labels, logits), 0.0)


@keras.saving.register_keras_serializable(package="keras_transformer")
class StepLoss(KeepsArguments, keras.metrics.Metric):
    """The loss of the last step; Keras's own `loss` is a running mean.

    Pass this metric to `compile` in `weighted_metrics`, so that it receives the same sample weights
    as the loss. With several replicas, the value is the loss of the global batch.

    Args:
        loss: the `keras.losses.Loss` passed to `compile`.
        name: name of the metric.
        dtype: dtype of the value, "float32" or "float64". Defaults to "float32".

    Call arguments:
        y_true: integers, (batch, target_length) or (batch, target_length, 1).
        y_pred: floats, the logits, (batch, target_length, vocabulary_size).
        sample_weight: optional floats, (batch, target_length) or (batch,), as for the loss.

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
        # After a step, Keras reports the mean of the replicas' results. Each result is that
        # replica's part of the loss times the number of replicas.
        self.last = self.add_variable((), "zeros", self.dtype, aggregation="mean", name="last")
        self._sums = 0

    @contextlib.contextmanager
    def sum_of_updates(self) -> Iterator[None]:
        """Context manager that adds up updates, for a step that processes its batch in slices."""
        # A counter, because Keras nests the tracing of the replicas' steps.
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


def training_metrics(loss: LabelSmoothingCrossEntropy) -> dict[str, list[Any]]:
    """Return `metrics` and `weighted_metrics` as keyword arguments for `compile`.

    `metrics` contains the loss, perplexity and accuracy averaged over the real tokens of an epoch.
    `weighted_metrics` contains the loss of the last step, with and without label smoothing
    ("step_loss" and "step_nll").

    Args:
        loss: the `LabelSmoothingCrossEntropy` passed to `compile`.

    Returns:
        A dictionary with two lists of metrics.

    Example:
        >>> import keras
        >>> model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(4)])
        >>> loss = LabelSmoothingCrossEntropy(0.1)
        >>> model.compile("sgd", loss, **training_metrics(loss))
    """
    padding_id = loss.padding_id
    plain = LabelSmoothingCrossEntropy(0.0, padding_id, reduction=loss.reduction)
    return {
        "metrics": [TokenLoss(loss, padding_id), Perplexity(padding_id), TokenAccuracy(padding_id)],
        "weighted_metrics": [StepLoss(loss), StepLoss(plain, name="step_nll")],
    }


__all__ = ["Perplexity", "StepLoss", "TokenAccuracy", "TokenLoss", "training_metrics"]
