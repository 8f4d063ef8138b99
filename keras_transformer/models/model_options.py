"""The options of a model: those that were given, its preset's and the defaults."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from keras_transformer.argument_checks import (
    check_bool,
    check_non_negative_int,
    check_one_of,
    check_positive_int,
    check_positive_number,
    check_window,
    python_number,
)
from keras_transformer.errors import UserInputError
from keras_transformer.layers.positions import positions_class
from keras_transformer.layers.residual_block import LAYER_NORM_EPSILON
from keras_transformer.models.presets import PRESETS, Sizes, check_heads
from keras_transformer.models.residual_connections import RESIDUAL_CONNECTIONS

_COUNTS = (
    "vocabulary_size",
    "num_encoder_layers",
    "num_decoder_layers",
    "hidden_dim",
    "intermediate_dim",
    "num_heads",
    "max_length",
)
_COUNTS_OR_NONE = ("key_dim", "value_dim", "source_vocabulary_size")


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModelOptions(Sizes):
    """The arguments of `build_transformer`, which says what they mean; none is left open."""

    vocabulary_size: int
    attention_dropout: float = 0.0
    activation_dropout: float = 0.0
    word_dropout: float = 0.0
    activation: str | Callable[..., Any] | None = "relu"
    layer_norm_epsilon: float = LAYER_NORM_EPSILON
    kernel_initializer: Any = "glorot_uniform"
    bias_initializer: Any = "zeros"
    normalize_first: bool = False
    residual_connection: str = "plain"
    final_norm: bool | None = None
    use_bias: bool = False
    attention_window: int | None = None
    tie_weights: bool = True
    use_logits_bias: bool = False
    max_length: int = 1024
    source_vocabulary_size: int | None = None
    source_word_starts: Sequence[int] | None = None
    target_word_starts: Sequence[int] | None = None
    padding_id: int = 0
    dtype: Any = None
    name: str = "transformer"

    @classmethod
    def of(cls, preset: str, **given: Any) -> "ModelOptions":
        """Complete and check options.

        Args:
            preset: name of a preset.
            **given: fields of this class; None stands for the preset's value where it has one.

        Raises:
            ValueError: an unknown preset, or a value that breaks its rule.
        """
        check_one_of("preset", preset, PRESETS)
        sizes = {field.name: getattr(PRESETS[preset], field.name) for field in _SIZES}
        given = {name: v for name, v in given.items() if v is not None or name not in sizes}
        options = cls(**{name: python_number(v) for name, v in {**sizes, **given}.items()})
        options._check()
        key_dim = _or(options.key_dim, options.hidden_dim // options.num_heads)
        positions_class(options.positions).check_heads(options.num_heads, key_dim)
        return dataclasses.replace(
            options,
            key_dim=key_dim,
            value_dim=_or(options.value_dim, key_dim),
            final_norm=_or(options.final_norm, options.normalize_first),
        )

    def _check(self) -> None:
        for name in _COUNTS:
            check_positive_int(name, getattr(self, name))
        for name in _COUNTS_OR_NONE:
            if getattr(self, name) is not None:
                check_positive_int(name, getattr(self, name))
        check_window("attention_window", self.attention_window)
        check_one_of("residual_connection", self.residual_connection, RESIDUAL_CONNECTIONS)
        if self.normalize_first and self.residual_connection != "plain":
            raise UserInputError(
                "`residual_connection` must be 'plain' with `normalize_first`: the others are for "
                f"post-norm. Received: residual_connection={self.residual_connection!r}, "
                "normalize_first=True"
            )
        check_positive_number("layer_norm_epsilon", self.layer_norm_epsilon)
        if self.final_norm is not None:
            check_bool("final_norm", self.final_norm)
        check_heads(self.hidden_dim, self.num_heads, self.key_dim)
        self._check_padding_id()

    def _check_padding_id(self) -> None:
        check_non_negative_int("padding_id", self.padding_id)
        for name in ("vocabulary_size", "source_vocabulary_size"):
            size = getattr(self, name)
            if size is not None and self.padding_id >= size:
                raise ValueError(
                    f"`padding_id` must be less than `{name}`. "
                    f"Received: padding_id={self.padding_id}, {name}={size}"
                )


_SIZES = dataclasses.fields(Sizes)


def _or(value: Any, default: Any) -> Any:
    return default if value is None else value
