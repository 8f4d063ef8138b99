"""Mapping between the tensors of a Marian model and our weights.

In position encodings, Marian places all sines before the cosines, whereas we alternate them.
Nothing else in a model depends on the order of the hidden dimensions, so every tensor with hidden
dimensions is reordered.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from keras_transformer.formats.imported_models import Weight, weights_of
from keras_transformer.models import Transformer

SHARED = "model.shared.weight"
SOURCE = "model.encoder.embed_tokens.weight"
TARGET = "model.decoder.embed_tokens.weight"
HEAD = "lm_head.weight"
LOGITS_BIAS = "final_logits_bias"
WEMB = "Wemb"  # shared table in Marian's own files
HEAD_WT = "decoder_ff_logit_out_Wt"
_LOGITS_BIAS = (LOGITS_BIAS, "decoder_ff_logit_out_b")

_ROWS_AT_ONCE = 1024
# Hugging Face and Marian names of a layer's units, and the Marian name of the norm.
_SELF = ("self_attn", "self", "self_Wo")
_UNITS = {
    "attention": _SELF,
    "self_attention": _SELF,
    "cross_attention": ("encoder_attn", "context", "context_Wo"),
    # Hugging Face models do not support SSRUs, so these names are our own.
    "ssru": ("rnn", "rnn", "rnn_ffn"),
    "feed_forward": ("final", "ffn", "ffn_ffn"),
}
# The letters of the tensors that are concatenated in a weight.
_LETTERS = {
    "query_key_value": "qkv",
    "query": "q",
    "key_value": "kv",
    "output": "o",
    "candidate": ("",),
    "gate": "f",
    "expand": "1",
    "contract": "2",
}
_KINDS = {  # Hugging Face and Marian names
    "kernel": ("weight", "W"),
    "bias": ("bias", "b"),
    "gamma": ("weight", "scale"),
    "beta": ("bias", "bias"),
}
_WITH_BIAS = ("query_key_value", "query", "key_value", "output")  # in those models
_HIDDEN_OUTPUTS = ("embeddings", "norm", "output", "contract", "candidate", "gate")


class Entry(NamedTuple):
    """One of our weights and the tensors that it concatenates.

    Args:
        weight: our weight.
        kind: "matrix", which PyTorch stores transposed; "table", for embeddings; "vector"; or
            "row", which PyTorch stores as (1, size).
        names: Hugging Face and Marian names of each tensor.
    """

    weight: Weight
    kind: Literal["matrix", "table", "vector", "row"]
    names: list[tuple[str, str]]

    @property
    def hidden_inputs(self) -> bool:
        """Whether the first axis consists of hidden dimensions."""
        return self.kind == "matrix" and self.weight.part not in ("output", "contract")

    @property
    def hidden_outputs(self) -> bool:
        """Whether the last axis consists of hidden dimensions."""
        return self.weight.part in _HIDDEN_OUTPUTS

    def shape(self) -> tuple[int, ...]:
        """Return the shape of each tensor."""
        *inputs, outputs = self.weight.variable.shape
        outputs //= len(self.names)
        return {
            "matrix": (outputs, *inputs),
            "table": (*inputs, outputs),
            "vector": (outputs,),
            "row": (1, outputs),
        }[self.kind]

    def ours(self, tensors: Sequence[np.ndarray]) -> np.ndarray:
        """Combine tensors into the weight's value. Tables are modified in place to save memory."""
        if self.kind == "table":
            (table,) = tensors
            order = hidden_order(table.shape[1])
            for start in range(0, len(table), _ROWS_AT_ONCE):
                rows = table[start : start + _ROWS_AT_ONCE]
                rows[:] = rows[:, order]
            return table
        if self.kind == "matrix":
            value = np.concatenate([tensor.T for tensor in tensors], axis=1)
        else:
            value = np.concatenate([tensor.reshape(-1) for tensor in tensors])
        if self.hidden_inputs:
            value = value[hidden_order(value.shape[0])]
        return value[..., hidden_order(value.shape[-1])] if self.hidden_outputs else value

    def theirs(self, value: np.ndarray) -> list[np.ndarray]:
        """Split the weight's value into tensors."""
        if self.hidden_inputs:
            value = value[np.argsort(hidden_order(value.shape[0]))]
        if self.hidden_outputs:
            value = value[..., np.argsort(hidden_order(value.shape[-1]))]
        parts = np.split(value, len(self.names), axis=-1)
        if self.kind == "matrix":
            parts = [part.T for part in parts]
        return [np.ascontiguousarray(part.reshape(self.shape())) for part in parts]


