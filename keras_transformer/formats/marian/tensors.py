"""The correspondence between the tensors of a Marian model and our weights.

Marian puts all sines of a position before its cosines; we alternate them. Nothing else in a model
depends on the order of the hidden dimensions, so the order is changed in every tensor that has
them.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple

import keras
import numpy as np

from keras_transformer.errors import refuse
from keras_transformer.formats.imported_models import ResidualScales
from keras_transformer.models import Transformer

SHARED = "model.shared.weight"
SOURCE = "model.encoder.embed_tokens.weight"
TARGET = "model.decoder.embed_tokens.weight"
HEAD = "lm_head.weight"
LOGITS_BIAS = "final_logits_bias"
_TOP = "model.{}.layer_norm"  # after a stack

_ROWS_AT_ONCE = 1024
_MARIAN_ATTENTION = {"self_attn": "self", "encoder_attn": "context"}
_MARIAN_UNITS = {**_MARIAN_ATTENTION, "rnn": "rnn"}
_MARIAN_DENSE = {"fc1": "1", "fc2": "2"}


class Entry(NamedTuple):
    """One of our weights and the tensors that it consists of, by Hugging Face's names.

    Args:
        variable: the weight.
        parts: names of the tensors, which are side by side in the weight.
        kind: "matrix", which PyTorch stores transposed; "table" of embeddings; "vector"; or "row",
            which PyTorch stores as (1, size).
        hidden_inputs, hidden_outputs: whether the first and the last axis are hidden dimensions.
    """

    variable: keras.Variable
    parts: tuple[str, ...]
    kind: Literal["matrix", "table", "vector", "row"]
    hidden_inputs: bool = False
    hidden_outputs: bool = False

    def shape(self) -> tuple[int, ...]:
        """Return the shape of each tensor."""
        *inputs, outputs = self.variable.shape
        outputs //= len(self.parts)
        return {
            "matrix": (outputs, *inputs),
            "table": (*inputs, outputs),
            "vector": (outputs,),
            "row": (1, outputs),
        }[self.kind]

    def ours(self, tensors: Sequence[np.ndarray]) -> np.ndarray:
        """Return the weight's value; a table is changed in place, because it is large."""
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
        """Return the tensors for the weight's value."""
        if self.hidden_inputs:
            value = value[np.argsort(hidden_order(value.shape[0]))]
        if self.hidden_outputs:
            value = value[..., np.argsort(hidden_order(value.shape[-1]))]
        parts = np.split(value, len(self.parts), axis=-1)
        if self.kind == "matrix":
            parts = [part.T for part in parts]
        return [np.ascontiguousarray(part.reshape(self.shape())) for part in parts]


def hidden_order(hidden_dim: int) -> np.ndarray:
    """Return the place of each of our hidden dimensions in Marian's vectors."""
    return np.arange(hidden_dim).reshape(2, -1).T.reshape(-1)


def entries(model: Transformer) -> list[Entry]:
    """Return all weights of a model with their tensors."""
    found = _embeddings(model)
    for number, layer in enumerate(model.encoder_layers):
        name = f"model.encoder.layers.{number}"
        found += _attention(layer.attention, f"{name}.self_attn", is_cross=False)
        found += _norm(layer.attention_block.norm, f"{name}.self_attn_layer_norm")
        found += _feed_forward(layer, name)
    for number, layer in enumerate(model.decoder_layers):
        name = f"model.decoder.layers.{number}"
        if layer.ssru is None:
            found += _attention(layer.self_attention, f"{name}.self_attn", is_cross=False)
            found += _norm(layer.self_attention_block.norm, f"{name}.self_attn_layer_norm")
        else:
            found += _ssru(layer.ssru, f"{name}.rnn")
            found += _norm(layer.self_attention_block.norm, f"{name}.rnn_layer_norm")
        found += _attention(layer.cross_attention, f"{name}.encoder_attn", is_cross=True)
        found += _norm(layer.cross_attention_block.norm, f"{name}.encoder_attn_layer_norm")
        found += _feed_forward(layer, name)
    for side, norm in (("encoder", model.encoder_norm), ("decoder", model.decoder_norm)):
        if norm is not None:
            found += _norm(norm, _TOP.format(side))
    return found


def written(model: Transformer, scales: ResidualScales) -> Iterator[tuple[str, np.ndarray]]:
    """Yield all tensors by name, for a program with plain residual connections."""
    for entry in entries(model):
        value = keras.ops.convert_to_numpy(keras.ops.cast(entry.variable, "float32"))
        value = scales.plain(entry.variable, value)
        yield from zip(entry.parts, entry.theirs(value), strict=True)


def copies(model: Transformer) -> dict[str, str | None]:
    """Return tensors besides `entries` that files may hold: the tensor each repeats, or None."""
    found: dict[str, str | None] = {
        "model.encoder.embed_positions.weight": None,  # the sinusoids
        "model.decoder.embed_positions.weight": None,
    }
    if model.source_embedding is model.target_embedding:
        found |= {SOURCE: SHARED, TARGET: SHARED}
    if model.target_embedding.tie_weights:
        found[HEAD] = SHARED if model.source_embedding is model.target_embedding else TARGET
    return found


def _embeddings(model: Transformer) -> list[Entry]:
    source, target = model.source_embedding, model.target_embedding
    tokens = target.token_embedding
    target_name = SHARED if source is target else TARGET
    found = [Entry(tokens.matrix, (target_name,), "table", hidden_outputs=True)]
    if source is not target:
        found.append(Entry(source.token_embedding.matrix, (SOURCE,), "table", hidden_outputs=True))
    if not target.tie_weights:
        found.append(Entry(tokens.reverse_matrix, (HEAD,), "matrix", hidden_inputs=True))
    if tokens.logits_bias is not None:
        found.append(Entry(tokens.logits_bias, (LOGITS_BIAS,), "row"))
    return found


