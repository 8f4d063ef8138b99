"""Settings common to all training commands: model, optimizer, search and devices.

Keras is imported only where it is needed, because flags are parsed without Keras.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, Self

from keras_transformer.errors import refuse, reject
from keras_transformer.models.model_options import PRESETS, ModelOptions
from keras_transformer.search_options import END_OF_ALPHA, TRANSLATION
from keras_transformer.settings import (
    EssentialSettings,
    Settings,
    SettingValue,
    setting,
    setting_of,
    switch,
    switch_name,
)
from keras_transformer.training.training_options import TrainingKeywords, TrainingOptions
from keras_transformer.types import OPTIMIZERS, SpecialTokens

if TYPE_CHECKING:
    import keras

    from keras_transformer.layers.positions import Positions
    from keras_transformer.losses import LabelSmoothingCrossEntropy

_DROPOUT_RATES = ("dropout", "attention_dropout", "activation_dropout", "word_dropout")
SEARCH_SETTINGS = "beam_size", "alpha", "extra_length", "max_repeats"
_PARTS_OF_A_STEP = "accumulate", "device_tokens"  # two ways to set the number of parts
# XLA compiles a separate program for each batch shape, which takes seconds to minutes.
MOST_SHAPES = 16
# Settings that are passed to `build_transformer` under the same name.
MODEL_SETTINGS = tuple(field.name for field in dataclasses.fields(ModelOptions) if field.metadata)
# Model settings that are fixed in a trained model.
ARCHITECTURE_SETTINGS = tuple(name for name in MODEL_SETTINGS if name not in _DROPOUT_RATES)


def _of_model(name: str) -> Any:
    """Return a model option's field, with its reason and rules. Truthy defaults become None."""
    default = getattr(ModelOptions, name)
    return setting_of(ModelOptions, name, None if default else default)


