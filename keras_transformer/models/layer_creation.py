"""The layers of a model, by its options."""

from typing import Any

import keras

from keras_transformer.layers import PositionalEmbedding
from keras_transformer.layers.positions import PositionsInAttention, positions_class
from keras_transformer.models.model_options import ModelOptions

_LAYER_OPTIONS = (
    "intermediate_dim",
    "num_heads",
    "key_dim",
    "value_dim",
    "dropout",
    "attention_dropout",
    "activation_dropout",
    "activation",
    "layer_norm_epsilon",
    "kernel_initializer",
    "bias_initializer",
    "normalize_first",
    "use_bias",
    "attention_window",
    "dtype",
)
_EMBEDDING_OPTIONS = ("hidden_dim", "positions", "max_length", "dropout", "word_dropout", "dtype")


def create_stack(
    options: ModelOptions,
    layer_class: type[keras.layers.Layer],
    pattern: str,
    number: int,
    residual: dict[str, Any],
) -> list[Any]:
    """So many encoder or decoder layers, named by a pattern with a place for 1, 2, ...

    `residual` is the stack's part of `residual_options`.
    """
    in_attention = issubclass(positions_class(options.positions), PositionsInAttention)
    positions = options.positions if in_attention else None
    shared = {**_select(options, _LAYER_OPTIONS), "positions": positions, **residual}
    return [
        layer_class(**shared, name=pattern.format(position)) for position in range(1, number + 1)
    ]


def create_embedding(
    options: ModelOptions, vocabulary_size: int, name: str, **arguments: Any
) -> PositionalEmbedding:
    """A `PositionalEmbedding`; `arguments` are those that differ from side to side."""
    shared = _select(options, _EMBEDDING_OPTIONS)
    return PositionalEmbedding(vocabulary_size, **shared, **arguments, name=name)


def create_final_norm(options: ModelOptions, name: str) -> Any:
    """The norm behind a stack, or None where the options have none."""
    if not options.final_norm:
        return None
    return keras.layers.LayerNormalization(
        epsilon=options.layer_norm_epsilon, dtype=options.dtype, name=name
    )


def _select(options: ModelOptions, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: getattr(options, name) for name in names}
