"""The training loss: cross entropy with smoothed labels, per target token."""

from typing import Any

import keras
from keras import ops

from keras_transformer.argument_checks import (
    check_non_negative_int,
    check_positive_int,
    check_rate,
    python_number,
)
from keras_transformer.losses.cross_entropy import (
    smoothed_cross_entropy,
    to_ids,
    to_logits,
    to_weights,
)
from keras_transformer.losses.replicas import replica_share
from keras_transformer.types import Tensor


@keras.saving.register_keras_serializable(package="keras_transformer")
class LabelSmoothingCrossEntropy(keras.losses.Loss):
    """Cross entropy with smoothed labels, for target tokens.

    The target is `1 - label_smoothing` at the label and `label_smoothing / (vocabulary_size - 1)`
    at every other token. The padding of the vocabulary has target 0: it takes part in the softmax,
    and training makes it improbable.

    Without `sample_weight` the loss is the mean over real tokens. With it, as in `fit`, it is the
    sum of token loss times weight: the weights `mask / tokens of the global batch` then give the
    exact mean over real tokens, also over replicas and micro-batches. The loss is computed in
    float32 under every dtype policy.

    Args:
        label_smoothing: float in [0, 1), the probability taken from the label.
        padding_id: integer >= 0, the label to ignore.
        vocabulary_size: integer >= 2, number of tokens of the tokenizer; further logits are padding
            of the vocabulary (see `models.padded_vocabulary_size`). None: every logit is a token's.
        name: name of the loss.

    Call arguments:
        labels: integers, (batch, target_length).
        logits: floats, (batch, target_length, padded_vocabulary_size).
        sample_weight: optional floats, (batch, target_length); padding must weigh 0.

    Returns:
        A float32 scalar, in nats.

    Raises:
        ValueError: an argument is out of its range, the logits are fewer than 2 or than
            `vocabulary_size`, or `sample_weight` is not of tokens.

    Example:
        >>> import numpy as np
        >>> loss = LabelSmoothingCrossEntropy(label_smoothing=0.1)
        >>> f"{float(loss(np.array([[2, 0]]), np.zeros((1, 2, 4)))):.4f}"  # log(4)
        '1.3863'

    Reference:
        [Attention Is All You Need](https://arxiv.org/abs/1706.03762), section 5.4.
    """

    def __init__(
        self,
        label_smoothing: float = 0.1,
        padding_id: int = 0,
        vocabulary_size: int | None = None,
        name: str = "label_smoothing_cross_entropy",
    ) -> None:
        check_rate("label_smoothing", label_smoothing)
        check_non_negative_int("padding_id", padding_id)
        if vocabulary_size is not None:
            _check_vocabulary_size(vocabulary_size)
        super().__init__(name=name, reduction="sum", dtype="float32")
        self.label_smoothing = python_number(label_smoothing)
        self.padding_id = python_number(padding_id)
        self.vocabulary_size = python_number(vocabulary_size)

    def __call__(self, labels: Tensor, logits: Tensor, sample_weight: Tensor = None) -> Tensor:
        # Keras's own __call__ would cast the ids to the dtype of the loss.
        labels = to_ids(labels)
        token_losses = self.call(labels, logits)
        if sample_weight is None:
            mask = ops.cast(ops.not_equal(labels, self.padding_id), "float32")
            mean = ops.divide_no_nan(ops.sum(token_losses * mask), ops.sum(mask))
            return mean * replica_share()
        return ops.sum(token_losses * to_weights(sample_weight))

    def call(self, labels: Tensor, logits: Tensor) -> Tensor:
        logits = to_logits(logits)
        if logits.shape[-1] < (self.vocabulary_size or 2):
            raise ValueError(
                "`logits` must have at least `vocabulary_size` values for each token, and 2. "
                f"Received: vocabulary_size={self.vocabulary_size}, logits of shape "
                f"{tuple(logits.shape)}"
            )
        return smoothed_cross_entropy(
            to_ids(labels), logits, self.label_smoothing, self.vocabulary_size
        )

    def get_config(self) -> dict[str, Any]:
        return {
            "label_smoothing": self.label_smoothing,
            "padding_id": self.padding_id,
            "vocabulary_size": self.vocabulary_size,
            "name": self.name,
        }


def _check_vocabulary_size(vocabulary_size: int) -> None:
    check_positive_int("vocabulary_size", vocabulary_size)
    if vocabulary_size < 2:
        raise ValueError(
            "`vocabulary_size` must be an integer >= 2: smoothing needs other tokens than the "
            f"label. Received: vocabulary_size={vocabulary_size}"
        )
