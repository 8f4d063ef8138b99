"""The attention weights of a Transformer, computed by NumPy in float64 from its variables."""

import numpy as np
from keras import ops

from tests.layers.numpy_layers import layer_norm, multi_head_attention, position


def attention_weights(model, source_ids, target_ids):
    """The weights (layers, heads, rows, columns) of encoder, decoder and cross-attention.

    The model has sinusoidal positions, no biases in its attention and ReLU.
    """
    memory = embed(model.source_embedding, source_ids)
    everything = np.ones((len(source_ids), len(source_ids)), bool)
    encoder = []
    for layer in model.encoder_layers:
        kernels = fused_kernels(layer.attention), layer.num_heads
        memory, weights = attend(layer.attention_block, memory, None, *kernels, everything)
        memory = feed(layer, memory)
        encoder.append(weights)
    if model.encoder_norm:
        memory = norm(model.encoder_norm, memory)
    decoder, cross = decoder_weights(model, target_ids, memory)
    return np.stack(encoder), np.stack(decoder), np.stack(cross)


def language_model_weights(model, ids):
    """The weights (layers, heads, rows, columns) of a model without encoder."""
    return np.stack(decoder_weights(model, ids, None)[0])


def decoder_weights(model, ids, memory):
    """Of every layer, the weights of the self-attention and of the attention to the memory."""
    hidden = embed(model.target_embedding, ids)
    causal = np.tril(np.ones((len(ids), len(ids)), bool))
    own, cross = [], []
    for layer in model.decoder_layers:
        kernels = fused_kernels(layer.self_attention), layer.num_heads
        hidden, weights = attend(layer.self_attention_block, hidden, None, *kernels, causal)
        own.append(weights)
        if memory is not None:
            kernels = memory_kernels(layer.cross_attention), layer.num_heads
            to_all = np.ones((len(ids), len(memory)), bool)
            hidden, weights = attend(layer.cross_attention_block, hidden, memory, *kernels, to_all)
            cross.append(weights)
        hidden = feed(layer, hidden)
    return own, cross


def numbers(variable):
    return ops.convert_to_numpy(variable).astype("float64")


def embed(embedding, ids):
    matrix = numbers(embedding.token_embedding.matrix)
    width = matrix.shape[1]
    places = [[position(pos, i, width) for i in range(width)] for pos in range(len(ids))]
    return matrix[list(ids)] * np.sqrt(width) + places


def fused_kernels(attention):
    fused, output = kernels_of(attention, "query_key_value", "output")
    return (*np.split(fused, 3, axis=1), output)


def memory_kernels(attention):
    query, key_value, output = kernels_of(attention, "query", "key_value", "output")
    return query, *np.split(key_value, 2, axis=1), output


def kernels_of(attention, *names):
    return [numbers(attention.projections[name].kernel) for name in names]


def norm(layer, x):
    return layer_norm(x, *map(numbers, layer.weights))


def attend(block, x, memory, kernels, num_heads, mask):
    """The output of a residual block around an attention, to itself without memory; the weights."""
    inputs = norm(block.norm, x) if block.normalize_first else x
    memory = inputs if memory is None else memory
    outputs, weights = multi_head_attention(inputs, memory, kernels, num_heads, mask)
    return ended(block, x + outputs), weights


def feed(layer, x):
    w1, b1, w2, b2 = map(numbers, layer.feed_forward.weights)
    block = layer.feed_forward_block
    inputs = norm(block.norm, x) if block.normalize_first else x
    return ended(block, x + np.maximum(inputs @ w1 + b1, 0) @ w2 + b2)


def ended(block, total):
    return total if block.normalize_first else norm(block.norm, total)
