"""The label-smoothed loss over target tokens, and the logit reductions it shares with the metrics.

The loss, perplexity and accuracy all use the same few reductions of the logits, so a compiled
training step computes each reduction only once.
"""

import dataclasses
import functools
import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops

from keras_transformer.argument_checks import (
    KeepsArguments,
    check_non_negative_int,
    known_values,
)
from keras_transformer.errors import refuse
from keras_transformer.types import Tensor


class TokenValues(NamedTuple):
    """Per-token values of a batch, as float32 tensors of the same shape.

    Args:
        losses: cross entropy with the smoothed target.
        likelihoods: negative log-likelihood of the label.
        margins: the label's logit minus the largest logit; at most 0.
    """

    losses: Tensor
    likelihoods: Tensor
    margins: Tensor


@dataclasses.dataclass(eq=False)
class TokenScores:
    """Precomputed token values of a batch, which losses and metrics accept as `y_pred`.

    The class is not a tuple, so Keras treats an instance as a single prediction.

    Args:
        values: `TokenValues` (batch, length), without a gradient.
        slope: a scalar 0 whose gradient is the gradient of the loss summed over all tokens.
        mask: `kept_mask` of the logits.
        vocabulary_size: number of logits per token.
    """

    values: TokenValues
    slope: Tensor
    mask: Tensor
    vocabulary_size: int

    @property
    def shape(self) -> tuple[Any, ...]:
        """The shape of the logits, (batch, length, vocabulary_size)."""
        return (*self.values.losses.shape, self.vocabulary_size)


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
        kept_mask(y_pred),
        vocabulary_size=vocabulary_size,
        dtype=dtype,
    )
    return ids, logits, weights


class _Mask(keras.losses.Loss):
    """Returns the mask of predictions, because Keras multiplies the losses (all 1) by the mask."""

    def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        return ops.ones(ops.shape(y_pred)[:-1])


def kept_mask(tensor: Tensor | TokenScores) -> Tensor:
    """Return the Keras mask of a tensor (batch, length, size): float32 (batch, length), or ones.

    Keras stores the mask in a private attribute of the tensor, which its losses read.
    """
    if isinstance(tensor, TokenScores):
        return tensor.mask
    if not ops.is_tensor(tensor):  # arrays and lists have no mask
        return ops.ones(np.shape(tensor)[:-1])
    return _Mask("keras_mask", reduction="none", dtype="float32")(ops.zeros(()), tensor)


def weighted_ids(
    y_true: Tensor,
    shape: tuple[Any, ...],
    sample_weight: Tensor,
    padding_id: int,
    mask: Tensor,
    *,
    vocabulary_size: int | None = None,
    dtype: str = "float32",
) -> tuple[Tensor, Tensor]:
    """Return int32 ids and `dtype` weights of the labels for logits of a given shape.

    Both are (batch, length). Padding and tokens hidden by `mask`, from `kept_mask`, get weight 0. A
    token of weight 0 can have any label; its id is returned as 0. Every other label must be an id
    in the vocabulary, or a valid logit index if `vocabulary_size` is None. An invalid label raises
    a ValueError if its value is known; in a graph, it gets weight NaN, which makes every sum NaN.
    """
    labels = to_labels(y_true, shape)
    ids = ops.cast(labels, "int32")  # float types cannot distinguish large ids
    is_whole = ops.equal(ops.cast(ids, labels.dtype), labels)
    is_padding = ops.logical_and(ops.equal(ids, padding_id), is_whole)
    weights = to_weights(sample_weight, ids, dtype)
    is_hidden = ops.logical_or(is_padding, ops.equal(mask, 0.0))
    weights = ops.where(is_hidden, 0.0, weights)
    counts = ops.not_equal(weights, 0.0)
    size = vocabulary_size or shape[-1]
    in_range = is_id(ids, size)
    is_wrong = ops.logical_and(counts, ops.logical_not(ops.logical_and(in_range, is_whole)))
    _refuse_known(is_wrong, labels, size)
    ids = ops.where(ops.logical_and(counts, in_range), ids, 0)
    return ids, ops.where(is_wrong, float("nan"), weights)


def is_id(ids: Tensor, vocabulary_size: int) -> Tensor:
    """Return a boolean tensor, True where int32 `ids` are in the vocabulary."""
    return ops.logical_and(ops.greater_equal(ids, 0), ops.less(ids, vocabulary_size))


