"""The Transformer as a functional Keras model."""

import dataclasses

import keras

from keras_transformer.argument_checks import check_one_of, check_positive_int
from keras_transformer.layers import (
    PaddingMask,
    PositionalEmbedding,
    TransformerDecoderLayer,
    TransformerEncoderLayer,
)
from keras_transformer.layers.residual_block import LAYER_NORM_EPSILON
from keras_transformer.models import layer_names
from keras_transformer.models.model_size import check_fits
from keras_transformer.models.presets import PRESETS, check_heads
from keras_transformer.models.transformer_stacks import TransformerStacks


@dataclasses.dataclass(frozen=True)
class _Architecture:
    """A preset's sizes and the options that no preset sets."""

    num_encoder_layers: int
    num_decoder_layers: int
    hidden_dim: int
    intermediate_dim: int
    num_heads: int
    key_dim: int | None
    value_dim: int | None
    dropout: float
    positions: str
    attention_dropout: float = 0.0
    activation_dropout: float = 0.0
    normalize_first: bool = False
    use_bias: bool = False
    max_length: int = 1024
    source_vocabulary_size: int | None = None
    source_word_starts: tuple | None = None
    target_word_starts: tuple | None = None
    padding_id: int = 0
    dtype: object = None
    name: str = "transformer"


_SIZES = (
    "num_encoder_layers",
    "num_decoder_layers",
    "hidden_dim",
    "intermediate_dim",
    "num_heads",
    "max_length",
)
OPTIONS = tuple(field.name for field in dataclasses.fields(_Architecture))


def build_transformer(preset="base", *, vocabulary_size, **overrides):
    """Build a Transformer as a functional Keras model.

    Args:
        preset: name of a size: "tiny", "base", "big" or a row of the paper's Table 3, such as
            "C-N2"; `keras_transformer.models.PRESETS` has them all.
        vocabulary_size: number of tokens (shared by source, target and output).
        **overrides: any field of the preset that shapes the model (`num_encoder_layers`,
            `num_decoder_layers`, `hidden_dim`, `intermediate_dim`, `num_heads`, `key_dim`,
            `value_dim`, `dropout`, `positions`), and
            `attention_dropout`, `activation_dropout`: rates, 0 by default;
            `normalize_first`: pre-norm with a final norm;
            `use_bias`: biases in the attention's projections;
            `max_length`: number of learned positions;
            `source_vocabulary_size`: a separate source vocabulary of that size;
            `source_word_starts`, `target_word_starts`: with `positions="words"` and separate
            vocabularies, the ids that a word of each side begins with (see `PositionalEmbedding`);
            `padding_id`: the id that fills up source rows;
            `dtype`: dtype policy of every layer, such as "mixed_bfloat16";
            `name`: the model's name.

    Returns:
        A `keras.Model` from `{"source_ids": (batch, source_length), "target_ids":
        (batch, target_length)}`, int32, to float32 logits (batch, target_length, vocabulary_size).

    Raises:
        ValueError: an unknown preset or override, or a value that breaks its rule.
        UserInputError: the weights are more than the memory of this machine.

    Example:
        >>> model = build_transformer("tiny", vocabulary_size=100)
        >>> model.count_params()
        1331712

    Reference: Vaswani et al. (2017), section 3.
    """
    options = check_model_fits(preset, vocabulary_size=vocabulary_size, **overrides)

    # Layers
    layers = _create_layers(options, vocabulary_size)

    # Graph
    source_ids = keras.Input((None,), dtype="int32", name="source_ids")
    target_ids = keras.Input((None,), dtype="int32", name="target_ids")
    memory, memory_mask = layers.encode(source_ids)
    logits = layers.decode(target_ids, memory, memory_mask)
    return keras.Model(
        inputs={"source_ids": source_ids, "target_ids": target_ids},
        outputs=logits,
        name=options.name,
    )


def check_model_fits(preset="base", *, vocabulary_size, copies=1, **overrides):
    """Refuse what `build_transformer` would refuse, before anything is built.

    Args:
        preset, vocabulary_size, **overrides: as of `build_transformer`.
        copies: how often the weights are to be in memory: 4 times in a training with Adam.

    Returns:
        The sizes and options of the model, a record.

    Raises:
        ValueError, UserInputError: as `build_transformer`.

    Example:
        >>> check_model_fits("base", vocabulary_size=32_000, num_encoder_layers=2000)
        Traceback (most recent call last):
        keras_transformer.errors.UserInputError: A model must have at most 1,000 layers in a stack.
        Received: 2,000
    """
    options = _architecture(preset, overrides)
    check_positive_int("vocabulary_size", vocabulary_size)
    check_fits(options, vocabulary_size, copies)
    return options


