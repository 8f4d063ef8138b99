"""Model options, the paper's presets, and the types of residual connections.

Use `tiny` for tens of thousands of sentence pairs and `small` for hundreds of thousands.

As in the paper, each row of Table 3 lists only its differences from the base model. Its scores are
for a single checkpoint.

Reference: Vaswani et al. (2017), sections 5 and 6.2, Table 3.
"""

import dataclasses
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, Required, TypedDict

from keras_transformer.argument_checks import (
    check_by_name,
    check_non_negative_int,
    check_one_of,
    python_number,
    setting,
)
from keras_transformer.errors import UserInputError, refuse, similar_name
from keras_transformer.types import DECODER_UNITS, KINDS_OF_POSITIONS, LAYER_NORM_EPSILON

# The name of each type.
RESIDUAL_CONNECTIONS = ("plain", "deepnorm", "encoder_deepnorm", "b2t")


def residual_options(
    form: str, num_encoder_layers: int, num_decoder_layers: int
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return encoder and decoder layer options for a type of residual connection.

    Args:
        form: "plain", as in the paper; "deepnorm", which depends on the numbers of encoder layers N
            and decoder layers M; "encoder_deepnorm", the same, but with a plain decoder; or "b2t".
        num_encoder_layers: number of encoder layers N; 0 for a language model.
        num_decoder_layers: number of decoder layers M.

    Returns:
        Two dictionaries of arguments, for `TransformerEncoderLayer` and `TransformerDecoderLayer`.

    Example:
        >>> _, of_decoder = residual_options("deepnorm", 6, 6)
        >>> {name: round(value, 3) for name, value in of_decoder.items()}
        {'residual_scale': 2.06, 'initial_gain': 0.343}

    Raises:
        ValueError: `form` is "encoder_deepnorm", but there is no encoder.

    Reference: Wang et al., "DeepNet: Scaling Transformers to 1,000 Layers", 2022, figure 2 (where
        alpha is the scale and beta the gain); Takase et al., "B2T Connection: Serving Stability
        and Performance in Deep Transformers", 2023.
    """
    if form == "plain":
        return {}, {}
    if form == "b2t":
        return {"b2t_connection": True}, {"b2t_connection": True}
    if not num_encoder_layers:
        if form == "encoder_deepnorm":
            refuse("residual_connection", "be different for a model without an encoder", form)
        return {}, _scaled((2 * num_decoder_layers) ** 0.25, (8 * num_decoder_layers) ** -0.25)
    depth = (num_encoder_layers**4 * num_decoder_layers) ** (1 / 16)
    of_encoder = _scaled(0.81 * depth, 0.87 / depth)
    if form == "encoder_deepnorm":
        return of_encoder, {}
    return of_encoder, _scaled((3 * num_decoder_layers) ** 0.25, (12 * num_decoder_layers) ** -0.25)


def _scaled(residual_scale: float, initial_gain: float) -> dict[str, Any]:
    return {"residual_scale": residual_scale, "initial_gain": initial_gain}


@dataclasses.dataclass(frozen=True)
class Sizes:
    """The model sizes set by a preset; see `ModelOptions` for the fields."""

    num_encoder_layers: int = setting(6, "number of encoder layers; none: --num-layers", minimum=1)
    num_decoder_layers: int = setting(6, "number of decoder layers; none: --num-layers", minimum=1)
    hidden_dim: int = setting(512, "width of the model, d_model; none: the preset's", minimum=2)
    intermediate_dim: int = setting(
        2048, "width of the feed-forward networks, d_ff; none: the preset's", minimum=1
    )
    num_heads: int = setting(8, "number of attention heads; none: the preset's", minimum=1)
    key_dim: int | None = setting(
        None,
        "width of a head's queries and keys; none: the preset's, or hidden-dim / num-heads",
        minimum=1,
    )
    value_dim: int | None = setting(
        None, "width of a head's values; none: the preset's, or --key-dim", minimum=1
    )
    dropout: float = setting(
        0.1,
        "dropout rate for sublayers and embeddings; higher for less text; none: the preset's",
        minimum=0,
        below=1,
    )
    positions: str = setting(
        "sinusoidal",
        "type of positions; words counts words, with separate vocabularies; none: the preset's",
        choices=KINDS_OF_POSITIONS,
    )


@dataclasses.dataclass(frozen=True)
class Preset(Sizes):
    """A model size and its training hyperparameters; see `ModelOptions` for the sizes.

    Args:
        label_smoothing: probability moved from the correct token to all other tokens.
        training_steps: number of updates.
        warmup_steps: number of updates during which the learning rate increases.
        batch_tokens: maximum number of source tokens and of target tokens per update.
        averaged_checkpoints: number of final checkpoints to average for translation.
    """

    label_smoothing: float = 0.1
    training_steps: int = 100_000
    warmup_steps: int = 4000
    batch_tokens: int = 25_000
    averaged_checkpoints: int = 5


def _row(**differences: Any) -> Preset:
    return Preset(averaged_checkpoints=1, **differences)


PRESETS = {
    "tiny": Preset(
        num_encoder_layers=4,
        num_decoder_layers=4,
        hidden_dim=128,
        intermediate_dim=256,
        num_heads=4,
        dropout=0.3,
        training_steps=8000,
        warmup_steps=2000,
        batch_tokens=4096,
        averaged_checkpoints=10,
    ),
    "small": Preset(
        num_encoder_layers=3,
        num_decoder_layers=3,
        hidden_dim=256,
        intermediate_dim=1024,
        num_heads=4,
        training_steps=30_000,
        warmup_steps=2000,
        batch_tokens=8192,
        averaged_checkpoints=10,
    ),
    "base": Preset(),
    "big": Preset(
        hidden_dim=1024,
        intermediate_dim=4096,
        num_heads=16,
        dropout=0.3,
        training_steps=300_000,
        averaged_checkpoints=20,
    ),
    "A-h1": _row(num_heads=1),
    "A-h4": _row(num_heads=4),
    "A-h16": _row(num_heads=16),
    "A-h32": _row(num_heads=32),
    "B-dk16": _row(key_dim=16, value_dim=64),
    "B-dk32": _row(key_dim=32, value_dim=64),
    "C-N2": _row(num_encoder_layers=2, num_decoder_layers=2),
    "C-N4": _row(num_encoder_layers=4, num_decoder_layers=4),
    "C-N8": _row(num_encoder_layers=8, num_decoder_layers=8),
    "C-d256": _row(hidden_dim=256),
    "C-d1024": _row(hidden_dim=1024),
    "C-ff1024": _row(intermediate_dim=1024),
    "C-ff4096": _row(intermediate_dim=4096),
    "D-drop0": _row(dropout=0.0),
    "D-drop2": _row(dropout=0.2),
    "D-ls0": _row(label_smoothing=0.0),
    "D-ls2": _row(label_smoothing=0.2),
    "E-learned": _row(positions="learned"),
}


# Building even a small layer takes a few tenths of a second.
MAX_LAYERS = 1000
_BYTES = {"float64": 8, "float32": 4}  # per weight; 2 for other dtypes
_ACTIVATIONS = ("relu", "gelu", "swish")  # that can be specified in settings
_OF_THE_SOURCE = (
    "source_vocabulary_size",
    "source_word_starts",
    "hidden_source_id",
    "alignment_layer",
)


class ModelKeywords(TypedDict, total=False):
    """Types of the options that all models share, for functions that accept `**options`."""

    vocabulary_size: Required[int]
    num_decoder_layers: int | None
    hidden_dim: int | None
    intermediate_dim: int | None
    num_heads: int | None
    key_dim: int | None
    value_dim: int | None
    dropout: float | None
    positions: str | None
    attention_dropout: float
    activation_dropout: float
    word_dropout: float
    activation: str | Callable[..., Any] | None
    layer_norm_epsilon: float
    kernel_initializer: Any
    bias_initializer: Any
    normalize_first: bool
    residual_connection: str
    final_norm: bool | None
    use_bias: bool
    attention_window: int | None
    qk_norm: bool
    decoder_unit: str
    tie_weights: bool
    use_logits_bias: bool
    max_length: int
    zero_id: int | None
    dtype: Any


class TransformerKeywords(ModelKeywords, total=False):
    """Types of the options for models with an encoder."""

    num_encoder_layers: int | None
    source_vocabulary_size: int | None
    source_word_starts: Sequence[int] | None
    target_word_starts: Sequence[int] | None
    padding_id: int
    hidden_source_id: int | None
    alignment_layer: int | None
    alignment_head: int | None
    name: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModelOptions(Sizes):
    """The complete configuration of a `Transformer`.

    Args:
        vocabulary_size: number of target tokens, and of source tokens if the vocabulary is shared.
        num_encoder_layers: number of encoder layers; 0 for a language model, which has no encoder
            and no source.
        num_decoder_layers: number of decoder layers.
        hidden_dim: size of the vectors between layers (the paper's d_model).
        intermediate_dim: inner size of the feed-forward networks (d_ff).
        num_heads: number of attention heads (h).
        key_dim: size of a head's queries and keys (d_k). Defaults to `hidden_dim / num_heads`.
        value_dim: size of a head's values (d_v). Defaults to `key_dim`. Rows B of the paper's
            Table 3 use 64.
        dropout: dropout rate for sublayer outputs and embeddings.
        positions: type of positions, as in `PositionalEmbedding`.
        attention_dropout: dropout rate for the attention weights.
        activation_dropout: dropout rate after the activation.
        word_dropout: rate at which entire token embeddings are dropped during training.
        activation: activation of the feed-forward networks: a function, the name of a function in
            `keras.activations`, or None for no activation.
        layer_norm_epsilon: epsilon of every layer normalization.
        kernel_initializer: initializer for the kernels of attention and feed-forward networks.
        bias_initializer: initializer for the biases of attention and feed-forward networks.
        normalize_first: whether layers normalize their inputs (pre-norm) instead of their outputs
            (post-norm, as in the paper).
        residual_connection: type of residual connection with post-norm: "plain", as in the paper;
            "deepnorm", with more weight on a layer's inputs and smaller initial weights;
            "encoder_deepnorm", with DeepNorm only in the encoder; or "b2t", which also adds the
            layer's inputs before its last normalization. With "plain", training starts with a
            plateau during which the decoder does not yet attend to the source.
        final_norm: whether each stack ends with a layer normalization; by default, only with
            pre-norm.
        use_bias: whether attention projections have biases.
        attention_window: window size of the paper's restricted self-attention: an odd number of
            positions that each position attends to, including itself. In the decoder, the window
            ends at the position itself. All source positions stay visible. None means no limit.
        qk_norm: whether attention normalizes its queries and keys by their root mean square.
        decoder_unit: how decoder positions read earlier positions: "attention", or "ssru", a
            recurrent unit with a constant cost per step at every length (see `layers.SSRU`). With
            "ssru", `attention_window` and attention-based positions affect only the encoder.
        tie_weights: whether the logits use the target embedding matrix; if False, they have a
            separate matrix.
        use_logits_bias: whether a bias is added to the logits.
        max_length: number of learned positions.
        zero_id: target id whose embedding is a zero vector, such as BOS in Marian models, or None.
        alignment_layer: number of the decoder layer, from 1, whose output is read by a separate
            head for word alignments; see `layers.alignment_head`. None means no such head.
        alignment_head: number of a head of this layer's cross-attention, from 1, that aligns words
            instead of a separate head, as in Marian models; None means a separate head.
        source_vocabulary_size: number of source tokens if the source has its own vocabulary; None
            if source and target share a vocabulary.
        source_word_starts: with `positions="words"` and separate vocabularies, the source ids that
            start a word (see `PositionalEmbedding`).
        target_word_starts: the same for the target, or for a language model.
        padding_id: id that pads source rows; for a language model, the id to mask, or None.
        hidden_source_id: another source id to hide from attention, in addition to padding, such as
            EOS in a model trained without EOS in its sources, or None.
        dtype: dtype policy of every layer, such as "mixed_bfloat16". Defaults to Keras's global
            policy.
        name: name of the model.

    Raises:
        ValueError: a value is invalid.

    Example:
        >>> options = ModelOptions(vocabulary_size=100, hidden_dim=64, num_heads=4)
        >>> options.key_dim, options.final_norm
        (16, False)
    """

    vocabulary_size: int
    use_bias: bool = setting(False, "use biases in the attention projections, unlike the paper")
    attention_window: int | None = setting(
        None,
        "odd number of positions that each position attends to, for long texts; none: all",
        minimum=1,
        below=2**31,
    )
    qk_norm: bool = setting(
        False, "divide queries and keys by their root mean square to stabilize training"
    )
    decoder_unit: str = setting(
        "attention",
        "how the decoder reads earlier positions; ssru is a recurrent unit for faster translation "
        "with small models; none: attention, as in the paper",
        choices=DECODER_UNITS,
    )
    activation: str | Callable[..., Any] | None = setting(  # noqa: RUF009  the default is a name
        "relu",
        "activation of the feed-forward networks; none: relu, as in the paper",
        choices=_ACTIVATIONS,
    )
    attention_dropout: float = setting(
        0.0, "dropout rate for attention weights; 0 in the paper", minimum=0, below=1
    )
    activation_dropout: float = setting(
        0.0, "dropout rate after the activation; 0 in the paper", minimum=0, below=1
    )
    word_dropout: float = setting(
        0.0, "fraction of token embeddings to drop, to reduce overfitting", minimum=0, below=1
    )
    normalize_first: bool = setting(
        False, "normalize before each sublayer (pre-norm), which is more stable in deep stacks"
    )
    residual_connection: str = setting(
        "plain",
        "type of residual connection; deepnorm, encoder_deepnorm (from width 512) and b2t avoid "
        "the initial training plateau; none: plain, as in the paper",
        choices=RESIDUAL_CONNECTIONS,
    )
    final_norm: bool | None = setting(
        None, "normalize the output of each stack; none: only with --normalize-first"
    )
    layer_norm_epsilon: float = setting(
        LAYER_NORM_EPSILON,
        "epsilon of every layer normalization; none: 1e-6",
        minimum=1e-12,
        below=1,
    )
    tie_weights: bool = setting(
        True,
        "compute the logits with the target embedding matrix; none: yes, as in the paper",
    )
    use_logits_bias: bool = setting(False, "add a bias to the logits, unlike the paper")
    max_length: int = setting(
        1024, "number of learned positions, the maximum length per side; none: 1,024", minimum=1
    )
    zero_id: int | None = setting(
        None,
        "target id whose embedding is zero, such as 1 (BOS), the first input of Marian's decoders; "
        "none: no id",
        minimum=0,
    )
    kernel_initializer: Any = "glorot_uniform"
    bias_initializer: Any = "zeros"
    alignment_layer: int | None = None
    alignment_head: int | None = None
    source_vocabulary_size: int | None = None
    source_word_starts: Sequence[int] | None = None
    target_word_starts: Sequence[int] | None = None
    padding_id: int | None = 0
    hidden_source_id: int | None = None
    dtype: Any = None
    name: str = "transformer"

    def __post_init__(self) -> None:
        import keras  # imported here because flags need option names and rules without Keras

        from keras_transformer.layers.positions import positions_class

        for field in dataclasses.fields(self):
            self._set(field.name, python_number(getattr(self, field.name)))
            check_by_name(field.name, getattr(self, field.name), field.type)
        self._check()
        key_dim = self.hidden_dim // self.num_heads if self.key_dim is None else self.key_dim
        positions_class(self.positions).check_heads(self.num_heads, key_dim)
        self._complete("key_dim", key_dim)
        self._complete("value_dim", key_dim)
        self._complete("final_norm", self.normalize_first)
        for name in ("source_word_starts", "target_word_starts"):
            starts = getattr(self, name)
            self._set(name, None if starts is None else tuple(int(token) for token in starts))
        policy = keras.dtype_policies.get(self.dtype)
        self._set("dtype", policy.name if type(policy) is keras.DTypePolicy else policy)

    @classmethod
    def of(cls, preset: str = "base", **given: Any) -> "ModelOptions":
        """Create options with a preset's sizes.

        Args:
            preset: name of a preset.
            **given: fields of this class; None means the preset's value, if there is one.

        Raises:
            TypeError: an option is unknown.
            ValueError: the preset is unknown, or a value is invalid.
        """
        check_one_of("preset", preset, PRESETS)
        names = [field.name for field in dataclasses.fields(cls)]
        for name in given:
            if name not in names:
                close = similar_name(name, names)
                hint = f". Did you mean `{close}`?" if close else ""
                raise TypeError(f"Got an unexpected keyword argument {name!r}{hint}")
        sizes = {field.name: getattr(PRESETS[preset], field.name) for field in _SIZES}
        given = {name: v for name, v in given.items() if v is not None or name not in sizes}
        return cls(**{**sizes, **given})

    @property
    def is_causal(self) -> bool:
        """Whether this is a language model, which has only a decoder."""
        return not self.num_encoder_layers

    def to_config(self) -> dict[str, Any]:
        """Return the options as JSON-compatible arguments for this class."""
        import keras

        config = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        for name, plural in _SERIALIZED.items():
            if not isinstance(config[name], (str, dict, type(None))):
                config[name] = getattr(keras, plural).serialize(config[name])
        return {name: list(v) if isinstance(v, tuple) else v for name, v in config.items()}

    def count_weights(self) -> int:
        """Return the number of weights in the model without building it."""
        hidden_dim, inner_dim = self.hidden_dim, self.intermediate_dim
        key_dim, value_dim = self.key_dim or 0, self.value_dim or 0
        attention = 2 * hidden_dim * self.num_heads * (key_dim + value_dim)
        if self.use_bias:
            attention += self.num_heads * (2 * key_dim + value_dim) + hidden_dim
        if self.qk_norm:
            attention += 2 * key_dim
        norm = 2 * hidden_dim
        unit = (
            2 * hidden_dim * hidden_dim + hidden_dim if self.decoder_unit == "ssru" else attention
        )
        layer = attention + 2 * hidden_dim * inner_dim + inner_dim + hidden_dim + 2 * norm
        cross_attention = 0 if self.is_causal else attention + norm
        num_norms = (1 if self.is_causal else 2) if self.final_norm else 0
        has_own_head = self.alignment_layer is not None and self.alignment_head is None
        of_head = norm + 2 * hidden_dim * hidden_dim if has_own_head else 0
        return (
            self.num_encoder_layers * layer
            + self.num_decoder_layers * (layer - attention + unit + cross_attention)
            + num_norms * norm
            + of_head
            + self._count_embeddings()
        )

    def _count_embeddings(self) -> int:
        from keras_transformer.layers.positions import positions_class

        kind = positions_class(self.positions)
        tables = [(self.vocabulary_size, 1 if self.is_causal else 2)]
        if self.source_vocabulary_size is not None:
            tables = [(self.source_vocabulary_size, 1), (self.vocabulary_size, 1)]
        total = sum(
            size * self.hidden_dim + kind.count_weights(self.hidden_dim, self.max_length, number)
            for size, number in tables
        )
        head = 0 if self.tie_weights else self.vocabulary_size * self.hidden_dim
        return total + head + (self.vocabulary_size if self.use_logits_bias else 0)

    def check_fits(self, copies: int = 1) -> None:
        """Reject a model whose weights do not fit in this machine's memory.

        Args:
            copies: number of copies of the weights in memory, such as 4 for training with Adam.

        Raises:
            UserInputError: the memory is too small, or a stack has more than `MAX_LAYERS` layers.
        """
        import keras

        layers = max(self.num_encoder_layers, self.num_decoder_layers)
        if layers > MAX_LAYERS:
            raise UserInputError(
                f"A model must have at most {MAX_LAYERS:,} layers in a stack. Received: {layers:,}"
            )
        num_weights = self.count_weights()
        variable_dtype = keras.dtype_policies.get(self.dtype).variable_dtype
        needed = copies * num_weights * _BYTES.get(variable_dtype, 2)
        if needed > machine_memory():
            times = f", {copies} times in training," if copies > 1 else ""
            raise UserInputError(
                f"The model is too large: its {num_weights:,} weights{times} take "
                f"{needed / 1e9:,.1f} GB, and this machine has {machine_memory() / 1e9:,.1f} GB "
                "of memory. Use a smaller vocabulary, or fewer or narrower layers"
            )

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    def _complete(self, name: str, default: Any) -> None:
        if getattr(self, name) is None:
            self._set(name, default)

    def _check(self) -> None:
        check_one_of("decoder_unit", self.decoder_unit, DECODER_UNITS)
        check_one_of("residual_connection", self.residual_connection, RESIDUAL_CONNECTIONS)
        if self.normalize_first and self.residual_connection != "plain":
            rule = "be 'plain' with `normalize_first`: the other forms are for post-norm"
            refuse("residual_connection", rule, self.residual_connection, normalize_first=True)
        if self.hidden_dim % self.num_heads and self.key_dim is None:
            rule = "be a multiple of `num_heads`, unless `key_dim` is given"
            refuse("hidden_dim", rule, self.hidden_dim, num_heads=self.num_heads)
        if self.is_causal:
            self._check_no_source()
        else:
            self._check_padding_id()
        if (self.alignment_layer or 0) > self.num_decoder_layers:
            rule = f"be at most {self.num_decoder_layers}, the number of decoder layers"
            refuse("alignment_layer", rule, self.alignment_layer)
        if (self.alignment_head or 0) > (self.num_heads if self.alignment_layer else 0):
            rule = f"be at most {self.num_heads}, with `alignment_layer`"
            refuse(
                "alignment_head", rule, self.alignment_head, alignment_layer=self.alignment_layer
            )

    def _check_no_source(self) -> None:
        for name in _OF_THE_SOURCE:
            if getattr(self, name) is not None:
                rule = "be None without an encoder"
                refuse(name, rule, getattr(self, name), num_encoder_layers=0)

    def _check_padding_id(self) -> None:
        check_non_negative_int("padding_id", self.padding_id)
        for name in ("vocabulary_size", "source_vocabulary_size"):
            size = getattr(self, name)
            if size is not None and self.padding_id >= size:
                refuse("padding_id", f"be less than `{name}`", self.padding_id, **{name: size})


def machine_memory() -> int:
    """Return this machine's memory in bytes; on Windows, more than any model needs."""
    if not hasattr(os, "sysconf"):
        return sys.maxsize  # allocation then fails late, with the system's own message
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


_SIZES = dataclasses.fields(Sizes)
_SERIALIZED = {  # the Keras module that serializes each option
    "activation": "activations",
    "kernel_initializer": "initializers",
    "bias_initializer": "initializers",
    "dtype": "dtype_policies",
}