def to_labels(y_true: Tensor, shape: tuple[Any, ...]) -> Tensor:
    """Return labels (batch, length) or (batch, length, 1) as (batch, length).

    `shape` is the shape of the logits.
    """
    labels = ops.convert_to_tensor(y_true)
    if len(labels.shape) == len(shape) and labels.shape[-1] == 1:
        labels = ops.squeeze(labels, axis=-1)
    if not _fits(labels.shape, shape[:-1]):
        rule = (
            "be (batch, length) or (batch, length, 1) if `y_pred` is (batch, length, "
            "vocabulary_size)"
        )
        refuse("y_true", rule, shape=tuple(labels.shape), shape_of_y_pred=tuple(shape))
    return labels


def to_logits(logits: Tensor | TokenScores, dtype: str = "float32") -> Tensor | TokenScores:
    """Cast logits to float32 under any dtype policy; return `TokenScores` unchanged."""
    if isinstance(logits, TokenScores):
        return logits
    return ops.cast(ops.convert_to_tensor(logits), dtype)


def to_weights(sample_weight: Tensor, ids: Tensor, dtype: str = "float32") -> Tensor:
    """Return per-token or per-sentence weights that broadcast to the tokens; None means 1."""
    if sample_weight is None:
        return ops.ones_like(ids, dtype=dtype)
    weights = ops.cast(ops.convert_to_tensor(sample_weight), dtype)
    if len(weights.shape) == len(ids.shape) + 1 and weights.shape[-1] == 1:
        weights = ops.squeeze(weights, axis=-1)
    while len(weights.shape) < len(ids.shape):
        weights = ops.expand_dims(weights, axis=-1)
    if not _fits(weights.shape, ids.shape, or_one=True):
        rule = "have a weight for each token, (batch, length), or for each sentence, (batch,)"
        shapes = {"shape": np.shape(sample_weight), "shape_of_y_true": tuple(ids.shape)}
        refuse("sample_weight", rule, **shapes)
    return weights


def sum_dtype(dtype: str | keras.DTypePolicy | None) -> str:
    """Return the name of a dtype that is precise enough to sum over tokens; None means float32."""
    name = keras.dtype_policies.get(dtype or "float32").compute_dtype
    if name not in ("float32", "float64"):
        rule = "be float32 or float64, which sums over tokens need under every dtype policy"
        refuse("dtype", rule, dtype)
    return name


def _fits(shape, expected, or_one=False):
    """Return whether a shape is compatible with the expected shape. None means an unknown size."""
    return len(shape) == len(expected) and all(
        size is None or wanted is None or size == wanted or (or_one and size == 1)
        for size, wanted in zip(shape, expected, strict=True)
    )


def _refuse_known(is_wrong, labels, size):
    """Raise an error if a label is known to be invalid. Tensors in a graph have no values yet."""
    is_wrong = known_values(is_wrong)
    if is_wrong is not None and is_wrong.any():
        label = ops.convert_to_numpy(labels)[is_wrong][0]
        rule = (
            f"have ids of the vocabulary, 0 to {size - 1}, at every token that is neither padding "
            "nor of weight 0"
        )
        refuse("y_true", rule, id=label.item())


def gold_margins(labels: Tensor, logits: Tensor | TokenScores) -> Tensor:
    """Return each label's logit minus the largest logit: (batch, length), at most 0."""
    if isinstance(logits, TokenScores):
        return logits.values.margins
    return _at_labels(labels, _margins(logits))


def negative_log_likelihood(labels: Tensor, logits: Tensor | TokenScores) -> Tensor:
    """Return `-log softmax(logits)[label]` for each token, float32, (batch, length)."""
    if isinstance(logits, TokenScores):
        return logits.values.likelihoods
    margins = _margins(logits)
    _, total = _exponentials(margins)
    return ops.log(total) - _at_labels(labels, margins)


