"""The smoothed loss as a mean over all tokens."""

import keras

from keras_transformer.metrics.token_mean import TokenMean


@keras.saving.register_keras_serializable(package="keras_transformer")
class TokenLoss(TokenMean):
    """The training loss per target token, over all batches.

    Keras's own `loss` is a mean of batches weighted by their sentences. Batches of one number of
    tokens hold many short or few long sentences, so that is not the mean of the tokens.

    Args:
        loss: a `keras.losses.Loss` whose `call` gives one loss a token.
        padding_id: integer, the label that never counts.
        name: name of the metric.

    Call arguments:
        labels: integers, (batch, target_length).
        logits: floats, (batch, target_length, vocabulary_size).
        sample_weight: optional floats, (batch, target_length), as in `Perplexity`.

    Returns:
        A float32 scalar.

    Example:
        >>> import numpy as np
        >>> from keras_transformer.losses import LabelSmoothingCrossEntropy
        >>> metric = TokenLoss(LabelSmoothingCrossEntropy())
        >>> f"{float(metric(np.array([[2, 0]]), np.zeros((1, 2, 4)))):.4f}"
        '1.3863'
    """

    def __init__(self, loss, padding_id=0, name="token_loss"):
        super().__init__(padding_id, name)
        self.loss = loss

    def token_values(self, labels, logits):
        return self.loss.call(labels, logits)

    def get_config(self):
        return {**super().get_config(), "loss": keras.saving.serialize_keras_object(self.loss)}

    @classmethod
    def from_config(cls, config):
        return cls(**{**config, "loss": keras.saving.deserialize_keras_object(config["loss"])})
