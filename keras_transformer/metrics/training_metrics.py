"""The metrics that training logs."""

from typing import Any

from keras_transformer.losses import LabelSmoothingCrossEntropy
from keras_transformer.metrics.perplexity import Perplexity
from keras_transformer.metrics.step_loss import StepLoss
from keras_transformer.metrics.token_accuracy import TokenAccuracy
from keras_transformer.metrics.token_loss import TokenLoss


def training_metrics(loss: LabelSmoothingCrossEntropy) -> dict[str, list[Any]]:
    """Return `metrics` and `weighted_metrics`, as keyword arguments of `compile`.

    `metrics` are means over the real tokens of an epoch: loss, perplexity and accuracy.
    `weighted_metrics` are for the last step: its loss, and its loss without label smoothing
    ("step_nll").

    Args:
        loss: the `LabelSmoothingCrossEntropy` passed to `compile`.

    Returns:
        A dict with two lists of metrics.

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