def smoothed_cross_entropy(
    labels: Tensor,
    logits: Tensor | TokenScores,
    label_smoothing: float,
    vocabulary_size: int | None = None,
) -> Tensor:
    """Return each token's cross entropy with its smoothed target distribution, (batch, length).

    Args:
        labels: int32 (batch, length).
        logits: float32 (batch, length, padded_vocabulary_size), or the `TokenScores` from a loss
            with the same smoothing, or from any loss if `label_smoothing` is 0.
        label_smoothing, vocabulary_size: as in `token_values`.
    """
    if isinstance(logits, TokenScores):
        return logits.values.losses if label_smoothing else logits.values.likelihoods

    options = (label_smoothing, vocabulary_size)
    if keras.backend.backend() == "jax":  # its forward mode does not support custom gradients
        return token_values(labels, logits, *options)[0].losses

    @ops.custom_gradient
    def cross_entropy(logits: Tensor) -> tuple[Tensor, Callable[..., Tensor]]:
        values, gradient = token_values(labels, logits, *options)
        return values.losses, gradient

    return cross_entropy(logits)


def token_values(
    labels: Tensor, logits: Tensor, label_smoothing: float, vocabulary_size: int | None = None
) -> tuple[TokenValues, Callable[..., Tensor]]:
    """Return the token values, and a function that computes the gradient of the losses.

    The target is `1 - label_smoothing` at the label and `share = label_smoothing /
    (vocabulary_size - 1)` at every other token. The loss is computed without a target matrix, from
    m, the logits minus the largest logit, which cancels out: `logsumexp(m) - (1 - label_smoothing)
    * gold - share * (sum(m) - gold)`. The sum skips the vocabulary padding, which starts at
    `vocabulary_size`.

    The gradient, softmax minus target, reuses the exponentials of the forward pass.

    Args:
        labels: int32 (...).
        logits: float32 (..., padded_vocabulary_size).
        label_smoothing: float in [0, 1).
        vocabulary_size: number of real tokens; if None, every logit belongs to a token.

    Returns:
        values: `TokenValues` (...).
        gradient: maps the gradient of the losses, (...), to the gradient of the logits.
    """
    padded_size = logits.shape[-1]
    vocabulary_size = padded_size if vocabulary_size is None else vocabulary_size
    on_label, share = 1 - label_smoothing, label_smoothing / (vocabulary_size - 1)

    def on_real_tokens(values: Tensor) -> Tensor:
        """Set the values at the vocabulary padding to 0."""
        if vocabulary_size == padded_size:
            return values
        is_real = ops.less(ops.arange(padded_size, dtype="int32"), vocabulary_size)
        return ops.where(is_real, values, 0.0)

    margins = _margins(logits)
    exponentials, total = _exponentials(margins)
    gold, log_total = _at_labels(labels, margins), ops.log(total)
    losses = log_total - (on_label - share) * gold
    if label_smoothing:
        losses = losses - share * ops.sum(on_real_tokens(margins), axis=-1)

    def gradient(*args: Tensor, upstream: Tensor = None) -> Tensor:
        upstream = args[0] if upstream is None else upstream  # PyTorch passes it by name
        scale = upstream / total
        elsewhere = exponentials * ops.expand_dims(scale, -1)
        if label_smoothing:
            elsewhere = elsewhere - on_real_tokens(share * ops.expand_dims(upstream, -1))
        at_label = _at_labels(labels, exponentials) * scale - on_label * upstream
        return _with_values_at(labels, at_label, elsewhere)

    return TokenValues(losses, log_total - gold, gold), gradient


def paired_divergence(logits: Tensor) -> Tensor:
    """Return each token's `(KL(p || q) + KL(q || p)) / 2` for the predictions of two passes.

    Args:
        logits: floats (2 * batch, length, vocabulary_size): rows 0 and 1 are the two passes of the
            first sentence, rows 2 and 3 the two passes of the second, and so on.

    Returns:
        float32 (batch, length), in nats. It is computed as `sum((p - q) * (x - y)) / 2` from the
        logits x and y; the logarithms of the normalizers cancel out.

    Example:
        >>> import numpy as np
        >>> p, q = np.array([0.5, 0.5]), np.array([0.8, 0.2])
        >>> found = paired_divergence(np.log([[p], [q]]))
        >>> f"{float(found[0, 0]):.4f} {((p - q) * np.log(p / q)).sum() / 2:.4f}"
        '0.2079 0.2079'

    Reference: Liang et al., "R-Drop: Regularized Dropout for Neural Networks", 2021, equation 2.
    """
    logits = to_logits(logits)
    size = ops.shape(logits)

    @ops.custom_gradient
    def divergence(logits: Tensor) -> tuple[Tensor, Callable[..., Tensor]]:
        pairs = ops.reshape(logits, (-1, 2, *size[1:]))
        first, second = ops.split(pairs, 2, axis=1)
        p, q = ops.softmax(first), ops.softmax(second)
        apart, between = first - second, p - q
        total = ops.sum(between * apart, axis=-1, keepdims=True)

        def gradient(*args: Tensor, upstream: Tensor = None) -> Tensor:
            upstream = args[0] if upstream is None else upstream  # PyTorch passes it by name
            scale = ops.reshape(upstream, ops.shape(total)) / 2
            by_first = between + p * (apart - ops.sum(p * apart, axis=-1, keepdims=True))
            by_second = between + q * (apart - ops.sum(q * apart, axis=-1, keepdims=True))
            parts = ops.concatenate([by_first * scale, -by_second * scale], axis=1)
            return ops.reshape(parts, size)

        return ops.squeeze(total, (1, -1)) / 2, gradient

    return divergence(logits)