def _architecture(preset, overrides):
    check_one_of("preset", preset, PRESETS)
    unknown = sorted(set(overrides) - set(OPTIONS))
    if unknown:
        raise ValueError(f"`overrides` must be among {list(OPTIONS)}. Received: {unknown}")
    sizes = {
        name: value
        for name, value in dataclasses.asdict(PRESETS[preset]).items()
        if name in OPTIONS
    }
    options = _Architecture(**{**sizes, **overrides})
    for name in _SIZES:
        check_positive_int(name, getattr(options, name))
    for name in ("key_dim", "value_dim", "source_vocabulary_size"):
        if getattr(options, name) is not None:
            check_positive_int(name, getattr(options, name))
    check_heads(options.hidden_dim, options.num_heads, options.key_dim, options.value_dim)
    head_dim = options.hidden_dim // options.num_heads
    _check_word_starts(options)
    return dataclasses.replace(
        options,
        key_dim=head_dim if options.key_dim is None else options.key_dim,
        value_dim=head_dim if options.value_dim is None else options.value_dim,
    )


def _check_word_starts(options):
    names = ("source_vocabulary_size", "source_word_starts", "target_word_starts")
    values = {name: getattr(options, name) for name in names}
    counts_words = options.positions == "words"
    if counts_words and any(value is None for value in values.values()):
        raise ValueError(f'`positions="words"` needs all of {list(names)}. Received: {values}')
    has_starts = any(values[name] is not None for name in names[1:])
    if not counts_words and has_starts:
        raise ValueError(
            '`source_word_starts` and `target_word_starts` go with `positions="words"` alone. '
            f"Received: positions={options.positions!r}, {values}"
        )


def _create_layers(options, vocabulary_size):
    source_embedding, target_embedding = _create_embeddings(options, vocabulary_size)
    layer_options = {
        name: getattr(options, name)
        for name in (
            "num_heads",
            "key_dim",
            "intermediate_dim",
            "value_dim",
            "dropout",
            "attention_dropout",
            "activation_dropout",
            "normalize_first",
            "use_bias",
            "dtype",
        )
    }

    def stack(layer_class, pattern, number):
        return [
            layer_class(**layer_options, name=pattern.format(position))
            for position in range(1, number + 1)
        ]

    def final_norm(name):
        if not options.normalize_first:
            return None
        return keras.layers.LayerNormalization(
            epsilon=LAYER_NORM_EPSILON, dtype=options.dtype, name=name
        )

    return TransformerStacks(
        source_mask=PaddingMask(options.padding_id, name=layer_names.SOURCE_MASK),
        source_embedding=source_embedding,
        target_embedding=target_embedding,
        encoder_layers=stack(
            TransformerEncoderLayer, layer_names.ENCODER_LAYER, options.num_encoder_layers
        ),
        decoder_layers=stack(
            TransformerDecoderLayer, layer_names.DECODER_LAYER, options.num_decoder_layers
        ),
        encoder_norm=final_norm(layer_names.ENCODER_NORM),
        decoder_norm=final_norm(layer_names.DECODER_NORM),
    )


def _create_embeddings(options, vocabulary_size):
    def embedding(size, num_tables, name, word_starts=None):
        return PositionalEmbedding(
            size,
            options.hidden_dim,
            positions=options.positions,
            max_length=options.max_length,
            num_tables=num_tables,
            word_starts=word_starts,
            dropout=options.dropout,
            dtype=options.dtype,
            name=name,
        )

    if options.source_vocabulary_size is None:
        shared = embedding(vocabulary_size, 2, layer_names.SHARED_EMBEDDING)
        return shared, shared
    return (
        embedding(
            options.source_vocabulary_size,
            1,
            layer_names.SOURCE_EMBEDDING,
            options.source_word_starts,
        ),
        embedding(vocabulary_size, 1, layer_names.TARGET_EMBEDDING, options.target_word_starts),
    )
