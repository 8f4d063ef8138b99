"""A model's weights as CTranslate2's `TransformerSpec`, in NumPy on every backend."""

from collections.abc import Sequence

import keras
import numpy as np
from ctranslate2.specs.common_spec import Activation
from ctranslate2.specs.transformer_spec import (
    TransformerDecoderSpec,
    TransformerEncoderSpec,
    TransformerSpec,
)

from keras_transformer.formats.residual_scales import ResidualScales
from keras_transformer.layers import PositionalEmbedding
from keras_transformer.models import Transformer
from keras_transformer.types import Tensor

NO_LOGIT = -1e4  # of a token without probability; float16 can represent it
SELF_ATTENTION = ("query_key_value", "output")
CROSS_ATTENTION = ("query", "key_value", "output")
# Keyed by Keras's names.
ACTIVATIONS = {
    "gelu": Activation.GELU,
    "relu": Activation.RELU,
    "sigmoid": Activation.Sigmoid,
    "silu": Activation.SWISH,
    "tanh": Activation.Tanh,
}


def transformer_spec(
    model: Transformer, num_positions: int, never: Sequence[int] = ()
) -> TransformerSpec:
    """Return the specification with all weights, but without vocabularies.

    `num_positions` is for a model without a length limit. Tokens in `never` get no probability.
    Shared weights are one array.
    """
    first = model.encoder_layers[0]
    options = {
        "num_heads": first.num_heads,
        "head_dim": first.attention.key_dim,
        "activation": ACTIVATIONS[activation_name(model)],
        # Such a specification has a place for the final norm, whatever the order in the layers.
        "pre_norm": True,
        "no_final_norm": model.decoder_norm is None,
    }
    if model.target_embedding.positions == "rotary":
        options |= {"rotary_dim": 0, "rotary_interleave": False}  # the whole head, in halves
    encoder = TransformerEncoderSpec(len(model.encoder_layers), **options)
    decoder = TransformerDecoderSpec(
        len(model.decoder_layers),
        alignment_layer=max(len(model.decoder_layers) - 2, 0),  # as in `Translator.align`
        alignment_heads=0,  # the mean of all heads
        **options,
    )
    _fill_stacks(encoder, decoder, model)
    _fill_embeddings(encoder, decoder, model, num_positions)
    if never:
        bias = np.zeros(model.vocabulary_size, "float32")
        if model.target_embedding.use_logits_bias:
            bias += decoder.projection.bias
        bias[list(never)] = NO_LOGIT
        decoder.projection.bias = bias
    spec = TransformerSpec(encoder, decoder)
    spec.config.layer_norm_epsilon = first.layer_norm_epsilon
    spec.config.add_source_eos = model.options.hidden_source_id is None
    return spec


def activation_name(model: Transformer) -> str:
    """Return Keras's name for the activation of a model's feed-forward networks."""
    return str(keras.activations.serialize(model.encoder_layers[0].activation))


def _fill_stacks(encoder, decoder, model):
    scales = ResidualScales(model, "CTranslate2")
    for spec, layer in zip(encoder.layer, model.encoder_layers, strict=True):
        _fill_attention(
            spec.self_attention, layer.attention, SELF_ATTENTION, layer.attention_block, scales
        )
        _fill_feed_forward(spec.ffn, layer, scales)
    for spec, layer in zip(decoder.layer, model.decoder_layers, strict=True):
        for part, attention, projections, block in (
            (
                spec.self_attention,
                layer.self_attention,
                SELF_ATTENTION,
                layer.self_attention_block,
            ),
            (spec.attention, layer.cross_attention, CROSS_ATTENTION, layer.cross_attention_block),
        ):
            _fill_attention(part, attention, projections, block, scales)
        _fill_feed_forward(spec.ffn, layer, scales)
    for spec, norm in ((encoder, model.encoder_norm), (decoder, model.decoder_norm)):
        spec.pre_norm = model.encoder_layers[0].normalize_first
        if norm is not None:
            _fill_norm(spec.layer_norm, norm)


def _fill_embeddings(encoder, decoder, model, num_positions):
    source, target = model.source_embedding, model.target_embedding
    tokens = target.token_embedding
    matrix = _array(tokens.matrix)
    decoder.embeddings.weight = matrix
    decoder.start_from_zero_embedding = model.options.zero_id is not None
    if tokens.tie_weights:
        decoder.projection.weight = matrix
    else:
        decoder.projection.weight = np.ascontiguousarray(_array(tokens.reverse_matrix).T)
    if tokens.logits_bias is not None:
        decoder.projection.bias = _array(tokens.logits_bias)
    encoder.embeddings[0].weight = (
        matrix if source is target else _array(source.token_embedding.matrix)
    )
    encoder.position_encodings.encodings = _positions(source, 0, num_positions)
    if target.positions != "rotary":  # a rotary decoder has no place for encodings
        decoder.position_encodings.encodings = _positions(target, -1, num_positions)


def _positions(embedding: PositionalEmbedding, table: int, num_positions: int) -> np.ndarray:
    """Return the vectors (positions, hidden_dim); without a limit, the first `num_positions`."""
    numbers = np.arange(embedding.kind.limit or num_positions)
    if embedding.positions == "rotary":
        return np.zeros((len(numbers), embedding.hidden_dim), "float32")
    return _array(embedding.kind.at(numbers, table))


def _fill_attention(spec, attention, projections, block, scales):
    for linear, name in zip(spec.linear, projections, strict=True):
        dense = attention.projections[name]
        _fill_linear(linear, dense.kernel, dense.bias, scales)
    _fill_norm(spec.layer_norm, block.norm)


def _fill_feed_forward(spec, layer, scales):
    for linear, dense in (
        (spec.linear_0, layer.feed_forward.expand),
        (spec.linear_1, layer.feed_forward.contract),
    ):
        _fill_linear(linear, dense.kernel, dense.bias, scales)
    _fill_norm(spec.layer_norm, layer.feed_forward_block.norm)


def _fill_linear(spec, kernel, bias, scales):
    spec.weight = np.ascontiguousarray(scales.plain(kernel, _array(kernel)).T)  # (outputs, inputs)
    if bias is not None:
        spec.bias = scales.plain(bias, _array(bias))


def _fill_norm(spec, norm):
    spec.gamma = _array(norm.gamma)
    spec.beta = _array(norm.beta)


def _array(tensor: Tensor) -> np.ndarray:
    """Return a float32 copy, because quantization writes into the array."""
    tensor = keras.ops.convert_to_tensor(tensor)  # NumPy warns about variables
    return np.array(keras.ops.convert_to_numpy(tensor), dtype="float32", order="C")
