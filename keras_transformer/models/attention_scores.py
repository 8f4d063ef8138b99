"""The attention weights of every layer, from the forward pass that gives the logits."""

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import keras

from keras_transformer.models.causal_stack import CausalStack
from keras_transformer.models.decoder_stack import DecoderStack
from keras_transformer.models.ensemble import stacks_of
from keras_transformer.types import Tensor


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


class AttentionScores(NamedTuple):
    """Attention weights before dropout, a float32 tensor for each layer.

    Args:
        encoder: tensors (batch, num_heads, source_length, source_length), of the encoder's
            self-attention; empty for a language model.
        decoder: (batch, num_heads, target_length, target_length), of the decoder's.
        cross: (batch, num_heads, target_length, source_length), of the attention to the encoder's
            output; empty for a language model.
    """

    encoder: list[Tensor]
    decoder: list[Tensor]
    cross: list[Tensor]


def attention_scores(
    model: keras.Model, source_ids: Tensor | None, target_ids: Tensor
) -> AttentionScores:
    """The attention weights of a batch.

    Args:
        model: a model from `build_transformer` or `build_language_model`, or a reloaded one.
        source_ids: integer tensor (batch, source_length), padded; None for a language model.
        target_ids: integer tensor (batch, target_length), starting with BOS.

    Returns:
        The `AttentionScores`.

    Raises:
        ValueError: the model is of another kind, or lacks its source.
    """
    stacks = stacks_of(model)
    if isinstance(stacks, CausalStack):
        decoder = _recorded(stacks.decoder_layers)
        DecoderStack(stacks.embedding, decoder, stacks.decoder_norm).decode(target_ids)
        return AttentionScores([], [layer.scores[0] for layer in decoder], [])
    if source_ids is None:
        raise ValueError(
            "`source_ids` must be given for a model with an encoder. Received: source_ids=None"
        )
    encoder, decoder = _recorded(stacks.encoder_layers), _recorded(stacks.decoder_layers)
    recording = dataclasses.replace(stacks, encoder_layers=encoder, decoder_layers=decoder)
    recording.logits(source_ids, target_ids)
    return AttentionScores(
        [layer.scores[0] for layer in encoder],
        [layer.scores[0] for layer in decoder],
        [layer.scores[1] for layer in decoder],
    )


def _recorded(layers: Sequence[keras.layers.Layer]) -> Any:
    return [RecordedLayer(layer) for layer in layers]
