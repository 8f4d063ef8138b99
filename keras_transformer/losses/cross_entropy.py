"""Negative log-likelihood of single tokens: the one computation that the loss and the metrics share.

Each function reads the logits through the same three reductions, so a compiled train step that holds
the loss, perplexity and accuracy computes each reduction once.
"""

from keras import ops


def to_ids(labels):
    """Return token ids as int32; they are never compared or looked up in a float type."""
    return ops.cast(ops.convert_to_tensor(labels), "int32")


def to_logits(logits):
    """Return logits as float32, whatever the dtype policy."""
    return ops.cast(ops.convert_to_tensor(logits), "float32")


def gold_logits(labels, logits):
    """Return the logit of each label, shape (batch, length)."""
    return ops.squeeze(ops.take_along_axis(logits, ops.expand_dims(labels, -1), axis=-1), axis=-1)


def negative_log_likelihood(labels, logits):
    """Return `-log softmax(logits)[label]` for each token.

    Args:
        labels: int32, (batch, length).
        logits: float32, (batch, length, vocabulary_size).

    Returns:
        float32, (batch, length).
    """
    return ops.logsumexp(logits, axis=-1) - gold_logits(labels, logits)


def smoothed_cross_entropy(labels, logits, label_smoothing):
    """Return the cross entropy of each token with its smoothed target distribution.

    The target holds `1 - label_smoothing` on the label and `label_smoothing / (vocabulary_size - 1)`
    on every other token. Written out, no target matrix is needed: with z = logsumexp(logits) it is
    `z - (1 - label_smoothing) * gold - label_smoothing / (vocabulary_size - 1) * (sum - gold)`.

    Args:
        labels: int32, (batch, length).
        logits: float32, (batch, length, vocabulary_size).
        label_smoothing: float in [0, 1).

    Returns:
        float32, (batch, length).
    """
    normalizer = ops.logsumexp(logits, axis=-1)
    gold = gold_logits(labels, logits)
    if label_smoothing == 0:
        return normalizer - gold
    share = label_smoothing / (logits.shape[-1] - 1)
    return normalizer - (1 - label_smoothing - share) * gold - share * ops.sum(logits, axis=-1)
