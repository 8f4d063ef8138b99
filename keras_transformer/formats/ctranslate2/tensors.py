"""The correspondence between the variables of a CTranslate2 model and our weights."""

from typing import Any, NamedTuple

import keras
import numpy as np

from keras_transformer.models import Transformer

EMBEDDINGS = {"encoder": "encoder/embeddings_0/weight", "decoder": "decoder/embeddings/weight"}
PROJECTION = "decoder/projection/weight"


class Entry(NamedTuple):
    """One of our weights and the variable with its values.

    Args:
        variable: the weight.
        name: the variable's name.
        is_matrix: whether it is stored as (outputs, inputs).
        has_vocabulary: whether the variable's first axis is the vocabulary of its side.
    """

    variable: keras.Variable
    name: str
    is_matrix: bool = False
    has_vocabulary: bool = False

    def shape(self) -> tuple[int, ...]:
        """Return the shape of the variable."""
        return tuple(self.variable.shape[::-1] if self.is_matrix else self.variable.shape)

    def turned(self, value: np.ndarray) -> np.ndarray:
        """Return the weight for the variable's value, or the variable for the weight's."""
        return np.ascontiguousarray(value.T) if self.is_matrix else value


def entries(model: Transformer) -> list[Entry]:
    """Return all weights of a model but learned positions; biases may lack a variable."""
    found = _embeddings(model)
    for number, layer in enumerate(model.encoder_layers):
        name = f"encoder/layer_{number}"
        found += _attention(layer, "attention", f"{name}/self_attention")
        found += _feed_forward(layer, f"{name}/ffn")
    for number, layer in enumerate(model.decoder_layers):
        name = f"decoder/layer_{number}"
        found += _attention(layer, "self_attention", f"{name}/self_attention")
        found += _attention(layer, "cross_attention", f"{name}/attention")
        found += _feed_forward(layer, f"{name}/ffn")
    for side, norm in (("encoder", model.encoder_norm), ("decoder", model.decoder_norm)):
        if norm is not None:
            found += _norm(norm, side)
    return found


def _embeddings(model: Transformer) -> list[Entry]:
    source, target = model.source_embedding, model.target_embedding
    tokens = target.token_embedding
    found = [Entry(tokens.matrix, EMBEDDINGS["decoder"], has_vocabulary=True)]
    if source is not target:
        matrix = source.token_embedding.matrix
        found.append(Entry(matrix, EMBEDDINGS["encoder"], has_vocabulary=True))
    if not target.tie_weights:
        found.append(Entry(tokens.reverse_matrix, PROJECTION, is_matrix=True, has_vocabulary=True))
    if tokens.logits_bias is not None:
        bias = Entry(tokens.logits_bias, "decoder/projection/bias", has_vocabulary=True)
        found.append(bias)
    return found


def _attention(layer: Any, part: str, name: str) -> list[Entry]:
    is_cross = part == "cross_attention"
    inputs = ("query", "key_value") if is_cross else ("query_key_value",)
    found = []
    for number, projection in enumerate((*inputs, "output")):
        found += _dense(getattr(layer, part).projections[projection], f"{name}/linear_{number}")
    return found + _norm(getattr(layer, f"{part}_block").norm, name)


def _feed_forward(layer: Any, name: str) -> list[Entry]:
    return [
        *_dense(layer.feed_forward.expand, f"{name}/linear_0"),
        *_dense(layer.feed_forward.contract, f"{name}/linear_1"),
        *_norm(layer.feed_forward_block.norm, name),
    ]


def _dense(dense: Any, name: str) -> list[Entry]:
    found = [Entry(dense.kernel, f"{name}/weight", is_matrix=True)]
    return found if dense.bias is None else [*found, Entry(dense.bias, f"{name}/bias")]


def _norm(norm: Any, name: str) -> list[Entry]:
    return [
        Entry(norm.gamma, f"{name}/layer_norm/gamma"),
        Entry(norm.beta, f"{name}/layer_norm/beta"),
    ]
