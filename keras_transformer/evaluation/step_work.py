"""The operations in a training step, and the speed of devices."""

import dataclasses
import functools
import re
from collections.abc import Callable, Hashable, Iterable
from typing import Literal, NamedTuple, Protocol, overload

import keras
import numpy as np
from numpy.typing import ArrayLike, NDArray

from keras_transformer.argument_checks import check_one_of
from keras_transformer.data import BatchPlan
from keras_transformer.errors import refuse
from keras_transformer.layers import MultiHeadAttention
from keras_transformer.layers.transformer_layers import TransformerLayer
from keras_transformer.models import Transformer

TERA = 1e12
FROM_SETTING = "device_tflops"
FROM_PAPER = "Vaswani et al. (2017), footnote 5"
FROM_PEAK = "the device's peak"
PRECISIONS = ("float32", "mixed_float16", "mixed_bfloat16")
# Parts of a GPU's name other than the chip: vendor, product line, memory size and type, socket.
SAYS_NOTHING = re.compile(r"nvidia|tesla|geforce|\d+gb|hbm\d\w*|sxm\d?")


class _Peaks(NamedTuple):
    """TFLOP/s of matrix products without sparsity, or None if the chip lacks the format.

    float32 means the arithmetic that TensorFlow and JAX use by default for float32: TensorFloat-32
    since Ampere, bfloat16 on TPUs. The 16-bit formats accumulate in float32.
    """

    mixed_float16: float | None
    mixed_bfloat16: float | None
    float32: float


# NVIDIA data sheets and white papers, at boost clock (half of their values with sparsity), and
# https://cloud.google.com/tpu/docs. A K80 is two devices; on TPU v2 and v3, each core is a device.
PEAKS = {
    "k80": _Peaks(None, None, 4.37),
    **dict.fromkeys(("k40", "k40c", "k40m"), _Peaks(None, None, 5.04)),
    "m40": _Peaks(None, None, 6.84),
    "p100": _Peaks(21.2, None, 10.6),
    "p100 pcie": _Peaks(18.7, None, 9.3),
    "v100": _Peaks(125.0, None, 15.7),
    "v100 pcie": _Peaks(112.0, None, 14.0),
    "v100s pcie": _Peaks(130.0, None, 16.4),
    "t4": _Peaks(65.0, None, 8.1),
    "a10": _Peaks(125.0, 125.0, 62.5),
    "a30": _Peaks(165.0, 165.0, 82.0),
    "a40": _Peaks(149.7, 149.7, 74.8),
    **dict.fromkeys(("a100", "a100 pcie"), _Peaks(312.0, 312.0, 156.0)),
    "rtx 3090": _Peaks(71.0, 71.0, 35.6),
    "rtx 4090": _Peaks(165.2, 165.2, 82.6),
    "l4": _Peaks(121.0, 121.0, 60.0),
    "l40s": _Peaks(362.0, 362.0, 183.0),
    **dict.fromkeys(("h100", "h200"), _Peaks(989.4, 989.4, 494.7)),
    **dict.fromkeys(("h100 nvl", "h200 nvl"), _Peaks(835.5, 835.5, 417.5)),
    "h100 pcie": _Peaks(756.0, 756.0, 378.0),
    "b200": _Peaks(2250.0, 2250.0, 1125.0),
    "tpu v2": _Peaks(None, 22.5, 22.5),
    "tpu v3": _Peaks(None, 61.5, 61.5),
    "tpu v4": _Peaks(None, 275.0, 275.0),
    **dict.fromkeys(("tpu v5 lite", "tpu v5e"), _Peaks(None, 197.0, 197.0)),
    **dict.fromkeys(("tpu v5", "tpu v5p"), _Peaks(None, 459.0, 459.0)),
    **dict.fromkeys(("tpu v6 lite", "tpu v6e"), _Peaks(None, 918.0, 918.0)),
}

# Vaswani et al. (2017), footnote 5, for single-precision training.
SUSTAINED = {"k80": 2.8, "k40": 3.7, "k40c": 3.7, "k40m": 3.7, "m40": 6.0, "p100": 9.5}
SUSTAINED["p100 pcie"] = SUSTAINED["p100"]


def device_peak(device_name: str, precision: str = "float32") -> float | None:
    """Return the peak dense FLOP/s of a device, or None if unknown.

    `device_name` is the backend's name for the device, and `precision` is a dtype policy. The peak
    is unknown for CPUs, GPU partitions (MIG), devices that are not in the table, and formats that
    the device does not support.

    Example:
        >>> device_peak("NVIDIA A100-SXM4-80GB", "mixed_bfloat16") / 1e12
        312.0
        >>> device_peak("NVIDIA GeForce RTX 4090 Laptop GPU") is None
        True
    """
    check_one_of("precision", precision, PRECISIONS)
    peaks = PEAKS.get(_chip(device_name))
    value = peaks and getattr(peaks, precision)
    return value and value * TERA


