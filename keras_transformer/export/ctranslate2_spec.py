"""A model's weights as CTranslate2's `TransformerSpec`: NumPy alone, on every backend."""

import keras
import numpy as np
from ctranslate2.specs.transformer_spec import (
    TransformerDecoderSpec,
    TransformerEncoderSpec,
    TransformerSpec,
)

from keras_transformer.layers.positional_embedding import sinusoidal_positions
from keras_transformer.layers.residual_block import LAYER_NORM_EPSILON

SELF_ATTENTION = ("query_key_value", "output")
CROSS_ATTENTION = ("query", "key_value", "output")


def transformer_spec(layers, num_positions):
    """The `ctranslate2.specs.TransformerSpec` with all weights and no vocabulary.

    A model of learned positions has its own number of them. Weights that it shares are one array.
    """
    attention = layers.encoder_layers[0].attention
    options = {
        "num_heads": attention.num_heads,
        "head_dim": attention.key_dim,
        "pre_norm": layers.encoder_norm is not None,
    }
    encoder = TransformerEncoderSpec(len(layers.encoder_layers), **options)
    decoder = TransformerDecoderSpec(
        len(layers.decoder_layers),
        alignment_layer=max(len(layers.decoder_layers) - 2, 0),  # as `Translator.align`
        alignment_heads=0,  # the mean of all
        **options,
    )
    _fill_stacks(encoder, decoder, layers)
    _fill_embeddings(encoder, decoder, layers, num_positions)
    spec = TransformerSpec(encoder, decoder)
    spec.config.layer_norm_epsilon = LAYER_NORM_EPSILON
    spec.config.add_source_eos = True
    return spec


def _fill_stacks(encoder, decoder, layers):
    for spec, layer in zip(encoder.layer, layers.encoder_layers, strict=True):
        _fill_attention(spec.self_attention, layer.attention, SELF_ATTENTION, layer.attention_block)
        _fill_feed_forward(spec.ffn, layer)
    for spec, layer in zip(decoder.layer, layers.decoder_layers, strict=True):
        _fill_attention(
            spec.self_attention, layer.self_attention, SELF_ATTENTION, layer.self_attention_block
        )
        _fill_attention(
            spec.attention, layer.cross_attention, CROSS_ATTENTION, layer.cross_attention_block
        )
        _fill_feed_forward(spec.ffn, layer)
    for spec, norm in ((encoder, layers.encoder_norm), (decoder, layers.decoder_norm)):
        if norm is not None:
            _fill_norm(spec.layer_norm, norm)


def _fill_embeddings(encoder, decoder, layers, num_positions):
    source, target = layers.source_embedding, layers.target_embedding
    matrix = _array(target.token_embedding.matrix)
    decoder.embeddings.weight = matrix
    decoder.projection.weight = matrix
    encoder.embeddings[0].weight = (
        matrix if source is target else _array(source.token_embedding.matrix)
    )
    encoder.position_encodings.encodings = _positions(source, 0, num_positions)
    decoder.position_encodings.encodings = _positions(target, -1, num_positions)


def _positions(embedding, table, num_positions):
    """Position vectors (positions, hidden_dim) of the learned table, or of the formula."""
    if embedding.positions == "learned":
        return _array(embedding.tables[table])
    return _array(sinusoidal_positions(np.arange(num_positions), embedding.hidden_dim))


def _fill_attention(spec, attention, projections, block):
    for linear, name in zip(spec.linear, projections, strict=True):
        kernel = getattr(attention, f"{name}_kernel")
        _fill_linear(linear, kernel, getattr(attention, f"{name}_bias"))
    _fill_norm(spec.layer_norm, block.norm)


def _fill_feed_forward(spec, layer):
    for linear, dense in (
        (spec.linear_0, layer.feed_forward.expand),
        (spec.linear_1, layer.feed_forward.contract),
    ):
        _fill_linear(linear, dense.kernel, dense.bias)
    _fill_norm(spec.layer_norm, layer.feed_forward_block.norm)


def _fill_linear(spec, kernel, bias):
    spec.weight = np.ascontiguousarray(_array(kernel).T)  # (outputs, inputs)
    if bias is not None:
        spec.bias = _array(bias)


def _fill_norm(spec, norm):
    spec.gamma = _array(norm.gamma)
    spec.beta = _array(norm.beta)


def _array(tensor):
    """A float32 copy: quantisation writes into the array."""
    tensor = keras.ops.convert_to_tensor(tensor)  # of a variable: NumPy warns of those
    return np.array(keras.ops.convert_to_numpy(tensor), dtype="float32", order="C")
