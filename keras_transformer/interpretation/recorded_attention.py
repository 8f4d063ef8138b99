"""The forward pass of a model that keeps what its layers attend to."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_transformer.inference.graph_compilation import pad_ids
from keras_transformer.models import CausalStack, TransformerStacks, layer_names
from keras_transformer.models.decoder_stack import DecoderStack
from keras_transformer.types import Tensor

_NOTHING = np.zeros((0, 0, 0, 0), "float32")


class RecordedLayer:
    """Calls a layer as it is called, and keeps its attention weights.

    Args:
        layer: a `TransformerEncoderLayer` or a `TransformerDecoderLayer`.

    `scores` is the list of what the last call's `return_attention_scores` gave: tensors
    (batch, num_heads, target_length, source_length).
    """

    def __init__(self, layer: keras.layers.Layer) -> None:
        self.layer = layer
        self.scores: list[Tensor] = []

    def __call__(self, *inputs: Any, **options: Any) -> Tensor:
        outputs, *self.scores = self.layer(*inputs, return_attention_scores=True, **options)
        return outputs


def recorded_attention(
    model: keras.Model,
    source_ids: Sequence[int] | None,
    target_ids: Sequence[int],
    *,
    padding_id: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The attention weights of one pair, from the pass that gives the model's logits.

    Args:
        model: a model from `build_transformer` or `build_language_model`, or a reloaded one.
        source_ids: ids of the source, S of them; None for a language model.
        target_ids: ids that the decoder reads, T of them, starting with BOS.
        padding_id: id that may fill up both.

    Returns:
        float32 arrays of the encoder (layers, heads, S, S), of the decoder (layers, heads, T, T)
        and of the attention to the encoder's output (layers, heads, T, S). Those that the model
        lacks are (0, 0, 0, 0).
    """
    if layer_names.SOURCE_MASK not in {layer.name for layer in model.layers}:
        stack = CausalStack.of(model)
        decoder = _recorded(stack.decoder_layers)
        padded = pad_ids([target_ids], padding_id, stack.max_length)
        DecoderStack(stack.embedding, decoder, stack.decoder_norm).decode(
            ops.convert_to_tensor(padded)
        )
        return _NOTHING, _weights(decoder, 0, target_ids, target_ids), _NOTHING
    if source_ids is None:
        raise ValueError("`source_ids` must be given for a model with an encoder")
    stacks = TransformerStacks.of(model)
    encoder, decoder = _recorded(stacks.encoder_layers), _recorded(stacks.decoder_layers)
    recording = dataclasses.replace(stacks, encoder_layers=encoder, decoder_layers=decoder)
    recording.logits(
        *(
            ops.convert_to_tensor(pad_ids([ids], padding_id, stacks.max_length))
            for ids in (source_ids, target_ids)
        )
    )
    return (
        _weights(encoder, 0, source_ids, source_ids),
        _weights(decoder, 0, target_ids, target_ids),
        _weights(decoder, 1, target_ids, source_ids),
    )


def _recorded(layers: Sequence[keras.layers.Layer]) -> Any:
    return [RecordedLayer(layer) for layer in layers]


def _weights(
    layers: Sequence[RecordedLayer], number: int, rows: Sequence[int], columns: Sequence[int]
) -> np.ndarray:
    """One attention of every layer, without padding: (layers, heads, rows, columns)."""
    found = np.stack([ops.convert_to_numpy(layer.scores[number])[0] for layer in layers])
    return np.ascontiguousarray(found[:, :, : len(rows), : len(columns)], dtype="float32")
