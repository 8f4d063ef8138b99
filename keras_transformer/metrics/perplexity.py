"""Perplexity per target token."""

import keras
from keras import ops

from keras_transformer.losses.cross_entropy import negative_log_likelihood
from keras_transformer.metrics.token_mean import TokenMean
from keras_transformer.types import Tensor


@keras.saving.register_keras_serializable(package="keras_transformer")
class Perplexity(TokenMean):
    """Perplexity per target token: `exp` of the mean negative log-likelihood, without smoothing.

    Args:
        padding_id: integer, the label to ignore.
        name: name of the metric.
        dtype: "float32" or "float64", for its sums. None: "float32".

    Call arguments:
        y_true: integers, (batch, target_length) or (batch, target_length, 1).
        y_pred: floats, the logits, (batch, target_length, vocabulary_size).
        sample_weight: optional floats, (batch, target_length), or (batch,) for sentences. Without
            it, every real token counts once: pass the metric to `compile` as `metrics`, not as
            `weighted_metrics`. Padding never counts, and tokens of weight 0 may have any label.

    Returns:
        A scalar of the metric's dtype.

    Raises:
        ValueError: the same errors as `losses.LabelSmoothingCrossEntropy`.

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
