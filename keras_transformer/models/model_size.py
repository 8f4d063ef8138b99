"""How many weights a model of given sizes has, and whether they fit: told before it is built."""

import os

import keras

from keras_transformer.errors import UserInputError
from keras_transformer.layers.positional_embedding import NUM_PLACES

# A layer takes some tenths of a second to build, however small it is.
MAX_LAYERS = 1000
_BYTES = {"float64": 8, "float32": 4}  # of a weight; of other types 2


def count_weights(sizes, vocabulary_size):
    """Number of weights of the model that `build_transformer` makes, by arithmetic alone.

    Args:
        sizes: record of the fields of a `Preset` that shape the model and of the overrides of
            `build_transformer`; `key_dim` and `value_dim` are numbers.
        vocabulary_size: number of tokens.

    Returns:
        An integer.
    """
    hidden_dim, heads_dim = sizes.hidden_dim, sizes.num_heads * (sizes.key_dim + sizes.value_dim)
    attention = 2 * hidden_dim * heads_dim
    if sizes.use_bias:
        attention += sizes.num_heads * (2 * sizes.key_dim + sizes.value_dim) + hidden_dim
    feed_forward = 2 * hidden_dim * sizes.intermediate_dim + sizes.intermediate_dim + hidden_dim
    norm = 2 * hidden_dim
    encoder_layer = attention + feed_forward + 2 * norm
    decoder_layer = 2 * attention + feed_forward + 3 * norm
    return (
        sizes.num_encoder_layers * encoder_layer
        + sizes.num_decoder_layers * decoder_layer
        + (2 * norm if sizes.normalize_first else 0)
        + _embeddings(sizes, vocabulary_size)
    )


def check_fits(sizes, vocabulary_size, copies=1):
    """Refuse a model whose weights are more than the memory of this machine.

    Args:
        sizes, vocabulary_size: as of `count_weights`.
        copies: how often the weights are in memory: 4 times in a training with Adam.

    Raises:
        UserInputError: the memory does not suffice, or a stack has more than `MAX_LAYERS`.
    """
    layers = max(sizes.num_encoder_layers, sizes.num_decoder_layers)
    if layers > MAX_LAYERS:
        raise UserInputError(
            f"A model must have at most {MAX_LAYERS:,} layers in a stack. Received: {layers:,}"
        )
    count = count_weights(sizes, vocabulary_size)
    variable_dtype = keras.dtype_policies.get(sizes.dtype).variable_dtype
    needed = copies * count * _BYTES.get(variable_dtype, 2)
    if needed > machine_memory():
        times = f", {copies} times in a training," if copies > 1 else ""
        raise UserInputError(
            f"The model is too large: its {count:,} weights{times} take {needed / 1e9:,.1f} GB, "
            f"and this machine has {machine_memory() / 1e9:,.1f} GB of memory. Take a smaller "
            "vocabulary, fewer layers or narrower ones"
        )


def machine_memory():
    """Bytes of memory that this machine has."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _embeddings(sizes, vocabulary_size):
    shared = sizes.source_vocabulary_size is None
    rows = vocabulary_size + (0 if shared else sizes.source_vocabulary_size)
    if sizes.positions == "learned":
        rows += 2 * sizes.max_length
    elif sizes.positions == "words":
        rows += 2 * NUM_PLACES
    return rows * sizes.hidden_dim
