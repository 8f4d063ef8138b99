"""Share of target tokens whose label has the largest logit."""

import keras
from keras import ops

from keras_transformer.losses.cross_entropy import gold_margins
from keras_transformer.metrics.token_mean import TokenMean
from keras_transformer.types import Tensor


@keras.saving.register_keras_serializable(package="keras_transformer")
class TokenAccuracy(TokenMean):
    """Share of target tokens whose label has the largest logit, alone or tied.

    Args:
        padding_id: integer, the label to ignore.
        name: name of the metric.
        dtype: "float32" or "float64", for its sums. None: "float32".

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

    def __init__(
        self,
        padding_id: int = 0,
        name: str = "accuracy",
        dtype: str | keras.DTypePolicy | None = None,
    ) -> None:
        super().__init__(padding_id, name, dtype)

    def token_values(self, labels: Tensor, logits: Tensor) -> Tensor:
        # The loss needs the margins as well; an argmax would be one more pass.
        return ops.greater_equal(gold_margins(labels, logits), 0.0)