def paper_sustained(device_name: str) -> float | None:
    """Return the sustained FLOP/s that the paper assumes for a device, or None if unknown."""
    value = SUSTAINED.get(_chip(device_name))
    return value and value * TERA


def _chip(device_name: str) -> str:
    """Return the name without words that match `SAYS_NOTHING`; other words identify the chip."""
    words = re.split(r"[^a-z0-9]+", device_name.lower())
    return " ".join(word for word in words if word and not SAYS_NOTHING.fullmatch(word))


class DevicesOfAKind(Protocol):
    """The attributes of `training.Devices` that `DeviceSpeed` needs."""

    device_name: str
    replicas: int


@dataclasses.dataclass(frozen=True)
class DeviceSpeed:
    """The devices of a training run, all of the same kind.

    Args:
        device: the backend's name for the kind of device.
        number: number of devices.
        peak_flops: peak FLOP/s of one device, if known.
        sustained_flops: sustained FLOP/s of one device, used in the paper's estimate of the
            training cost, if known.
        sustained_from: the source of `sustained_flops`.

    Example:
        >>> from keras_transformer.training import Devices
        >>> speed = DeviceSpeed.of(Devices("NVIDIA H200", replicas=8), "mixed_bfloat16")
        >>> f"{speed.total_peak_flops:.2e}", speed.sustained_from
        ('7.92e+15', "the device's peak")
    """

    device: str
    number: int
    peak_flops: float | None = None
    sustained_flops: float | None = None
    sustained_from: str | None = None

    @classmethod
    def of(
        cls, devices: DevicesOfAKind, precision: str = "float32", device_tflops: float | None = None
    ) -> "DeviceSpeed":
        """Look up the speed of devices.

        Args:
            devices: the devices of the training run.
            precision: dtype policy of the training run.
            device_tflops: TFLOP/s of one device, which overrides the known value.

        Returns:
            A `DeviceSpeed`. The sustained speed is the value in the paper, if there is one.
            Otherwise, it is the peak, so the cost is an upper bound.
        """
        device, number = devices.device_name, devices.replicas
        if device_tflops is not None:
            given = float(device_tflops) * TERA
            return cls(device, number, given, given, FROM_SETTING)
        peak, sustained = device_peak(device, precision), paper_sustained(device)
        if sustained is not None:
            return cls(device, number, peak, sustained, FROM_PAPER)
        return cls(device, number, peak, peak, None if peak is None else FROM_PEAK)

    @property
    def total_peak_flops(self) -> float | None:
        """Peak FLOP/s of all devices together, if known."""
        return None if self.peak_flops is None else self.peak_flops * self.number


def model_precision(model: keras.Model) -> str:
    """Return the dtype policy of a model's layers, or the mixed policy if any layer has one."""
    policies = {layer.dtype_policy.name for layer in model.layers if layer.weights}
    return max(policies, key=lambda name: (name.startswith("mixed"), name), default="float32")


KEPT_STEPS = 64
# The gradient of a product needs two products of the same size, one for each factor.
TRAINING_PER_FORWARD = 3


@dataclasses.dataclass(frozen=True)
class StepWork:
    """The amount of work in each training step, for progress meters.

    The functions take a zero-based step number. None means unknown.

    Args:
        target_tokens: number of target tokens, including the end of sentence and excluding padding.
        padding_share: share of padding in the batch.
        flops: floating-point operations for the real tokens.
        peak_flops: peak FLOP/s of all devices together, if known; see `DeviceSpeed`.
        shape_to_compile: shape that triggers a new compilation if it has not occurred before; by
            default, all steps have the same shape.

    Example:
        >>> work = StepWork(target_tokens=lambda step: 100, flops=lambda step: 5_000)
        >>> work.total("target_tokens", range(3)), work.total("flops", range(3))
        (300, 15000)
    """

    target_tokens: Callable[[int], int]
    padding_share: Callable[[int], float] | None = None
    flops: Callable[[int], int] | None = None
    peak_flops: float | None = None
    shape_to_compile: Callable[[int], Hashable] = lambda step: None

    @classmethod
    def of(cls, plan: BatchPlan, model: keras.Model, peak_flops: float | None = None) -> "StepWork":
        """Return the work of the steps in a batch plan.

        Args:
            plan: batch plan for the training text.
            model: a model from `build_transformer`, or a training model with the same layers.
            peak_flops: see the class.
        """
        count = TransformerFlops(model)
        passes = 2 if getattr(model, "r_drop", 0) else 1

        def flops(step: int) -> int:
            pairs = plan.batch(step)
            return passes * count.training(plan.source_lengths[pairs], plan.target_lengths[pairs])

        cache = functools.lru_cache(KEPT_STEPS)  # several callbacks request the same steps
        work = cls(
            cache(plan.target_tokens), cache(plan.padding_share_of), cache(flops), peak_flops
        )
        if plan.shapes is None:
            return work
        return dataclasses.replace(work, shape_to_compile=plan.padded_shape)

    @overload
    def total(self, name: Literal["target_tokens"], steps: Iterable[int]) -> int: ...

    @overload
    def total(self, name: Literal["flops"], steps: Iterable[int]) -> int | None: ...

    def total(self, name: Literal["target_tokens", "flops"], steps: Iterable[int]) -> int | None:
        """Return the sum over zero-based steps, or None if unknown."""
        function = getattr(self, name)
        return None if function is None else sum(int(function(step)) for step in steps)


