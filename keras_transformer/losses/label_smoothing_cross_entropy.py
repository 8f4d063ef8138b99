"""The training loss: cross entropy with smoothed labels, per target token."""

import keras
from keras import ops

from keras_transformer.argument_checks import check_rate
from keras_transformer.losses.cross_entropy import smoothed_cross_entropy, to_ids, to_logits
from keras_transformer.losses.replicas import replica_share


@keras.saving.register_keras_serializable(package="keras_transformer")
class LabelSmoothingCrossEntropy(keras.losses.Loss):
    """Cross entropy against `1 - label_smoothing` on the label, the rest spread over all others.

    Every other token of the vocabulary gets `label_smoothing / (vocabulary_size - 1)`. Called
    without `sample_weight` the loss is the mean over the tokens that are no padding. Called with
    it, as `fit` does, it is the plain sum of token loss times weight: weights `mask / tokens of the
    global batch` then give the mean over real tokens exactly, also over replicas and micro-batches.
    The arithmetic is float32 under every dtype policy, and ids stay integers.

    Args:
        label_smoothing: float in [0, 1), the probability taken from the label.
        padding_id: integer, the label that never counts.
        name: name of the loss.

    Call arguments:
        labels: integers, (batch, target_length).
        logits: floats, (batch, target_length, vocabulary_size).
        sample_weight: optional floats, (batch, target_length); padding must weigh 0.

    Returns:
        A float32 scalar.

    Example:
        >>> import numpy as np
        >>> loss = LabelSmoothingCrossEntropy(label_smoothing=0.1)
        >>> f"{float(loss(np.array([[2, 0]]), np.zeros((1, 2, 4)))):.4f}"  # log(4)
        '1.3863'

    Reference:
        [Attention Is All You Need](https://arxiv.org/abs/1706.03762), section 5.4.
    """

    def __init__(self, label_smoothing=0.1, padding_id=0, name="label_smoothing_cross_entropy"):
        check_rate("label_smoothing", label_smoothing)
        super().__init__(name=name, reduction="sum", dtype="float32")
        self.label_smoothing = label_smoothing
        self.padding_id = padding_id

    def __call__(self, labels, logits, sample_weight=None):
        # Keras's own __call__ would cast the ids to the dtype of the loss.
        labels = to_ids(labels)
        token_losses = self.call(labels, logits)
        if sample_weight is None:
            mask = ops.cast(ops.not_equal(labels, self.padding_id), "float32")
            mean = ops.divide_no_nan(ops.sum(token_losses * mask), ops.sum(mask))
            return mean * replica_share()
        return ops.sum(token_losses * ops.cast(sample_weight, "float32"))

    def call(self, labels, logits):
        return smoothed_cross_entropy(to_ids(labels), to_logits(logits), self.label_smoothing)

    def get_config(self):
        return {
            "label_smoothing": self.label_smoothing,
            "padding_id": self.padding_id,
            "name": self.name,
        }
