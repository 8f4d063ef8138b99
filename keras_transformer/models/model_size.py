"""How many weights a model of given sizes has, and whether they fit: told before it is built."""

import os

import keras

from keras_transformer.errors import UserInputError
from keras_transformer.layers.positions import positions_class
from keras_transformer.models.model_options import ModelOptions

# A layer takes some tenths of a second to build, however small it is.
MAX_LAYERS = 1000
_BYTES = {"float64": 8, "float32": 4}  # of a weight; of other types 2


def count_weights(options: ModelOptions) -> int:
    """Number of weights of the model with these options, by arithmetic alone."""
    attention, norm, layer = _parts(options)
    tables = [(options.vocabulary_size, 1 if options.is_causal else 2)]
    if options.source_vocabulary_size is not None:
        tables = [(options.source_vocabulary_size, 1), (options.vocabulary_size, 1)]
    cross_attention = 0 if options.is_causal else attention + norm
    num_norms = (1 if options.is_causal else 2) if options.final_norm else 0
    return (
        options.num_encoder_layers * layer
        + options.num_decoder_layers * (layer + cross_attention)
        + num_norms * norm
        + _embeddings(options, tables)
    )


def check_fits(options: ModelOptions, copies: int = 1) -> None:
    """Refuse a model whose weights are more than the memory of this machine.

    Args:
        options: the model's.
        copies: how often the weights are in memory: 4 times in a training with Adam.

    Raises:
        UserInputError: the memory does not suffice, or a stack has more than `MAX_LAYERS`.
    """
    layers = max(options.num_encoder_layers, options.num_decoder_layers)
    if layers > MAX_LAYERS:
        raise UserInputError(
            f"A model must have at most {MAX_LAYERS:,} layers in a stack. Received: {layers:,}"
        )
    num_weights = count_weights(options)
    variable_dtype = keras.dtype_policies.get(options.dtype).variable_dtype
    needed = copies * num_weights * _BYTES.get(variable_dtype, 2)
    if needed > machine_memory():
        times = f", {copies} times in a training," if copies > 1 else ""
        raise UserInputError(
            f"The model is too large: its {num_weights:,} weights{times} take "
            f"{needed / 1e9:,.1f} GB, and this machine has {machine_memory() / 1e9:,.1f} GB of "
            "memory. Take a smaller vocabulary, fewer layers or narrower ones"
        )


def machine_memory() -> int:
    """Bytes of memory that this machine has."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _parts(options: ModelOptions) -> tuple[int, int, int]:
    """Number of weights of an attention, of a norm, and of a layer without cross-attention."""
    key_dim, value_dim = options.key_dim or 0, options.value_dim or 0
    hidden_dim, inner_dim = options.hidden_dim, options.intermediate_dim
    attention = 2 * hidden_dim * options.num_heads * (key_dim + value_dim)
    if options.use_bias:
        attention += options.num_heads * (2 * key_dim + value_dim) + hidden_dim
    feed_forward = 2 * hidden_dim * inner_dim + inner_dim + hidden_dim
    norm = 2 * hidden_dim
    return attention, norm, attention + feed_forward + 2 * norm


def _embeddings(options: ModelOptions, tables: list[tuple[int, int]]) -> int:
    """Number of weights of embeddings with these numbers of tokens and of tables of positions."""
    kind = positions_class(options.positions)
    total = sum(
        size * options.hidden_dim
        + kind.count_weights(options.hidden_dim, options.max_length, num_tables)
        for size, num_tables in tables
    )
    head = 0 if options.tie_weights else options.vocabulary_size * options.hidden_dim
    return total + head + (options.vocabulary_size if options.use_logits_bias else 0)