class TransformerFlops:
    """Counts the operations in matrix products based on sentence lengths.

    The product of an m x k and a k x n matrix counts as 2mnk. Attention counts all pairs of
    positions in a sentence, because it computes all of them; a causal mask saves nothing.
    Restricted self-attention counts, for each position, the positions visible from the middle of
    a sentence. Padding does not count. Softmax, normalization, dropout, embedding lookups and
    the optimizer are excluded; they account for a few percent in a small model and less than one
    percent in a large model.

    Args:
        model: a model from `build_transformer`, or a training model with the same layers.

    Raises:
        ValueError: the model lacks the layers of `build_transformer`.

    Example:
        >>> from keras_transformer.models import build_transformer
        >>> flops = TransformerFlops(build_transformer("tiny", vocabulary_size=8000))
        >>> flops.training([12, 7], [10, 8]) == 3 * flops.forward([12, 7], [10, 8])
        True

    Reference: Chowdhery et al., "PaLM: Scaling Language Modeling with Pathways", 2022, appendix B.
    """

    def __init__(self, model: keras.Model) -> None:
        layers = Transformer.of(model)
        if layers.is_causal:
            refuse("model", "come from `build_transformer`", layers.name)
        embedding = layers.target_embedding
        width = embedding.hidden_dim
        encoder = [_Counts(layer.attention, width, layer) for layer in layers.encoder_layers]
        decoder = [_Counts(layer.cross_attention, width, layer) for layer in layers.decoder_layers]
        self._per_source_token = sum(c.self_projections + c.feed_forward for c in encoder)
        self._per_source_token += sum(c.memory_projections for c in decoder)
        self._per_target_token = 2 * width * embedding.vocabulary_size
        self._per_target_token += sum(
            c.self_projections + c.query_projections + c.feed_forward for c in decoder
        )
        self._encoder, self._decoder = encoder, decoder

    def forward(self, source_lengths: ArrayLike, target_lengths: ArrayLike) -> int:
        """Return the operations in the forward pass, including logits.

        Args:
            source_lengths: source tokens per sentence, including EOS: integers `(sentences,)`.
            target_lengths: target tokens per sentence, including EOS: integers `(sentences,)`.
        """
        source = np.asarray(source_lengths, dtype="int64")
        target = np.asarray(target_lengths, dtype="int64")
        return int(
            self._per_source_token * source.sum()
            + self._per_target_token * target.sum()
            + sum(c.self_attention(source) for c in self._encoder)
            + sum(c.self_attention(target) for c in self._decoder)
            + sum(c.attention for c in self._decoder) * (target * source).sum()
        )

    def training(self, source_lengths: ArrayLike, target_lengths: ArrayLike) -> int:
        """Return the operations in a forward and backward pass over all weights; see `forward`."""
        return TRAINING_PER_FORWARD * self.forward(source_lengths, target_lengths)


class _Counts:
    """The operations in a layer per token; `attention` is per pair of tokens."""

    def __init__(self, attention: MultiHeadAttention, width: int, layer: TransformerLayer) -> None:
        self.attention = 2 * attention.num_heads * (attention.key_dim + attention.value_dim)
        self.query_projections = width * self.attention  # and the output projection
        self.memory_projections = width * self.attention  # keys and values
        self.self_projections = self.query_projections + self.memory_projections
        self.window = layer.attention_window
        self.pairs = self.attention
        if getattr(layer, "decoder_unit", "attention") == "ssru":
            self.self_projections, self.pairs = 4 * width * width, 0
        self.feed_forward = 4 * width * layer.intermediate_dim

    def self_attention(self, lengths: NDArray[np.int64]) -> int:
        """Return the operations in self-attention for sentences of the given lengths."""
        seen = lengths if self.window is None else np.minimum(lengths, self.window)
        return self.pairs * int((lengths * seen).sum())
