"""How far apart two predictions of the same token are, the term that R-Drop adds to the loss."""

from collections.abc import Callable

from keras import ops

from keras_transformer.losses.token_batch import to_logits
from keras_transformer.types import Tensor


def paired_divergence(logits: Tensor) -> Tensor:
    """Return each token's `(KL(p || q) + KL(q || p)) / 2` of the predictions of two passes.

    Args:
        logits: floats (2 batch, length, vocabulary_size): rows 0 and 1 are the two passes of the
            first sentence, rows 2 and 3 those of the second, and so on.

    Returns:
        float32 (batch, length), in nats. It is computed as `sum((p - q) * (x - y)) / 2` of the
        logits x and y, where the logarithms of the normalizers cancel.

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
            upstream = args[0] if upstream is None else upstream  # torch gives it by name
            scale = ops.reshape(upstream, ops.shape(total)) / 2
            by_first = between + p * (apart - ops.sum(p * apart, axis=-1, keepdims=True))
            by_second = between + q * (apart - ops.sum(q * apart, axis=-1, keepdims=True))
            parts = ops.concatenate([by_first * scale, -by_second * scale], axis=1)
            return ops.reshape(parts, size)

        return ops.squeeze(total, (1, -1)) / 2, gradient

    return divergence(logits)
