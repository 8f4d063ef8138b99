"""A batch of target tokens, as the loss and the metrics read it."""

from typing import Any

import keras
import numpy as np
from keras import ops

from keras_transformer.argument_checks import known_values
from keras_transformer.errors import refuse
from keras_transformer.losses.token_scores import TokenScores
from keras_transformer.types import Tensor


def token_batch(
    y_true: Tensor,
    y_pred: Tensor | TokenScores,
    sample_weight: Tensor,
    padding_id: int,
    *,
    vocabulary_size: int | None = None,
    dtype: str = "float32",
) -> tuple[Tensor, Tensor | TokenScores, Tensor]:
    """Return a batch's ids, logits and weights; see `weighted_ids`."""
    logits = to_logits(y_pred, dtype)
    ids, weights = weighted_ids(
        y_true,
        logits.shape,
        sample_weight,
        padding_id,
        vocabulary_size=vocabulary_size,
        dtype=dtype,
    )
    return ids, logits, weights


def weighted_ids(
    y_true: Tensor,
    shape: tuple[Any, ...],
    sample_weight: Tensor,
    padding_id: int,
    *,
    vocabulary_size: int | None = None,
    dtype: str = "float32",
) -> tuple[Tensor, Tensor]:
    """Return the ids and weights of labels for logits of a given shape: int32, and `dtype` floats.

    Both are (batch, length). Padding has weight 0. A token of weight 0 may have any label: its id
    is returned as 0. Every other label must be an id of the vocabulary, or of the logits if
    `vocabulary_size` is None. If values are known, a wrong label raises a ValueError; in a graph
    its weight is NaN, which no sum hides.
    """
    labels = to_labels(y_true, shape)
    ids = ops.cast(labels, "int32")  # a float type cannot distinguish large ids
    is_whole = ops.equal(ops.cast(ids, labels.dtype), labels)
    is_padding = ops.logical_and(ops.equal(ids, padding_id), is_whole)
    weights = ops.where(is_padding, 0.0, to_weights(sample_weight, ids, dtype))
    counts = ops.not_equal(weights, 0.0)
    size = vocabulary_size or shape[-1]
    in_range = is_id(ids, size)
    is_wrong = ops.logical_and(counts, ops.logical_not(ops.logical_and(in_range, is_whole)))
    _refuse_known(is_wrong, labels, size)
    ids = ops.where(ops.logical_and(counts, in_range), ids, 0)
    return ids, ops.where(is_wrong, float("nan"), weights)


def is_id(ids: Tensor, vocabulary_size: int) -> Tensor:
    """Return where int32 `ids` are ids of a vocabulary."""
    return ops.logical_and(ops.greater_equal(ids, 0), ops.less(ids, vocabulary_size))


def to_labels(y_true: Tensor, shape: tuple[Any, ...]) -> Tensor:
    """Return labels (batch, length) or (batch, length, 1) as (batch, length).

    `shape` is the shape of the logits.
    """
    labels = ops.convert_to_tensor(y_true)
    if len(labels.shape) == len(shape) and labels.shape[-1] == 1:
        labels = ops.squeeze(labels, axis=-1)
    if not _fits(labels.shape, shape[:-1]):
        raise ValueError(
            "`y_true` must be (batch, length) or (batch, length, 1) if `y_pred` is (batch, "
            f"length, vocabulary_size). Received: y_true of shape {tuple(labels.shape)}, y_pred of "
            f"shape {tuple(shape)}"
        )
    return labels


def to_logits(logits: Tensor | TokenScores, dtype: str = "float32") -> Tensor | TokenScores:
    """Return logits as float32, whatever the dtype policy; `TokenScores` stay unchanged."""
    if isinstance(logits, TokenScores):
        return logits
    return ops.cast(ops.convert_to_tensor(logits), dtype)


def to_weights(sample_weight: Tensor, ids: Tensor, dtype: str = "float32") -> Tensor:
    """Return weights that broadcast to the tokens: per token, per sentence, or 1 for None."""
    if sample_weight is None:
        return ops.ones_like(ids, dtype=dtype)
    weights = ops.cast(ops.convert_to_tensor(sample_weight), dtype)
    if len(weights.shape) == len(ids.shape) + 1 and weights.shape[-1] == 1:
        weights = ops.squeeze(weights, axis=-1)
    while len(weights.shape) < len(ids.shape):
        weights = ops.expand_dims(weights, axis=-1)
    if not _fits(weights.shape, ids.shape, or_one=True):
        raise ValueError(
            "`sample_weight` must have a weight for each token, (batch, length), or for each "
            f"sentence, (batch,). Received: shape {np.shape(sample_weight)} where `y_true` is "
            f"{tuple(ids.shape)}"
        )
    return weights


def sum_dtype(dtype: str | keras.DTypePolicy | None) -> str:
    """Return the name of a dtype in which sums over tokens are exact enough; None is float32."""
    name = keras.dtype_policies.get(dtype or "float32").compute_dtype
    if name not in ("float32", "float64"):
        rule = "be float32 or float64: sums over tokens need them, whatever the dtype of the model"
        refuse("dtype", rule, dtype)
    return name


def _fits(shape, expected, or_one=False):
    """Whether a shape may be the expected one; a size that is not known yet is None."""
    return len(shape) == len(expected) and all(
        size is None or wanted is None or size == wanted or (or_one and size == 1)
        for size, wanted in zip(shape, expected, strict=True)
    )


def _refuse_known(is_wrong, labels, size):
    """Raise if a label is known to be wrong; a tensor in a graph has no values yet."""
    is_wrong = known_values(is_wrong)
    if is_wrong is not None and is_wrong.any():
        label = ops.convert_to_numpy(labels)[is_wrong][0]
        raise ValueError(
            f"`y_true` must have ids of the vocabulary, 0 to {size - 1}, at every token that is "
            f"neither padding nor of weight 0. Received: {label}"
        )
