"""A language model: a causal Transformer without encoder, as a functional Keras model."""

from collections.abc import Callable, Sequence
from typing import Any

import keras

from keras_transformer.layers import TransformerDecoderLayer
from keras_transformer.layers.residual_block import LAYER_NORM_EPSILON
from keras_transformer.models import layer_names
from keras_transformer.models.causal_stack import CausalStack
from keras_transformer.models.generation.generative_model import GenerativeModel
from keras_transformer.models.layer_creation import (
    create_embedding,
    create_final_norm,
    create_stack,
)
from keras_transformer.models.model_options import ModelOptions
from keras_transformer.models.model_size import check_fits, count_causal_weights
from keras_transformer.models.residual_connections import residual_options


def build_language_model(
    preset: str = "base",
    *,
    vocabulary_size: int,
    num_decoder_layers: int | None = None,
    hidden_dim: int | None = None,
    intermediate_dim: int | None = None,
    num_heads: int | None = None,
    key_dim: int | None = None,
    value_dim: int | None = None,
    dropout: float | None = None,
    positions: str | None = None,
    attention_dropout: float = 0.0,
    activation_dropout: float = 0.0,
    word_dropout: float = 0.0,
    activation: str | Callable[..., Any] | None = "relu",
    layer_norm_epsilon: float = LAYER_NORM_EPSILON,
    kernel_initializer: Any = "glorot_uniform",
    bias_initializer: Any = "zeros",
    normalize_first: bool = False,
    residual_connection: str = "plain",
    final_norm: bool | None = None,
    use_bias: bool = False,
    attention_window: int | None = None,
    tie_weights: bool = True,
    use_logits_bias: bool = False,
    max_length: int = 1024,
    word_starts: Sequence[int] | None = None,
    mask_id: int | None = None,
    dtype: Any = None,
    name: str = "language_model",
) -> GenerativeModel:
    """Build a causal language model as a functional Keras model.

    It is the decoder of a Transformer alone: a stack of `TransformerDecoderLayer` without memory.
    Its `generate` continues prompts, and so does `SequenceGenerator`.

    Args:
        vocabulary_size: number of tokens.
        num_decoder_layers: number of layers; None: the preset's number of decoder layers.
        word_starts: with `positions="words"`, the ids that a word begins with (see
            `PositionalEmbedding`).
        mask_id: id of padding, such as 0: the logits then carry a Keras mask, so that Keras's own
            losses and metrics pass over it; this package's go by their `padding_id`. It must not
            be the id of BOS, which would be hidden: a first position that sees nothing attends to
            all alike, and to what it is to predict. None: no mask; padding at the end of a row
            changes no logits of the tokens before it.
        preset, hidden_dim, intermediate_dim, num_heads, key_dim, value_dim, dropout, positions,
            attention_dropout, activation_dropout, word_dropout, activation, layer_norm_epsilon,
            kernel_initializer, bias_initializer, normalize_first, residual_connection, final_norm,
            use_bias, attention_window, tie_weights, use_logits_bias, max_length, dtype, name: as of
            `build_transformer`.

    Returns:
        A `GenerativeModel`: a functional `keras.Model` from `{"token_ids": (batch, length)}`,
        int32, to float32 logits (batch, length, vocabulary_size); those at position i are for token
        i + 1.

    Raises:
        ValueError: an unknown preset, or a value that breaks its rule.
        UserInputError: the weights are more than the memory of this machine.

    Example:
        >>> import numpy as np
        >>> model = build_language_model("tiny", vocabulary_size=100)
        >>> tuple(model({"token_ids": np.array([[1, 7, 8]])}).shape)
        (1, 3, 100)

    Reference: Radford et al., "Improving Language Understanding by Generative Pre-Training", 2018.
    """
    arguments = dict(locals())  # every argument by its name
    of_the_embedding = {key: arguments.pop(key) for key in ("word_starts", "mask_id")}
    options = ModelOptions.of(**arguments)
    check_fits(options, count_causal_weights(options))
    _, residual = residual_options(options.residual_connection, 0, options.num_decoder_layers)

    # Layers
    layers = CausalStack(
        embedding=create_embedding(
            options,
            vocabulary_size,
            layer_names.SHARED_EMBEDDING,
            tie_weights=tie_weights,
            use_logits_bias=use_logits_bias,
            **of_the_embedding,
        ),
        decoder_layers=create_stack(
            options,
            TransformerDecoderLayer,
            layer_names.DECODER_LAYER,
            options.num_decoder_layers,
            residual,
        ),
        decoder_norm=create_final_norm(options, layer_names.DECODER_NORM),
    )

    # Graph
    token_ids = keras.Input((None,), dtype="int32", name="token_ids")
    logits = layers.decode(token_ids)
    return GenerativeModel(inputs={"token_ids": token_ids}, outputs=logits, name=name)
