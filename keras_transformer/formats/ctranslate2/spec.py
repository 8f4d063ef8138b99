"""Conversion of a model's weights to CTranslate2's `TransformerSpec` with NumPy."""

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
from ctranslate2.specs.transformer_spec import (
    TransformerDecoderSpec,
    TransformerEncoderSpec,
    TransformerSpec,
)

from keras_transformer.formats.ctranslate2.tensors import ACTIVATIONS, turned, variable_name
from keras_transformer.formats.imported_models import activation_name, float32_copy, weights_of
from keras_transformer.layers import PositionalEmbedding
from keras_transformer.models import Transformer

NO_LOGIT = -1e4  # logit of an impossible token; representable in float16


def transformer_spec(
    model: Transformer, num_positions: int, never: Sequence[int] = ()
) -> TransformerSpec:
    """Return the specification with all weights but without vocabularies.

    `num_positions` applies to models without a length limit. Tokens in `never` get zero
    probability. Shared weights become a single array.
    """
    first = model.encoder_layers[0]
    options = {
        "num_heads": first.num_heads,
        "head_dim": first.attention.key_dim,
        "activation": ACTIVATIONS[activation_name(model)],
        # This setting reserves a slot for the final norm, regardless of the order in the layers.
        "pre_norm": True,
        "no_final_norm": model.decoder_norm is None,
    }
    if model.target_embedding.positions == "rotary":
        options |= {"rotary_dim": 0, "rotary_interleave": False}  # full head, split into halves
    encoder = TransformerEncoderSpec(len(model.encoder_layers), **options)
    decoder = TransformerDecoderSpec(
        len(model.decoder_layers),
        **_alignment(model),
        **options,
    )
    spec = TransformerSpec(encoder, decoder)
    _fill(spec, model)
    source, target = model.source_embedding, model.target_embedding
    encoder.position_encodings.encodings = _positions(source, 0, num_positions)
    if target.positions != "rotary":  # a rotary decoder has no slot for encodings
        decoder.position_encodings.encodings = _positions(target, -1, num_positions)
    decoder.start_from_zero_embedding = model.options.zero_id is not None
    encoder.pre_norm = decoder.pre_norm = first.normalize_first
    if never:
        bias = np.zeros(model.vocabulary_size, "float32")
        if model.target_embedding.use_logits_bias:
            bias += decoder.projection.bias
        bias[list(never)] = NO_LOGIT
        decoder.projection.bias = bias
    spec.config.layer_norm_epsilon = first.layer_norm_epsilon
    spec.config.add_source_eos = model.options.hidden_source_id is None
    return spec


def _alignment(model: Transformer) -> dict[str, int]:
    """Return the attention for alignments, as in `Translator.align` without a separate head."""
    head = model.alignment_head
    if head is not None and head.alignment_head == 1:  # CTranslate2 knows only the first heads
        return {"alignment_layer": head.alignment_layer - 1, "alignment_heads": 1}
    # 0 heads: the mean over all heads.
    return {"alignment_layer": max(len(model.decoder_layers) - 2, 0), "alignment_heads": 0}


def _fill(spec: TransformerSpec, model: Transformer) -> None:
    """Set the weights to copies, because quantization modifies the arrays."""
    for weight in weights_of(model):
        *path, name = variable_name(weight).split("/")
        setattr(functools.reduce(_part, path, spec), name, turned(weight, weight.plain()))
    encoder, decoder = spec.encoder, spec.decoder
    if model.target_embedding.tie_weights:
        decoder.projection.weight = decoder.embeddings.weight
    if model.source_embedding is model.target_embedding:
        encoder.embeddings[0].weight = decoder.embeddings.weight


def _part(spec: Any, name: str) -> Any:
    """Return a part of a specification by its name in the file; list entries are numbered."""
    if hasattr(spec, name):
        return getattr(spec, name)
    of_list, _, number = name.rpartition("_")
    return getattr(spec, of_list)[int(number)]


def _positions(embedding: PositionalEmbedding, table: int, num_positions: int) -> np.ndarray:
    """Return the position vectors; without a limit, only the first `num_positions`."""
    numbers = np.arange(embedding.kind.limit or num_positions)
    if embedding.positions == "rotary":
        return np.zeros((len(numbers), embedding.hidden_dim), "float32")
    return float32_copy(embedding.kind.at(numbers, table))
