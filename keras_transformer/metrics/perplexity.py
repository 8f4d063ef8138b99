"""Perplexity per target token."""

import keras
from keras import ops

from keras_transformer.losses.cross_entropy import negative_log_likelihood
from keras_transformer.metrics.token_mean import TokenMean


@keras.saving.register_keras_serializable(package="keras_transformer")
class Perplexity(TokenMean):
    """`exp` of the plain negative log-likelihood per target token; label smoothing plays no part.

    Args:
        padding_id: integer, the label that never counts.
        name: name of the metric.

    Call arguments:
        labels: integers, (batch, target_length).
        logits: floats, (batch, target_length, vocabulary_size).
        sample_weight: optional floats, (batch, target_length). Leave it away (`metrics=` and not
            `weighted_metrics=` in `compile`) to let every token count alike.

    Returns:
        A float32 scalar.

    Example:
        >>> import numpy as np
        >>> perplexity = Perplexity()
        >>> f"{float(perplexity(np.array([[2, 0]]), np.zeros((1, 2, 4)))):.4f}"
        '4.0000'
    """

    def __init__(self, padding_id=0, name="perplexity"):
        super().__init__(padding_id, name)

    def token_values(self, labels, logits):
        return negative_log_likelihood(labels, logits)

    def result(self):
        return ops.exp(super().result())
