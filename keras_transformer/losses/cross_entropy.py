"""Losses per token: the computations that the loss, metrics and R-Drop share.

Every function of a label reads the logits through the same few reductions, so a compiled train
step that holds the loss, perplexity and accuracy computes each of them once.
"""

from collections.abc import Callable

import keras
from keras import ops

from keras_transformer.losses.token_batch import to_logits
from keras_transformer.losses.token_scores import TokenScores, TokenValues
from keras_transformer.types import Tensor


def gold_margins(labels: Tensor, logits: Tensor | TokenScores) -> Tensor:
    """Return each label's logit minus the largest one, at most 0, (batch, length)."""
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
        logits: float32 (batch, length, padded_vocabulary_size), or the `TokenScores` of a loss with
            this smoothing; if `label_smoothing` is 0, of any loss.
        label_smoothing, vocabulary_size: as in `token_values`.
    """
    if isinstance(logits, TokenScores):
        return logits.values.losses if label_smoothing else logits.values.likelihoods

    @ops.custom_gradient
    def cross_entropy(logits: Tensor) -> tuple[Tensor, Callable[..., Tensor]]:
        values, gradient = token_values(labels, logits, label_smoothing, vocabulary_size)
        return values.losses, gradient

    return cross_entropy(logits)


def token_values(
    labels: Tensor, logits: Tensor, label_smoothing: float, vocabulary_size: int | None = None
) -> tuple[TokenValues, Callable[..., Tensor]]:
    """Return the values of tokens, and a function that computes the gradient of their losses.

    The target is `1 - label_smoothing` at the label and `share = label_smoothing /
    (vocabulary_size - 1)` at every other token. It is computed without a target matrix, from the
    logits minus the largest one, m, which cancels: `logsumexp(m) - (1 - label_smoothing) * gold -
    share * (sum(m) - gold)`. The sum skips the padding of the vocabulary, which starts at
    `vocabulary_size`.

    The gradient, softmax minus target, reuses the exponentials of the forward pass.

    Args:
        labels: int32 (...).
        logits: float32 (..., padded_vocabulary_size).
        label_smoothing: float in [0, 1).
        vocabulary_size: number of real tokens; None: every logit is a token's.

    Returns:
        values: `TokenValues` (...).
        gradient: maps the gradient of the losses, (...), to the gradient of the logits.
    """
    padded_size = logits.shape[-1]
    vocabulary_size = padded_size if vocabulary_size is None else vocabulary_size
    on_label, share = 1 - label_smoothing, label_smoothing / (vocabulary_size - 1)

    def on_real_tokens(values: Tensor) -> Tensor:
        """Set the values at the padding of the vocabulary to 0."""
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
        upstream = args[0] if upstream is None else upstream  # torch passes it by name
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
        logits: floats (2 batch, length, vocabulary_size): rows 0 and 1 are the two passes of the
            first sentence, rows 2 and 3 the two passes of the second, and so on.

    Returns:
        float32 (batch, length), in nats. It is computed as `sum((p - q) * (x - y)) / 2` from the
        logits x and y, in which the logarithms of the normalizers cancel.

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
            upstream = args[0] if upstream is None else upstream  # torch passes it by name
            scale = ops.reshape(upstream, ops.shape(total)) / 2
            by_first = between + p * (apart - ops.sum(p * apart, axis=-1, keepdims=True))
            by_second = between + q * (apart - ops.sum(q * apart, axis=-1, keepdims=True))
            parts = ops.concatenate([by_first * scale, -by_second * scale], axis=1)
            return ops.reshape(parts, size)

        return ops.squeeze(total, (1, -1)) / 2, gradient

    return divergence(logits)


def _margins(logits: Tensor) -> Tensor:
    """Return `logits` minus the largest one of each token."""
    return logits - ops.max(logits, axis=-1, keepdims=True)


def _exponentials(margins: Tensor) -> tuple[Tensor, Tensor]:
    """Return exp(margins) and its sum for each token."""
    exponentials = ops.exp(margins)
    return exponentials, ops.sum(exponentials, axis=-1)


def _at_labels(labels: Tensor, values: Tensor) -> Tensor:
    """Return the value at each label, (batch, length), from values for all tokens."""
    return ops.squeeze(ops.take_along_axis(values, ops.expand_dims(labels, -1), axis=-1), axis=-1)


def _with_values_at(labels: Tensor, values: Tensor, tensor: Tensor) -> Tensor:
    """Return `tensor` (batch, length, size) with `values` at the labels, both (batch, length)."""
    size = tensor.shape[-1]
    if keras.backend.backend() != "tensorflow":
        is_label = ops.equal(ops.arange(size, dtype="int32"), ops.expand_dims(labels, -1))
        return ops.where(is_label, ops.expand_dims(values, -1), tensor)
    # Without XLA, a `where` would take two passes over memory.
    ids = ops.reshape(labels, (-1,))
    indices = ops.stack([ops.arange(ops.shape(ids)[0], dtype="int32"), ids], axis=1)
    rows = ops.reshape(tensor, (-1, size))
    rows = ops.scatter_update(rows, indices, ops.reshape(values, (-1,)))
    # The labels' shape is used: TensorFlow writes into the tensor only if nothing else holds it.
    return ops.reshape(rows, (*ops.shape(labels), size))
