"""What the loss and the metrics need to know about a batch's logits."""

from typing import Any, NamedTuple

from keras_transformer.types import Tensor


class TokenValues(NamedTuple):
    """Values of each target token, float32 tensors of the same shape.

    Args:
        losses: cross entropy with the smoothed target.
        likelihoods: negative log-likelihood of the label.
        margins: the label's logit minus the largest one, at most 0.
    """

    losses: Tensor
    likelihoods: Tensor
    margins: Tensor


class TokenScores:
    """A batch's logits as the values of its labels; losses and metrics accept it as `y_pred`.

    It is not a tuple, so Keras passes it on as a single prediction.

    Args:
        values: `TokenValues` (batch, length), without a gradient.
        slope: the number 0, whose gradient is the gradient of the loss's sum over all tokens.
        vocabulary_size: number of logits that a token would have.
    """

    def __init__(self, values: TokenValues, slope: Tensor, vocabulary_size: int) -> None:
        self.values = values
        self.slope = slope
        self.vocabulary_size = vocabulary_size

    @property
    def shape(self) -> tuple[Any, ...]:
        """The shape of the logits, (batch, length, vocabulary_size)."""
        return (*self.values.losses.shape, self.vocabulary_size)