def _margins(logits: Tensor) -> Tensor:
    """Return `logits` minus each token's largest logit, which cancels out in every loss."""
    return logits - ops.stop_gradient(ops.max(logits, axis=-1, keepdims=True))


def _exponentials(margins: Tensor) -> tuple[Tensor, Tensor]:
    """Return exp(margins) and its sum over the vocabulary for each token."""
    exponentials = ops.exp(margins)
    return exponentials, ops.sum(exponentials, axis=-1)


def _at_labels(labels: Tensor, values: Tensor) -> Tensor:
    """Select the value at each label, (batch, length), from values for all vocabulary tokens."""
    return ops.squeeze(ops.take_along_axis(values, ops.expand_dims(labels, -1), axis=-1), axis=-1)


def _with_values_at(labels: Tensor, values: Tensor, tensor: Tensor) -> Tensor:
    """Return `tensor` (batch, length, size) with its entries at the labels set to `values`."""
    size = tensor.shape[-1]
    if keras.backend.backend() != "tensorflow":
        is_label = ops.equal(ops.arange(size, dtype="int32"), ops.expand_dims(labels, -1))
        return ops.where(is_label, ops.expand_dims(values, -1), tensor)
    # Without XLA, a `where` would take two passes over memory.
    ids = ops.reshape(labels, (-1,))
    indices = ops.stack([ops.arange(ops.shape(ids)[0], dtype="int32"), ids], axis=1)
    rows = ops.reshape(tensor, (-1, size))
    rows = ops.scatter_update(rows, indices, ops.reshape(values, (-1,)))
    # Use the labels' shape: TensorFlow writes in place only if nothing else refers to the tensor.
    return ops.reshape(rows, (*ops.shape(labels), size))


def replica_share() -> Tensor:
    """Return 1 / (the number of replicas in sync) as a float32 scalar; 1 without `tf.distribute`.

    Keras sums the replicas' gradients, so it multiplies a mean loss by this factor. Keras has no
    public API for the factor, so it is obtained as the mean of a single error of 1.
    """
    return keras.losses.MeanAbsoluteError(dtype="float32")(ops.ones((1, 1)), ops.zeros((1, 1)))


def replica_sum(value: Tensor) -> Tensor:
    """Return a scalar's sum over the replicas in sync. Without `tf.distribute`, return the scalar.

    Keras has no public API for this sum either, so it is computed from the mean of synchronized
    batch normalization. On other backends, a step is a single program with sums over all devices.
    """
    if keras.backend.backend() != "tensorflow":
        return value
    mean, _ = ops.moments(ops.reshape(value, (1,)), axes=(0,), synchronized=True)
    return mean / ops.cast(replica_share(), mean.dtype)