def hidden_order(hidden_dim: int) -> np.ndarray:
    """Return the index of each of our hidden dimensions in Marian's vectors."""
    return np.arange(hidden_dim).reshape(2, -1).T.reshape(-1)


def entries(model: Transformer, tied_layers: Sequence[int] = ()) -> list[Entry]:
    """Return all weights of a model with their tensors. For `tied_layers`, see `Architecture`."""
    is_shared = model.source_embedding is model.target_embedding
    found = []
    for weight in weights_of(model):
        kind: Any = {"kernel": "matrix", "table": "table"}.get(weight.kind, "vector")
        if weight.unit == "logits":
            is_bias = weight.kind == "bias"
            names = [_LOGITS_BIAS if is_bias else (HEAD, HEAD_WT)]
            kind = "row" if is_bias else kind
        elif weight.unit == "embeddings":
            name = SOURCE if weight.side == "encoder" else TARGET
            names = [(SHARED, WEMB) if is_shared else (name, f"{weight.side}_Wemb")]
        else:
            names = _names(weight, model.options.normalize_first, tied_layers)
        found.append(Entry(weight, kind, names))
    return found


def _names(weight: Weight, pre_norm: bool, tied_layers: Sequence[int]) -> list[tuple[str, str]]:
    """Return the names of a weight's tensors, in a layer or after all layers."""
    side, (ending, kind) = weight.side, _KINDS[weight.kind]
    if weight.layer is None:
        return [(f"model.{side}.layer_norm.{ending}", f"{side}_top_ln_{kind}")]
    number = weight.layer + 1
    if side == "decoder" and tied_layers:
        number = tied_layers[weight.layer]
    layer, own = f"model.{side}.layers.{weight.layer}", f"{side}_l{number}"
    unit, own_unit, own_norm = _UNITS[weight.unit]
    if weight.part == "norm":
        if pre_norm:
            kind, own_norm = f"{kind}_pre", own_norm.replace("rnn_ffn", "rnn")
        return [(f"{layer}.{unit}_layer_norm.{ending}", f"{own}_{own_norm}_ln_{kind}")]
    found = []
    for letter in _LETTERS[weight.part]:
        name = f"{unit}.{'out' if letter == 'o' else letter}_proj"
        name = f"fc{letter}" if weight.unit == "feed_forward" else name
        found.append((f"{layer}.{name}.{ending}", f"{own}_{own_unit}_{kind}{letter}"))
    return found


def written(model: Transformer) -> Iterator[tuple[tuple[str, str], np.ndarray]]:
    """Yield all tensors and their names, converted for plain residual connections.

    Missing biases are zeros.
    """
    for entry in entries(model):
        tensors = entry.theirs(entry.weight.plain())
        yield from zip(entry.names, tensors, strict=True)
        if entry.weight.part in _WITH_BIAS and not model.options.use_bias:
            for (name, own), tensor in zip(entry.names, tensors, strict=True):
                names = name.replace(".weight", ".bias"), own.replace("_W", "_b")
                yield names, np.zeros(len(tensor), "float32")
    if not model.options.use_logits_bias:
        yield _LOGITS_BIAS, np.zeros((1, model.vocabulary_size), "float32")


def copies(model: Transformer) -> dict[str, str | None]:
    """Map optional tensors in files to the tensors that they duplicate, or to None."""
    found: dict[str, str | None] = {
        "model.encoder.embed_positions.weight": None,  # the sinusoids
        "model.decoder.embed_positions.weight": None,
    }
    if model.source_embedding is model.target_embedding:
        found |= {SOURCE: SHARED, TARGET: SHARED}
    if model.target_embedding.tie_weights:
        found[HEAD] = SHARED if model.source_embedding is model.target_embedding else TARGET
    return found
