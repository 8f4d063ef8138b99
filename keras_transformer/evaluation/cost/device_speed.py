"""The speed of a training's devices: known peaks of accelerators, and the assumed speed."""

import dataclasses
import re
from typing import NamedTuple, Protocol

import keras

from keras_transformer.argument_checks import check_one_of

TERA = 1e12
FROM_SETTING = "device_tflops"
FROM_PAPER = "Vaswani et al. (2017), footnote 5"
FROM_PEAK = "the device's peak"
PRECISIONS = ("float32", "mixed_float16", "mixed_bfloat16")
# Parts of a GPU's name besides the chip: maker and line, size and kind of memory, socket.
SAYS_NOTHING = re.compile(r"nvidia|tesla|geforce|\d+gb|hbm\d\w*|sxm\d?")


class _Peaks(NamedTuple):
    """TFLOP/s of matrix products, without sparsity; None if the chip lacks the format.

    float32 is the default arithmetic of TensorFlow and JAX for it: TensorFloat-32 since Ampere,
    bfloat16 on TPUs. The 16-bit formats accumulate in float32.
    """

    mixed_float16: float | None
    mixed_bfloat16: float | None
    float32: float


# Data sheets and white papers of NVIDIA, at boost clock (half of their values with sparsity), and
# https://cloud.google.com/tpu/docs. A K80 is two devices; on TPU v2 and v3, each core is a device.
PEAKS = {
    "k80": _Peaks(None, None, 4.37),
    "k40": _Peaks(None, None, 5.04),
    "k40c": _Peaks(None, None, 5.04),
    "k40m": _Peaks(None, None, 5.04),
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
    "a100": _Peaks(312.0, 312.0, 156.0),
    "a100 pcie": _Peaks(312.0, 312.0, 156.0),
    "rtx 3090": _Peaks(71.0, 71.0, 35.6),
    "rtx 4090": _Peaks(165.2, 165.2, 82.6),
    "l4": _Peaks(121.0, 121.0, 60.0),
    "l40s": _Peaks(362.0, 362.0, 183.0),
    "h100": _Peaks(989.4, 989.4, 494.7),
    "h100 pcie": _Peaks(756.0, 756.0, 378.0),
    "h100 nvl": _Peaks(835.5, 835.5, 417.5),
    "h200": _Peaks(989.4, 989.4, 494.7),
    "h200 nvl": _Peaks(835.5, 835.5, 417.5),
    "b200": _Peaks(2250.0, 2250.0, 1125.0),
    "tpu v2": _Peaks(None, 22.5, 22.5),
    "tpu v3": _Peaks(None, 61.5, 61.5),
    "tpu v4": _Peaks(None, 275.0, 275.0),
    "tpu v5 lite": _Peaks(None, 197.0, 197.0),
    "tpu v5e": _Peaks(None, 197.0, 197.0),
    "tpu v5": _Peaks(None, 459.0, 459.0),
    "tpu v5p": _Peaks(None, 459.0, 459.0),
    "tpu v6 lite": _Peaks(None, 918.0, 918.0),
    "tpu v6e": _Peaks(None, 918.0, 918.0),
}

# Vaswani et al. (2017), footnote 5, for single-precision training.
SUSTAINED = {"k80": 2.8, "k40": 3.7, "k40c": 3.7, "k40m": 3.7, "m40": 6.0, "p100": 9.5}
SUSTAINED["p100 pcie"] = SUSTAINED["p100"]


def device_peak(device_name: str, precision: str = "float32") -> float | None:
    """Return the peak dense FLOP/s of a device, or None if unknown.

    `device_name` is the backend's name of the device, `precision` a dtype policy. The peak is
    unknown for CPUs, parts of a GPU (MIG), devices that are not in the table, and formats that the
    device lacks.

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
    """The name without the words in `SAYS_NOTHING`; any other word makes it a different chip."""
    words = re.split(r"[^a-z0-9]+", device_name.lower())
    return " ".join(word for word in words if word and not SAYS_NOTHING.fullmatch(word))


class DevicesOfAKind(Protocol):
    """The parts of `training.Devices` that `DeviceSpeed` needs."""

    device_name: str
    replicas: int


@dataclasses.dataclass(frozen=True)
class DeviceSpeed:
    """The devices of a training, all of one kind.

    Args:
        device: the backend's name for the kind of device.
        number: number of devices.
        peak_flops: peak FLOP/s of one device, if known.
        sustained_flops: sustained FLOP/s of one device, by which the paper estimates the training
            cost, if known.
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
        """Look up the devices.

        Args:
            devices: the devices of the training.
            precision: dtype policy of the training.
            device_tflops: TFLOP/s of one device, instead of the known value.

        Returns:
            A `DeviceSpeed`. The sustained speed is the paper's value for devices that it names.
            Otherwise it is the peak, so the cost is an upper bound.
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
    """Return the dtype policy of a model's layers; a mixed policy if any layer has one."""
    policies = {layer.dtype_policy.name for layer in model.layers if layer.weights}
    return max(policies, key=lambda name: (name.startswith("mixed"), name), default="float32")