@keras.saving.register_keras_serializable(package="keras_transformer")
class LabelSmoothingCrossEntropy(KeepsArguments, keras.losses.Loss):
    """Label-smoothed cross entropy for target tokens.

    The target is `1 - label_smoothing` at the label and `label_smoothing / (vocabulary_size - 1)`
    at every other token. Vocabulary padding has target 0. It is included in the softmax, and
    training makes it improbable.

    The loss is the mean over real tokens, `sum(w * loss) / sum(w)`, where the weight w is 1 for
    each token or `sample_weight`. Padding and tokens hidden by the Keras mask of `y_pred` always
    have weight 0. A token of weight 0 can have any label, such as -1, and receives no gradient.

    The mean is over the entire batch, including all `tf.distribute` replicas and all JAX devices,
    regardless of how many tokens each of them has. It does not span the slices of
    `training_model(accumulate=...)` or other parts of a batch that are processed one after another.
    To sum these parts, use `reduction="sum"` and weights `mask / tokens of the entire batch`. The
    loss is computed in float32 under every dtype policy.

    Args:
        label_smoothing: float in [0, 1), the probability taken from the label.
        padding_id: integer >= 0, the label to ignore.
        vocabulary_size: integer >= 2, number of tokens in the tokenizer. Logits beyond this number
            are vocabulary padding (see `models.padded_vocabulary_size`). If None, every logit
            belongs to a token.
        name: name of the loss.
        reduction: as in `keras.losses.Loss`. "mean_with_sample_weight" divides by the sum of the
            weights, so their scale does not matter. "mean" and "sum_over_batch_size" divide by the
            number of real tokens, regardless of their weights. "sum" does not divide. None or
            "none" returns the weighted loss of each token, (batch, target_length).
        dtype: dtype in which the loss is computed, "float32" or "float64". Defaults to "float32".

    Call arguments:
        y_true: integers, (batch, target_length) or (batch, target_length, 1).
        y_pred: floats, the logits, (batch, target_length, padded_vocabulary_size).
        sample_weight: optional floats, (batch, target_length), or (batch,) for sentence weights.

    Returns:
        A scalar of the loss's dtype, in nats; 0 if all tokens have weight 0.

    Raises:
        ValueError: an argument is out of range, shapes do not match, there are fewer than 2 logits
            or fewer than `vocabulary_size`, or a token with nonzero weight has a label outside the
            vocabulary. In a compiled function, where labels are unknown, such a label makes the
            loss NaN.

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
        check_non_negative_int("padding_id", padding_id)
        if vocabulary_size is not None and vocabulary_size < 2:
            rule = "be an integer >= 2: smoothing needs tokens other than the label"
            refuse("vocabulary_size", rule, vocabulary_size)
        super().__init__(name=name, reduction=reduction, dtype=sum_dtype(dtype))

    def __call__(self, y_true: Tensor, y_pred: Tensor, sample_weight: Tensor = None) -> Tensor:
        # Keras's own __call__ does not recognize padding labels, and it computes a separate mean
        # for each replica.
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
            is_real = ops.not_equal(to_labels(y_true, logits.shape), self.padding_id)
            weights = ops.cast(is_real, self.dtype) * ops.cast(kept_mask(y_pred), self.dtype)
        return ops.divide_no_nan(total, replica_sum(ops.sum(weights)))

    def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        logits = to_logits(y_pred, self.dtype)
        if logits.shape[-1] < (self.vocabulary_size or 2):
            shapes = {"shape": tuple(logits.shape), "vocabulary_size": self.vocabulary_size}
            refuse(
                "y_pred", "have at least `vocabulary_size` values for each token, and 2", **shapes
            )
        ids = ops.cast(to_labels(y_true, logits.shape), "int32")
        return smoothed_cross_entropy(ids, logits, self.label_smoothing, self.vocabulary_size)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "dtype": self.dtype}


class TokenModel(keras.Model):
    """A model with one label per token. Rejects `class_weight`, which needs one label per row."""

    def fit(self, *args: Any, **options: Any) -> Any:
        """Same as `keras.Model.fit`, but without `class_weight`."""
        _check_class_weight(keras.Model.fit, self, *args, **options)
        return super().fit(*args, **options)

    def train_on_batch(self, *args: Any, **options: Any) -> Any:
        """Same as `keras.Model.train_on_batch`, but without `class_weight`."""
        _check_class_weight(keras.Model.train_on_batch, self, *args, **options)
        return super().train_on_batch(*args, **options)

    # Keeps Keras's signatures for `help` and editors.
    functools.update_wrapper(fit, keras.Model.fit, assigned=(), updated=())
    functools.update_wrapper(train_on_batch, keras.Model.train_on_batch, assigned=(), updated=())


def _check_class_weight(method: Callable[..., Any], *args: Any, **options: Any) -> None:
    given = inspect.signature(method).bind(*args, **options).arguments
    if given.get("class_weight") is not None:
        rule = (
            "be None: Keras would weight an entire row by the position of its largest label. Use "
            "`sample_weight` (batch, target_length), such as `weights[labels]`"
        )
        refuse("class_weight", rule, given["class_weight"])


__all__ = ["LabelSmoothingCrossEntropy"]