def _attention(attention: Any, name: str, *, is_cross: bool) -> list[Entry]:
    inputs = {"query": "q", "key_value": "kv"} if is_cross else {"query_key_value": "qkv"}
    found = []
    for projection, letters in inputs.items():
        parts = tuple(f"{name}.{letter}_proj" for letter in letters)
        found += _dense(attention, projection, parts, hidden_inputs=True)
    return found + _dense(attention, "output", (f"{name}.out_proj",), hidden_outputs=True)


def _dense(attention: Any, projection: str, parts: tuple[str, ...], **hidden: bool) -> list[Entry]:
    dense = attention.projections[projection]
    found = [Entry(dense.kernel, tuple(f"{part}.weight" for part in parts), "matrix", **hidden)]
    if dense.bias is not None:
        is_hidden = hidden.get("hidden_outputs", False)
        names = tuple(f"{part}.bias" for part in parts)
        found.append(Entry(dense.bias, names, "vector", hidden_outputs=is_hidden))
    return found


def _ssru(ssru: Any, name: str) -> list[Entry]:
    """The weights of an SSRU, which Hugging Face's models lack: the names are ours."""
    hidden = {"hidden_inputs": True, "hidden_outputs": True}
    return [
        Entry(ssru.candidate.kernel, (f"{name}._proj.weight",), "matrix", **hidden),
        Entry(ssru.gate.kernel, (f"{name}.f_proj.weight",), "matrix", **hidden),
        Entry(ssru.gate.bias, (f"{name}.f_proj.bias",), "vector", hidden_outputs=True),
    ]


def _feed_forward(layer: Any, name: str) -> list[Entry]:
    expand, contract = layer.feed_forward.expand, layer.feed_forward.contract
    return [
        Entry(expand.kernel, (f"{name}.fc1.weight",), "matrix", hidden_inputs=True),
        Entry(expand.bias, (f"{name}.fc1.bias",), "vector"),
        Entry(contract.kernel, (f"{name}.fc2.weight",), "matrix", hidden_outputs=True),
        Entry(contract.bias, (f"{name}.fc2.bias",), "vector", hidden_outputs=True),
        *_norm(layer.feed_forward_block.norm, f"{name}.final_layer_norm"),
    ]


def _norm(norm: Any, name: str) -> list[Entry]:
    return [
        Entry(norm.gamma, (f"{name}.weight",), "vector", hidden_outputs=True),
        Entry(norm.beta, (f"{name}.bias",), "vector", hidden_outputs=True),
    ]


def native_name(
    name: str, *, tied_all: bool, pre_norm: bool = False, tied_layers: Sequence[int] = ()
) -> str:
    """Return Marian's own name for the tensor with this Hugging Face name.

    Args:
        name: the name.
        tied_all: whether source and target have one table of embeddings.
        pre_norm: whether layers normalize their inputs.
        tied_layers: as in `Architecture`.

    Example:
        >>> native_name("model.decoder.layers.0.encoder_attn.q_proj.weight", tied_all=True)
        'decoder_l1_context_Wq'
        >>> native_name("model.encoder.layers.1.final_layer_norm.bias", tied_all=True)
        'encoder_l2_ffn_ffn_ln_bias'
        >>> native_name("model.decoder.layers.1.rnn.f_proj.weight", tied_all=True)
        'decoder_l2_rnn_Wf'
        >>> native_name("model.encoder.layer_norm.weight", tied_all=True)
        'encoder_top_ln_scale'
    """
    fixed = {
        SHARED: "Wemb" if tied_all else "encoder_Wemb",
        SOURCE: "encoder_Wemb",
        TARGET: "decoder_Wemb",
        HEAD: "decoder_ff_logit_out_W",
        LOGITS_BIAS: "decoder_ff_logit_out_b",
    }
    for side in ("encoder", "decoder"):
        top = _TOP.format(side)
        fixed |= {f"{top}.weight": f"{side}_top_ln_scale", f"{top}.bias": f"{side}_top_ln_bias"}
    if name in fixed:
        return fixed[name]
    match = re.fullmatch(r"model\.(encoder|decoder)\.layers\.(\d+)\.(\w+)\.(?:(\w+)\.)?(\w+)", name)
    if match is None:
        refuse("name", "be that of a tensor of Marian", name)
    side, digits, block, projection, kind = match.groups()
    number = int(digits) + 1
    if side == "decoder" and tied_layers:
        number = tied_layers[number - 1]
    layer = f"{side}_l{number}"
    letter = {"weight": "W", "bias": "b"}[kind]
    if block in _MARIAN_DENSE:
        return f"{layer}_ffn_{letter}{_MARIAN_DENSE[block]}"
    if block.endswith("layer_norm"):
        ending = "scale" if kind == "weight" else "bias"
        rnn = "rnn" if pre_norm else "rnn_ffn"
        place = {"final_layer_norm": "ffn_ffn", "rnn_layer_norm": rnn} | {
            f"{theirs}_layer_norm": f"{ours}_Wo" for theirs, ours in _MARIAN_ATTENTION.items()
        }
        return f"{layer}_{place[block]}_ln_{ending}" + ("_pre" if pre_norm else "")
    input_letter = projection.removesuffix("_proj")[:1]  # none of an SSRU's candidate
    return f"{layer}_{_MARIAN_UNITS[block]}_{letter}{input_letter}"
