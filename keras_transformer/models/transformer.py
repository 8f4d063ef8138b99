"""The Transformer as a functional Keras model."""

from collections.abc import Callable, Sequence
from typing import Any

import keras

from keras_transformer.layers import (
    PaddingMask,
    PositionalEmbedding,
    TransformerDecoderLayer,
    TransformerEncoderLayer,
)
from keras_transformer.layers.positions import positions_class
from keras_transformer.layers.residual_block import LAYER_NORM_EPSILON
from keras_transformer.models import layer_names
from keras_transformer.models.generation.generative_model import GenerativeModel
from keras_transformer.models.layer_creation import (
    create_embedding,
    create_final_norm,
    create_stack,
)
from keras_transformer.models.model_options import ModelOptions
from keras_transformer.models.model_size import check_fits, count_weights
from keras_transformer.models.residual_connections import residual_options
from keras_transformer.models.transformer_stacks import TransformerStacks


def build_transformer(
    preset: str = "base",
    *,
    vocabulary_size: int,
    num_encoder_layers: int | None = None,
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
    source_vocabulary_size: int | None = None,
    source_word_starts: Sequence[int] | None = None,
    target_word_starts: Sequence[int] | None = None,
    padding_id: int = 0,
    dtype: Any = None,
    name: str = "transformer",
) -> GenerativeModel:
    """Build a Transformer as a functional Keras model.

    Args:
        preset: name of a size: "tiny", "small", "base", "big" or a row of the paper's Table 3,
            such as "C-N2"; `keras_transformer.models.PRESETS` has them all. It decides every
            option below whose default is None, unless that says otherwise.
        vocabulary_size: number of tokens, shared by source, target and output.
        num_encoder_layers: number of encoder layers.
        num_decoder_layers: number of decoder layers.
        hidden_dim: size of the vectors between layers (the paper's d_model).
        intermediate_dim: inner size of the feed-forward networks (d_ff).
        num_heads: number of attention heads (h).
        key_dim: size of a head's queries and keys (d_k); `hidden_dim / num_heads` if the preset has
            none either.
        value_dim: size of a head's values (d_v); `key_dim` if the preset has none either.
            Rows B of the paper's Table 3 have 64.
        dropout: rate of dropout on sub-layer outputs and on embeddings.
        positions: kind of the positions, as of `PositionalEmbedding`.
        attention_dropout: rate of dropout on the attention weights.
        activation_dropout: rate of dropout behind the activation.
        word_dropout: rate at which a token loses its whole embedding in training.
        activation: activation of the feed-forward networks: a function, the name of one in
            `keras.activations`, or None for none.
        layer_norm_epsilon: epsilon of every layer normalization.
        kernel_initializer: initializer of the kernels of attention and feed-forward networks.
        bias_initializer: initializer of their biases.
        normalize_first: whether layers normalize their inputs (pre-norm) instead of their outputs
            (post-norm, the paper's).
        residual_connection: form of the residual connections of post-norm: "plain", the paper's;
            "deepnorm", with more weight on a layer's inputs and smaller initial weights;
            "encoder_deepnorm", the same in the encoder alone; or "b2t", with the layer's inputs
            added before its last normalization too. The paper's form leaves a young model on a
            plateau, where the decoder does not attend to the source yet.
        final_norm: whether each stack ends with a layer normalization. None: with pre-norm only.
        use_bias: whether the projections of attention have biases.
        attention_window: the paper's restricted self-attention: number of positions that a position
            of either stack sees, itself counted, odd. In the decoder they end with its own. All of
            the source is seen. None: no restriction.
        tie_weights: whether the logits use the matrix of the target's embeddings; False gives them
            a matrix of their own.
        use_logits_bias: whether a bias is added to the logits.
        max_length: number of learned positions.
        source_vocabulary_size: number of source tokens, for a vocabulary of their own. None: source
            and target share one.
        source_word_starts: with `positions="words"` and separate vocabularies, the source ids that
            a word begins with (see `PositionalEmbedding`).
        target_word_starts: the same of the target.
        padding_id: id that fills up source rows.
        dtype: dtype policy of every layer, such as "mixed_bfloat16". None: Keras's own.
        name: name of the model.

    Returns:
        A `GenerativeModel`: a functional `keras.Model` from `{"source_ids": (batch,
        source_length), "target_ids": (batch, target_length)}`, int32, to float32 logits (batch,
        target_length, vocabulary_size).

    Raises:
        ValueError: an unknown preset, or a value that breaks its rule.
        UserInputError: the weights are more than the memory of this machine.

    Example:
        >>> model = build_transformer("tiny", vocabulary_size=100)
        >>> model.count_params()
        1331712
        >>> ids, scores = model.generate([[7, 8, 2]], beam_size=2, extra_length=5)
        >>> tuple(ids.shape)
        (1, 2, 8)

    Reference: Vaswani et al. (2017), section 3. Residual connections: Wang et al., "DeepNet:
        Scaling Transformers to 1,000 Layers", 2022; Takase et al., "B2T Connection: Serving
        Stability and Performance in Deep Transformers", 2023.
    """
    options = check_model_fits(**locals())  # every argument by its name
    positions_class(options.positions).check_sides(
        source_vocabulary_size, source_word_starts, target_word_starts
    )

    # Layers
    layers = _create_layers(options)

    # Graph
    source_ids = keras.Input((None,), dtype="int32", name="source_ids")
    target_ids = keras.Input((None,), dtype="int32", name="target_ids")
    memory, memory_mask = layers.encode(source_ids)
    logits = layers.decode(target_ids, memory, memory_mask)
    return GenerativeModel(
        inputs={"source_ids": source_ids, "target_ids": target_ids}, outputs=logits, name=name
    )


