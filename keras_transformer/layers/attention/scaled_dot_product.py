"""Scaled dot-product attention: pure functions. Axes: batch, heads, target, source, dim."""

import math

from keras import ops

from keras_transformer.types import Tensor

MASKED_LOGIT = -1e9  # finite: a fully masked row becomes uniform instead of NaN
# Fused attention pays from about here on: XLA's own rewriter asked for more than 512 positions
# (openxla/xla#5910), and kernels that work on blocks of 128 lose on sentences.
FUSED_LENGTH = 512


def attention_weights(
    query: Tensor, key: Tensor, mask: Tensor, masked_logits: Tensor = MASKED_LOGIT
) -> Tensor:
    """Softmax of the scaled products of queries and keys, in float32.

    Args:
        query: tensor (..., target, dim).
        key: tensor (..., source, dim).
        mask: boolean tensor that broadcasts to (..., target, source), or None.
        masked_logits: what stands in place of the masked logits; a number, or a tensor that
            broadcasts to (..., target, source).

    Returns:
        float32 tensor (..., target, source); every row sums to 1.

    Reference: Vaswani et al. (2017), equation 1.
    """
    scale = 1.0 / math.sqrt(query.shape[-1])
    logits = ops.matmul(query * ops.cast(scale, query.dtype), ops.swapaxes(key, -1, -2))
    logits = ops.cast(logits, "float32")  # (..., target, source)
    if mask is not None:
        logits = ops.where(mask, logits, ops.cast(masked_logits, "float32"))
    if logits.shape[-1] == 1:
        return ops.ones_like(logits)  # what softmax gives, without Keras's warning
    return ops.softmax(logits, axis=-1)


def fused_attention(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
    """The attended values by Keras's own operation, which takes a fused kernel where there is one.

    Args:
        query: tensor (batch, heads, target, dim).
        key: tensor (batch, heads, source, dim).
        value: tensor (batch, heads, source, dim).
        mask: boolean tensor that broadcasts to (batch, 1, target, source), or None. A row without
            any True may attend to everything: kernels overflow there, and nobody reads the result.

    Returns:
        Tensor (batch, heads, target, dim).
    """
    if mask is not None:
        mask = ops.logical_or(mask, ops.logical_not(ops.any(mask, axis=-1, keepdims=True)))
        # cuDNN does not broadcast these two axes (jax-ml/jax#28974).
        mask = ops.logical_and(mask, ops.ones((query.shape[-2], key.shape[-2]), "bool"))
    query, key, value = (ops.swapaxes(tensor, 1, 2) for tensor in (query, key, value))
    return ops.swapaxes(ops.dot_product_attention(query, key, value, mask=mask), 1, 2)