@dataclasses.dataclass(frozen=True)
class TrainingSettings(Settings):
    """Settings common to all training commands. `--help` shows the reason for each setting.

    The settings of a recipe derive from this class, add fields, and redefine fields with a
    different default or reason. A field with the same name as a field of `TrainingOptions` sets
    that option. The batch, loss and update of a step do not depend on `replicas`, `accumulate` or
    `device_tokens`.

    The options of `ModelOptions` that have a reason are also fields. None means the preset's value,
    or the default of `ModelOptions`.

    Attributes:
        preset: name of the model size, which determines settings that are None; may be a field in a
            subclass.
        may_change: names of fields that may change when training is resumed. The updates stay the
            same, up to rounding.
        of_one_run: names of fields that a run does not inherit from the run that it starts from.

    Example:
        >>> TrainingSettings(num_layers=2, precision="mixed_bfloat16").steps
        100000
    """

    headings: typing.ClassVar[Mapping[str, str]] = {
        "seed": "training",
        "num_layers": "model",
        "batch_tokens": "training",
        "beam_size": "search",
        "replicas": "devices, memory and number format",
    }
    preset = "base"
    may_change: typing.ClassVar[tuple[str, ...]] = (
        "steps",
        "beam_size",
        "alpha",
        "extra_length",
        "max_repeats",
        "replicas",
        "accumulate",
        "device_tokens",
        "device_tflops",
        "probe",
    )

    of_one_run: typing.ClassVar[tuple[str, ...]] = ()

    seed: int = setting(
        1,
        "random seed for weights, dropout and batch order",
        minimum=0,
        below=2**32,
    )

    # Model
    num_layers: int | None = setting(
        None, "number of layers in the encoder and in the decoder; none: the preset's", minimum=1
    )
    num_encoder_layers: int | None = _of_model("num_encoder_layers")
    num_decoder_layers: int | None = _of_model("num_decoder_layers")
    hidden_dim: int | None = _of_model("hidden_dim")
    intermediate_dim: int | None = _of_model("intermediate_dim")
    num_heads: int | None = _of_model("num_heads")
    key_dim: int | None = _of_model("key_dim")
    value_dim: int | None = _of_model("value_dim")
    dropout: float | None = _of_model("dropout")
    positions: str | None = _of_model("positions")
    use_bias: bool = _of_model("use_bias")
    attention_window: int | None = _of_model("attention_window")
    qk_norm: bool = _of_model("qk_norm")
    decoder_unit: str | None = _of_model("decoder_unit")
    activation: str | None = _of_model("activation")
    attention_dropout: float = _of_model("attention_dropout")
    activation_dropout: float = _of_model("activation_dropout")
    word_dropout: float = _of_model("word_dropout")
    normalize_first: bool = _of_model("normalize_first")
    residual_connection: str | None = _of_model("residual_connection")
    final_norm: bool | None = _of_model("final_norm")
    layer_norm_epsilon: float | None = _of_model("layer_norm_epsilon")
    tie_weights: bool | None = _of_model("tie_weights")
    use_logits_bias: bool = _of_model("use_logits_bias")
    max_length: int | None = _of_model("max_length")
    zero_id: int | None = _of_model("zero_id")

    # Training
    batch_tokens: int | None = setting_of(EssentialSettings, "batch_tokens", None)
    label_smoothing: float | None = setting(
        None,
        "probability moved from the correct token to all other tokens; none: the preset's",
        minimum=0,
        below=1,
    )
    steps: int | None = setting_of(EssentialSettings, "steps", None)
    warmup_steps: int | None = setting(
        None, "number of updates with an increasing learning rate; none: the preset's", minimum=1
    )
    optimizer: str = setting(
        "adam",
        "adam (as in the paper) or muon, which uses Muon for the layers' matrices and Adam for the "
        "rest",
        choices=OPTIMIZERS,
    )
    rms_rate: float = setting(
        0.5, "size of Muon updates, as a multiple of Adam's learning rate", minimum=1e-6, below=1e6
    )
    learning_rate_scale: float = setting(
        1.0, "multiple of the paper's learning rate; below 1 for small batches", minimum=1e-6
    )
    cooldown: float = setting(
        0.0,
        "final share of training, such as 0.3, with a linear decay of the learning rate to 0; the "
        "paper has no cooldown",
        minimum=0,
        below=1,
    )
    r_drop: float = setting(
        0.0,
        "R-Drop coefficient, such as 5 for little text; doubles the time per step; 0: off",
        minimum=0,
        below=1e6,
    )
    global_clipnorm: float | None = setting(
        None, "clip gradients to this norm; none: no clipping", minimum=1e-6
    )
    save_every: int = setting(
        1000, "number of updates between validations; each also saves a checkpoint", minimum=1
    )

    # Search
    beam_size: int = setting(
        TRANSLATION.beam_size, "beam size; the default is the paper's", minimum=1
    )
    alpha: float = setting(
        TRANSLATION.alpha,
        "exponent of the length penalty; larger values produce longer translations; the default is "
        "the paper's",
        minimum=0,
        below=END_OF_ALPHA,
    )
    extra_length: int = setting(
        TRANSLATION.extra_length,
        "maximum number of tokens in a translation beyond the length of its source; the default is "
        "the paper's",
        minimum=1,
    )
    max_repeats: int = setting(
        TRANSLATION.max_repeats,
        "prevent loops: allow the same 1 to 8 tokens at most this many times in a row, plus "
        "repetitions in the source; 0: no limit, as in the paper; above 0, the search options are "
        "stored in the run",
        minimum=0,
        below=1_000_001,
    )

    # Devices, memory and number format
    replicas: int | None = setting(
        None,
        "number of devices to use on each machine: GPUs, or parts of the CPU; none: all GPUs, or "
        "the CPU as one device",
        minimum=1,
    )
    accumulate: int | None = setting(
        None,
        "split each step into this many parts to save memory; none: as few as --device-tokens "
        "allows",
        minimum=1,
    )
    device_tokens: int | None = setting(
        None,
        "approximate number of tokens per side that fit in the memory of a device; none: no limit",
        minimum=1,
    )
    precision: str = setting(
        "auto",
        "dtype policy of the layers; auto: mixed_bfloat16 on TPUs, on GPUs since Ampere and, with "
        "TensorFlow, on CPUs with AMX; float32 elsewhere",
        choices=("auto", "float32", "mixed_bfloat16", "mixed_float16"),
    )
    xla: str = switch(
        "compile the training step with XLA; auto: on GPUs and TPUs, and always with JAX"
    )
    packing: str = switch(
        "pack several pairs into each row, so all batches have the same shape; auto: if XLA "
        f"compiles the step. Without packing, XLA compiles up to {MOST_SHAPES} shapes"
    )
    device_tflops: float | None = setting(
        None,
        "peak TFLOP/s of one device, to report its utilization and the cost; none: the known value "
        "of the device",
        minimum=1e-6,
        below=1e9,
    )
    probe: bool = setting(
        True, "test the largest batch first to detect a lack of memory immediately"
    )
    deterministic: bool = setting(
        False, "make training runs with the same seed bit-equal; a third slower on a CPU"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, value in self.preset_values(self.preset).items():
            if getattr(self, name) is None:
                object.__setattr__(self, name, value)
        if self.attention_window is not None and self.attention_window % 2 == 0:
            rule = "be odd: the position itself and as many on each side"
            refuse("attention_window", rule, self.attention_window)
        ModelOptions.of(self.preset, vocabulary_size=1, **self.architecture_options())
        if self.accumulate is not None and self.device_tokens is not None:
            fault = "`accumulate` is computed from `device_tokens`: set only one of them"
            reject(fault, accumulate=self.accumulate, device_tokens=self.device_tokens)
        import keras

        if self.deterministic and keras.backend.backend() == "tensorflow" and self.xla == "on":
            fault = "TensorFlow does not compile deterministic operations with XLA"
            reject(f"{fault}: pass --no-deterministic", xla=self.xla, deterministic=True)

    @classmethod
    def merge(
        cls, lower: Mapping[str, SettingValue], upper: Mapping[str, SettingValue]
    ) -> dict[str, SettingValue]:
        """Merge two layers of settings; `upper` takes precedence.

        If `upper` sets `accumulate` or `device_tokens`, the value of the other setting in `lower`
        is dropped.
        """
        merged = super().merge(lower, upper)
        for given, other in _PARTS_OF_A_STEP, _PARTS_OF_A_STEP[::-1]:
            if upper.get(given) is not None and other not in upper and other in merged:
                merged[other] = None
        return merged

    @classmethod
    def preset_values(cls, name: str) -> dict[str, Any]:
        """Return the settings that the preset determines when they are None."""
        preset = PRESETS[name]
        return {
            "dropout": preset.dropout,
            "label_smoothing": preset.label_smoothing,
            "batch_tokens": preset.batch_tokens,
            "steps": preset.training_steps,
            "warmup_steps": preset.warmup_steps,
        }

    def check_given(self, names: Collection[str]) -> None:
        super().check_given(names)
        kind, given = self.kind_of_positions, self.max_length if "max_length" in names else None
        if given is not None and not kind.uses_max_length:
            fault = "`max_length` is the number of learned positions: `positions` must be learned"
            reject(fault, max_length=given, positions=kind.name)

    @property
    def kind_of_positions(self) -> type[Positions]:
        """Return the class that implements the model's positions."""
        from keras_transformer.layers.positions import positions_class

        return positions_class(self.positions or PRESETS[self.preset].positions)

    def architecture_options(self) -> dict[str, Any]:
        """Return the arguments of `build_transformer` that depend only on these settings."""
        options = {
            **{name: getattr(self, name) for name in MODEL_SETTINGS},
            "num_encoder_layers": self.num_encoder_layers or self.num_layers,
            "num_decoder_layers": self.num_decoder_layers or self.num_layers,
        }
        return {name: value for name, value in options.items() if value is not None}

    def dropout_rates(self) -> dict[str, float]:
        """Return the dropout rates as arguments of `build_transformer` and its layers."""
        return {name: getattr(self, name) for name in _DROPOUT_RATES}

    def model_options(self, source_tokenizer: Any = None, tokenizer: Any = None) -> dict[str, Any]:
        """Return the arguments of `build_transformer`, except the preset and vocabulary sizes.

        Args:
            source_tokenizer, tokenizer: tokenizers of the source and the target. None omits the
                options that some position types derive from the tokenizers.
        """
        from keras_transformer.training.devices.device_start import fastest_precision

        dtype = fastest_precision() if self.precision == "auto" else self.precision
        options = {**self.architecture_options(), "dtype": dtype}
        if tokenizer is None:
            return options
        return {**options, **self.kind_of_positions.tokenizer_options(source_tokenizer, tokenizer)}

    def optimizer_options(self) -> dict[str, Any]:
        """Return the arguments of `transformer_optimizer`, except the model's width and dtype."""
        return {
            "optimizer": self.optimizer,
            "rms_rate": self.rms_rate,
            "warmup_steps": self.warmup_steps,
            "scale": self.learning_rate_scale,
            "global_clipnorm": self.global_clipnorm,
            "cooldown": self.cooldown,
        }

    def make_optimizer(self, model: keras.Model) -> keras.optimizers.Optimizer:
        """Return the optimizer for a `build_transformer` model. Call this in the devices' scope."""
        from keras_transformer.models.transformer import Transformer
        from keras_transformer.optimizers import transformer_optimizer

        transformer = Transformer.of(model)
        dtype = transformer.dtype_policy.compute_dtype
        return transformer_optimizer(
            transformer.hidden_dim, dtype=dtype, **self.optimizer_options()
        )

    def compile(
        self,
        model: keras.Model,
        loss: LabelSmoothingCrossEntropy,
        accumulate: int = 1,
        special_tokens: SpecialTokens | None = None,
    ) -> keras.Model:
        """Return a compiled model, ready for `fit`. Call this method in the devices' scope.

        Args:
            model: a model from `build_transformer`.
            loss: loss function with reduction "sum".
            accumulate: number of slices of a batch per device, such as `TrainingRun.accumulate`.
            special_tokens: special tokens of the tokenizer, which delimit sentences in packed rows.
                None means the default ids.

        Returns:
            A `training.training_model` with the layers of `model`, the optimizer from
            `make_optimizer` and the metrics from `metrics.training_metrics`.

        Raises:
            ValueError: see `training.training_model`.
        """
        from keras_transformer.metrics import training_metrics
        from keras_transformer.training.training_models import training_model

        graph = self.graph(model, special_tokens)
        exact = training_model(graph, accumulate, r_drop=self.r_drop)
        exact.compile(
            self.make_optimizer(model),
            loss,
            **training_metrics(loss),
            jit_compile=self.jit_compile(),
        )
        return exact

    def training_options(self) -> TrainingKeywords:
        """Return the fields of `TrainingOptions` that are determined by settings of the same name.

        Subclasses add the fields that depend on settings with different names.
        """
        fields = {field.name for field in dataclasses.fields(TrainingOptions)}
        named: Any = {name: value for name, value in self.to_dict().items() if name in fields}
        return {
            **named,
            "accumulate": self.micro_batches,
            "may_change": self.may_change,
            "settings": self.decided().to_dict(),
        }

    def search_options(self) -> dict[str, Any]:
        """Return the search options as arguments of `Translator` and `Parser`."""
        return {name: getattr(self, name) for name in SEARCH_SETTINGS}

    def micro_batches(self, replicas: int) -> int:
        """Return the number of parts into which each replica divides its share of a step.

        Args:
            replicas: total number of replicas on all machines.
        """
        if self.accumulate is not None:
            return self.accumulate
        if self.device_tokens is None:
            return 1
        batch_tokens = typing.cast(int, self.batch_tokens)  # the preset's value instead of None
        if self.r_drop:
            batch_tokens *= 2  # a batch is processed twice, side by side
        return -(-batch_tokens // (replicas * self.device_tokens))

    def graph(self, model: keras.Model, special_tokens: SpecialTokens | None = None) -> keras.Model:
        """Return a `build_transformer` model in the form that `plan_options` batches require."""
        from keras_transformer.models.transformer import Transformer

        return Transformer.of(model).packed(special_tokens) if self.packs() else model

    def jit_compile(self) -> bool:
        """Whether XLA compiles the step."""
        import keras

        from keras_transformer.training.devices.device_start import compiles_by_default

        if keras.backend.backend() == "jax":
            return True
        if self.xla == "auto":
            return compiles_by_default() and not self.deterministic
        return self.xla == "on"

    def packs(self) -> bool:
        """Whether rows contain several pairs."""
        return self.jit_compile() if self.packing == "auto" else self.packing == "on"

    def decided(self) -> Self:
        """Return the settings with "auto" replaced by its current value, kept by resumed runs."""
        words: Any = {
            "xla": switch_name(self.jit_compile()),
            "packing": switch_name(self.packs()),
        }
        return dataclasses.replace(self, **words)

    def plan_options(self) -> dict[str, Any]:
        """Return the arguments of `data.plan_batches`."""
        packing = self.packs()
        return {
            "batch_tokens": self.batch_tokens,
            "seed": self.seed,
            "shapes": MOST_SHAPES if self.jit_compile() and not packing else None,
            "packing": packing,
        }
