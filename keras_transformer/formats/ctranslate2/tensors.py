"""Mapping between the variables of a CTranslate2 model and our weights."""

import numpy as np

from keras_transformer.formats.imported_models import Weight

EMBEDDINGS = {"encoder": "encoder/embeddings_0/weight", "decoder": "decoder/embeddings/weight"}
PROJECTION = "decoder/projection/weight"
# CTranslate2's activation numbers by Keras name. Its other numbers approximate gelu.
ACTIVATIONS = {"gelu": 3, "relu": 0, "sigmoid": 6, "silu": 2, "tanh": 5}
_UNITS = {"attention": "self_attention", "cross_attention": "attention", "feed_forward": "ffn"}
_PARTS = {"key_value": "linear_1", "contract": "linear_1", "norm": "layer_norm"}


def variable_name(weight: Weight) -> str:
    """Return the CTranslate2 variable name of a weight."""
    kind = "weight" if weight.kind == "kernel" else weight.kind
    if weight.kind == "table":
        return EMBEDDINGS[weight.side]
    if weight.unit == "logits":
        return f"decoder/projection/{kind}"
    if weight.layer is None:
        return f"{weight.side}/layer_norm/{kind}"
    part = _PARTS.get(weight.part, "linear_0")
    if weight.part == "output":
        part = "linear_2" if weight.unit == "cross_attention" else "linear_1"
    unit = _UNITS.get(weight.unit, weight.unit)
    return f"{weight.side}/layer_{weight.layer}/{unit}/{part}/{kind}"


def turned(weight: Weight, value: np.ndarray) -> np.ndarray:
    """Convert the value of a variable to the value of a weight, or vice versa."""
    return np.ascontiguousarray(value.T) if weight.kind == "kernel" else value
