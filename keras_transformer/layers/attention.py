"""Scaled dot-product attention: pure functions. Axes: batch, heads, target, source, dim."""

import math
from typing import Any

from keras import ops

from keras_transformer.types import Tensor

MASKED_LOGIT = -1e9  # finite: a fully masked row becomes uniform instead of NaN
# Fused attention pays from about here on: XLA's own rewriter asked for more than 512 positions
# (openxla/xla#5910), and kernels that work on blocks of 128 lose on sentences.
FUSED_LENGTH = 512


def attention_weights(query: Tensor, key: Tensor, mask: Tensor) -> Tensor:
    """Softmax of the scaled products of queries and keys, in float32.

    Args:
        query: tensor (..., target, dim).
        key: tensor (..., source, dim).
        mask: boolean tensor that broadcasts to (..., target, source), or None.

    Returns:
        float32 tensor (..., target, source); every row sums to 1.

    Reference: Vaswani et al. (2017), equation 1.
    """
    scale = 1.0 / math.sqrt(query.shape[-1])
    logits = ops.matmul(query * ops.cast(scale, query.dtype), ops.swapaxes(key, -1, -2))
    logits = ops.cast(logits, "float32")  # (..., target, source)
    if mask is not None:
        logits = ops.where(mask, logits, ops.cast(MASKED_LOGIT, "float32"))
    if logits.shape[-1] == 1:
        return ops.ones_like(logits)  # what softmax gives, without Keras's warning
    return ops.softmax(logits, axis=-1)


def attention_to_filled_blocks(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor, num_filled: Tensor, block: int
) -> Tensor:
    """The attended values, where only the first part of keys and values is filled.

    Blocks without a filled entry cost nothing: a loop runs over the others, with a running softmax.
    For compilers such as XLA, whose shapes are fixed.

    Args:
        query: tensor (batch, heads, target, dim).
        key: tensor (batch, heads, source, dim); `source` is a multiple of `block`.
        value: tensor (batch, heads, source, value_dim).
        mask: boolean tensor (..., source) that broadcasts to (batch, 1, target, source). Each row
            has a True in the first block.
        num_filled: scalar integer tensor, at least 1.
        block: number of entries of a block.

    Returns:
        Tensor (batch, heads, target, value_dim).

    Reference: Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018.
    """
    batch_size, heads, target, _ = query.shape
    query = query * ops.cast(1.0 / math.sqrt(query.shape[-1]), query.dtype)

    def of_block(values: Tensor, index: Tensor, axis: int) -> Tensor:
        shape: list[Any] = list(values.shape)
        start: list[Any] = [ops.zeros_like(index)] * len(shape)
        start[axis], shape[axis] = index * block, block
        return ops.slice(values, start, shape)

    def attend(index: Tensor, largest: Tensor, total: Tensor, context: Tensor) -> Any:
        logits = ops.matmul(query, ops.swapaxes(of_block(key, index, 2), -1, -2))
        logits = ops.where(of_block(mask, index, -1), ops.cast(logits, "float32"), MASKED_LOGIT)
        now_largest = ops.maximum(largest, ops.max(logits, axis=-1, keepdims=True))
        weights, fading = ops.exp(logits - now_largest), ops.exp(largest - now_largest)
        total = total * fading + ops.sum(weights, axis=-1, keepdims=True)
        attended = ops.matmul(ops.cast(weights, value.dtype), of_block(value, index, 2))
        context = context * fading + ops.cast(attended, "float32")
        return index + 1, now_largest, total, context

    shape = (batch_size, heads, target, 1)
    _, _, total, context = ops.while_loop(
        lambda index, *_: index * block < num_filled,
        attend,
        (
            ops.zeros((), "int32"),
            ops.full(shape, MASKED_LOGIT, "float32"),
            ops.zeros(shape, "float32"),
            ops.zeros((*shape[:3], value.shape[-1]), "float32"),
        ),
    )
    return ops.cast(context / total, value.dtype)


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
