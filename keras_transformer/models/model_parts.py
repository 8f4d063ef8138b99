"""The trainable weights of a model by the part that they belong to."""

from typing import Any

import keras

# The sub-layers of an encoder's or a decoder's layer, as it names them, in the order of a pass.
_SUBLAYERS = (
    "attention",
    "attention_block",
    "self_attention",
    "self_attention_block",
    "cross_attention",
    "cross_attention_block",
    "feed_forward",
    "feed_forward_block",
)


def model_parts(model: keras.Model) -> dict[str, list[keras.Variable]]:
    """The trainable weights by part: embeddings, sub-layers and layer normalizations.

    Args:
        model: a model from `build_transformer` or `build_language_model`, or a reloaded one. Any
            other functional model has its layers for parts.

    Returns:
        Lists of variables in the order of the forward pass, under names such as
        "decoder_layer_2.cross_attention"; the normalization beside a sub-layer has its name and
        "_norm". Every trainable weight is in one part.

    Example:
        >>> from keras_transformer.models import build_transformer
        >>> model = build_transformer("tiny", vocabulary_size=100, num_encoder_layers=1)
        >>> list(model_parts(model))[:4]  # doctest: +NORMALIZE_WHITESPACE
        ['embedding', 'encoder_layer_1.attention', 'encoder_layer_1.attention_norm',
         'encoder_layer_1.feed_forward']
    """
    parts: dict[str, list[keras.Variable]] = {}
    for layer in model.layers:
        sublayers = {f"{layer.name}.{_part(name)}": part for name, part in _sublayers(layer)}
        for name, part in (sublayers or {layer.name: layer}).items():
            if part.trainable_weights:
                parts[name] = list(part.trainable_weights)
    return parts


def _sublayers(layer: keras.layers.Layer) -> list[tuple[str, Any]]:
    found = [(name, getattr(layer, name, None)) for name in _SUBLAYERS]
    return [(name, part) for name, part in found if isinstance(part, keras.layers.Layer)]


def _part(name: str) -> str:
    return name.removesuffix("_block") + "_norm" if name.endswith("_block") else name
