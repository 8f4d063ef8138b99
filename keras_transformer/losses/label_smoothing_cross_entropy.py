"""The training loss: cross entropy with smoothed labels, per target token."""

from typing import Any

import keras
from keras import ops

from keras_transformer.argument_checks import (
    KeepsArguments,
    check_non_negative_int,
    check_positive_int,
    check_rate,
)
from keras_transformer.losses.cross_entropy import smoothed_cross_entropy
from keras_transformer.losses.replicas import replica_sum
from keras_transformer.losses.token_batch import sum_dtype, to_labels, to_logits, token_batch
from keras_transformer.losses.token_scores import TokenScores
from keras_transformer.types import Tensor


@keras.saving.register_keras_serializable(package="keras_transformer")
class LabelSmoothingCrossEntropy(KeepsArguments, keras.losses.Loss):
    """Cross entropy with smoothed labels, for target tokens.

    The target is `1 - label_smoothing` at the label and `label_smoothing / (vocabulary_size - 1)`
    at every other token. The padding of the vocabulary has target 0: it takes part in the softmax,
    and training makes it improbable.

    The loss is the mean over real tokens, `sum(w * loss) / sum(w)` with weights w: 1 for each
    token, or `sample_weight`. Padding always has weight 0. A token of weight 0 may have any label,
    such as -1, and gets no gradient.

    The mean is over the whole batch, including all replicas of `tf.distribute` and all devices of
    JAX, however many tokens each has. It does not cover the slices of
    `training_model(accumulate=...)` or other parts of a batch that are processed one after another:
    to add these up, use `reduction="sum"` and weights `mask / tokens of the whole batch`. The loss
    is computed in float32 under every dtype policy.

    Args:
        label_smoothing: float in [0, 1), the probability taken from the label.
        padding_id: integer >= 0, the label to ignore.
        vocabulary_size: integer >= 2, number of tokens in the tokenizer; further logits are padding
            of the vocabulary (see `models.padded_vocabulary_size`). None: every logit is a token's.
        name: name of the loss.
        reduction: as in `keras.losses.Loss`. "mean_with_sample_weight": divide by the sum of the
            weights, so that their scale does not matter. "mean" or "sum_over_batch_size": divide by
            the number of real tokens, whatever their weights. "sum": do not divide. None or "none":
            return the weighted loss of each token, (batch, target_length).
        dtype: "float32" or "float64", in which the loss is computed. None: "float32".

    Call arguments:
        y_true: integers, (batch, target_length) or (batch, target_length, 1).
        y_pred: floats, the logits, (batch, target_length, padded_vocabulary_size).
        sample_weight: optional floats, (batch, target_length), or (batch,) for sentences.

    Returns:
        A scalar of the loss's dtype, in nats; 0 if no token counts.

    Raises:
        ValueError: an argument is out of range, shapes do not fit, there are fewer than 2 logits or
            fewer than `vocabulary_size`, or a token that counts has a label outside the vocabulary.
            In a compiled function, where labels are not known, such a label makes the loss NaN.

    Example:
        >>> import numpy as np
        >>> loss = LabelSmoothingCrossEntropy(label_smoothing=0.1)
        >>> f"{float(loss(np.array([[2, 0]]), np.zeros((1, 2, 4)))):.4f}"  # log(4)
        '1.3863'
        >>> loss = LabelSmoothingCrossEntropy(reduction="sum")
        >>> f"{float(loss(np.array([[2, 3, 0]]), np.zeros((1, 3, 4)), np.array([2]))):.4f}"
        '5.5452'

    Reference:
        [Attention Is All You Need](https://arxiv.org/abs/1706.03762), section 5.4.
    """

    def __init__(
        self,
        label_smoothing: float = 0.1,
        padding_id: int = 0,
        vocabulary_size: int | None = None,
        name: str = "label_smoothing_cross_entropy",
        *,
        reduction: str | None = "mean_with_sample_weight",
        dtype: str | keras.DTypePolicy | None = None,
    ) -> None:
        check_rate("label_smoothing", label_smoothing)
        check_non_negative_int("padding_id", padding_id)
        if vocabulary_size is not None:
            _check_vocabulary_size(vocabulary_size)
        super().__init__(name=name, reduction=reduction, dtype=sum_dtype(dtype))

    def __call__(self, y_true: Tensor, y_pred: Tensor, sample_weight: Tensor = None) -> Tensor:
        # Keras's own __call__ does not know padding by labels, and takes one mean per replica.
        ids, logits, weights = token_batch(
            y_true,
            y_pred,
            sample_weight,
            self.padding_id,
            vocabulary_size=self.vocabulary_size,
            dtype=self.dtype,
        )
        losses = self.call(ids, logits) * weights
        if self.reduction in (None, "none"):
            return losses
        total = ops.sum(losses)
        if isinstance(logits, TokenScores):
            total = total + logits.slope
        if self.reduction == "sum":
            return total
        if self.reduction != "mean_with_sample_weight":
            weights = ops.cast(ops.not_equal(y_true, self.padding_id), self.dtype)
        return ops.divide_no_nan(total, replica_sum(ops.sum(weights)))

    def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        logits = to_logits(y_pred, self.dtype)
        if logits.shape[-1] < (self.vocabulary_size or 2):
            raise ValueError(
                "`y_pred` must have at least `vocabulary_size` values for each token, and 2. "
                f"Received: vocabulary_size={self.vocabulary_size}, y_pred of shape "
                f"{tuple(logits.shape)}"
            )
        ids = ops.cast(to_labels(y_true, logits.shape), "int32")
        return smoothed_cross_entropy(ids, logits, self.label_smoothing, self.vocabulary_size)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "dtype": self.dtype}


def _check_vocabulary_size(vocabulary_size: int) -> None:
    check_positive_int("vocabulary_size", vocabulary_size)
    if vocabulary_size < 2:
        raise ValueError(
            "`vocabulary_size` must be an integer >= 2: smoothing needs tokens other than "
            f"the label. Received: vocabulary_size={vocabulary_size}"
        )
