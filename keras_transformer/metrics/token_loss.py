"""The smoothed loss as a mean over all tokens."""

import keras

from keras_transformer.metrics.token_mean import TokenMean
from keras_transformer.types import Tensor


@keras.saving.register_keras_serializable(package="keras_transformer")
class TokenLoss(TokenMean):
    """Mean of the training loss over all target tokens.

    Keras's own `loss` is a mean over batches, weighted by their number of sentences. Batches with
    the same number of tokens have many short or few long sentences, so it is not the mean over
    tokens.

    Args:
        loss: a `keras.losses.Loss` whose `call` returns one loss for each token.
        padding_id: integer, the label to ignore.
        name: name of the metric.
        dtype: "float32" or "float64", for its sums. None: "float32".

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
