"""The formulas of the paper in NumPy float64, as plainly as they can be written."""

import numpy as np


def random(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def softmax(logits):
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def attention(query, key, value, mask):
    """One head: query (T, d), key (S, d), value (S, e), mask (T, S)."""
    logits = query @ key.T / np.sqrt(query.shape[1])
    weights = softmax(np.where(mask, logits, -np.inf))
    return weights @ value, weights


def multi_head_attention(query, value, kernels, num_heads, mask, scales=None):
    """All heads of one sentence: query (T, m), value (S, n), kernels q, k, v, o as matrices.

    With `scales`, of queries and of keys, both are divided by their root mean square and scaled.
    """
    heads, weights = [], []
    for head in range(num_heads):
        parts = []
        for kernel in kernels[:3]:
            width = kernel.shape[1] // num_heads
            parts.append(kernel[:, head * width : (head + 1) * width])
        queries, keys = query @ parts[0], value @ parts[1]
        if scales is not None:
            queries, keys = rms_norm(queries, scales[0]), rms_norm(keys, scales[1])
        context, weight = attention(queries, keys, value @ parts[2], mask)
        heads.append(context)
        weights.append(weight)
    return np.concatenate(heads, axis=1) @ kernels[3], np.stack(weights)


def kernels_of(attention):
    """The query, key, value and output matrices of an attention layer; fused ones are split."""
    width = attention.num_heads * attention.key_dim
    return [
        part
        for name, projection in attention.projections.items()
        for part in np.split(
            np.asarray(projection.kernel, "float64"),
            [width * number for number in range(1, 1 + name.count("_"))],
            axis=1,
        )
    ]


def rms_norm(x, scale):
    return x / np.sqrt((x**2).mean(axis=-1, keepdims=True) + 1e-6) * scale


def position(pos, i, d):
    """Component i of position pos."""
    angle = pos / 10000 ** ((i - i % 2) / d)
    return np.sin(angle) if i % 2 == 0 else np.cos(angle)


def layer_norm(x, gamma, beta):
    mean = x.mean(axis=-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(axis=-1, keepdims=True)
    return (x - mean) / np.sqrt(variance + 1e-6) * gamma + beta


def residual_block(block, x, sublayer, shortcut=0):
    gamma, beta = (np.asarray(weight, "float64") for weight in block.norm.weights)
    if block.normalize_first:
        return x + sublayer(layer_norm(x, gamma, beta))
    return layer_norm(block.scale * x + sublayer(x) + shortcut, gamma, beta)


def transformer_layer(layer, inputs, mask, memory=None, memory_mask=None):
    """An encoder or a decoder layer of one sentence, and the weights of its attentions."""
    weights = []

    def attend(attention, x, values, mask):
        kernels = kernels_of(attention)
        context, found = multi_head_attention(x, values, kernels, attention.num_heads, mask)
        weights.append(found)
        return context

    def feed_forward(x):
        w1, b1, w2, b2 = (np.asarray(weight, "float64") for weight in layer.feed_forward.weights)
        return np.maximum(x @ w1 + b1, 0) @ w2 + b2

    name = "attention" if hasattr(layer, "attention") else "self_attention"
    attention, block = getattr(layer, name), getattr(layer, f"{name}_block")
    hidden = residual_block(block, inputs, lambda x: attend(attention, x, x, mask))
    if memory is not None:
        attention, block = layer.cross_attention, layer.cross_attention_block
        hidden = residual_block(block, hidden, lambda x: attend(attention, x, memory, memory_mask))
    shortcut = inputs if layer.b2t_connection else 0
    return residual_block(layer.feed_forward_block, hidden, feed_forward, shortcut), weights
