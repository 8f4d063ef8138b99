"""What trainings log about their loss."""

from keras_transformer.losses import LabelSmoothingCrossEntropy
from keras_transformer.metrics.perplexity import Perplexity
from keras_transformer.metrics.step_loss import StepLoss
from keras_transformer.metrics.token_accuracy import TokenAccuracy
from keras_transformer.metrics.token_loss import TokenLoss


def training_metrics(loss):
    """Return the arguments `metrics` and `weighted_metrics` of `compile`, a dictionary.

    Per real token: the loss, the perplexity and the accuracy, which an epoch adds up; and of each
    step by itself: the loss, and the loss without label smoothing ("step_nll").

    Args:
        loss: a `LabelSmoothingCrossEntropy`.

    Example:
        >>> import keras
        >>> model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(4)])
        >>> loss = LabelSmoothingCrossEntropy(0.1)
        >>> model.compile("sgd", loss, **training_metrics(loss))
    """
    padding_id = loss.padding_id
    plain = LabelSmoothingCrossEntropy(0.0, padding_id)
    return {
        "metrics": [TokenLoss(loss, padding_id), Perplexity(padding_id), TokenAccuracy(padding_id)],
        "weighted_metrics": [StepLoss(loss), StepLoss(plain, name="step_nll")],
    }