def check_model_fits(preset: str = "base", *, copies: int = 1, **options: Any) -> ModelOptions:
    """Refuse sizes that `build_transformer` would refuse, before anything is built.

    Args:
        preset, **options: as of `build_transformer`.
        copies: how often the weights are to be in memory: 4 times in a training with Adam.

    Returns:
        The `ModelOptions` of the model.

    Raises:
        ValueError, UserInputError: as `build_transformer`.

    Example:
        >>> check_model_fits("base", vocabulary_size=32_000, num_encoder_layers=2000)
        Traceback (most recent call last):
        keras_transformer.errors.UserInputError: A model must have at most 1,000 layers in a stack.
        Received: 2,000
    """
    completed = ModelOptions.of(preset, **options)
    check_fits(completed, count_weights(completed), copies)
    return completed


def _create_layers(options: ModelOptions) -> TransformerStacks:
    source_embedding, target_embedding = _create_embeddings(options)
    of_encoder, of_decoder = residual_options(
        options.residual_connection, options.num_encoder_layers, options.num_decoder_layers
    )
    return TransformerStacks(
        source_mask=PaddingMask(padding_id=options.padding_id, name=layer_names.SOURCE_MASK),
        source_embedding=source_embedding,
        target_embedding=target_embedding,
        encoder_layers=create_stack(
            options,
            TransformerEncoderLayer,
            layer_names.ENCODER_LAYER,
            options.num_encoder_layers,
            of_encoder,
        ),
        decoder_layers=create_stack(
            options,
            TransformerDecoderLayer,
            layer_names.DECODER_LAYER,
            options.num_decoder_layers,
            of_decoder,
        ),
        encoder_norm=create_final_norm(options, layer_names.ENCODER_NORM),
        decoder_norm=create_final_norm(options, layer_names.DECODER_NORM),
    )


def _create_embeddings(options: ModelOptions) -> tuple[PositionalEmbedding, PositionalEmbedding]:
    if options.source_vocabulary_size is None:
        shared = create_embedding(
            options,
            options.vocabulary_size,
            layer_names.SHARED_EMBEDDING,
            num_tables=2,
            tie_weights=options.tie_weights,
            use_logits_bias=options.use_logits_bias,
        )
        return shared, shared
    source = create_embedding(
        options,
        options.source_vocabulary_size,
        layer_names.SOURCE_EMBEDDING,
        word_starts=options.source_word_starts,
    )
    target = create_embedding(
        options,
        options.vocabulary_size,
        layer_names.TARGET_EMBEDDING,
        word_starts=options.target_word_starts,
        tie_weights=options.tie_weights,
        use_logits_bias=options.use_logits_bias,
    )
    return source, target
