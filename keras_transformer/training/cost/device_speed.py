"""The speed of a training's devices."""

import dataclasses

import keras

from keras_transformer.training.cost.device_peaks import TERA, device_peak, paper_sustained
from keras_transformer.training.devices.devices import Devices

FROM_SETTING = "device_tflops"
FROM_PAPER = "Vaswani et al. (2017), footnote 5"
FROM_PEAK = "the device's peak"


@dataclasses.dataclass(frozen=True)
class DeviceSpeed:
    """The devices of a training, all of one kind.

    Args:
        device: the backend's name of their kind.
        number: number of devices.
        peak_flops: peak FLOP/s of one device, if known.
        sustained_flops: sustained FLOP/s of one device, as the paper counts the cost of a
            training, if known.
        sustained_from: the source of that number.

    Example:
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
        cls, devices: Devices, precision: str = "float32", device_tflops: float | None = None
    ) -> "DeviceSpeed":
        """Look up the devices.

        Args:
            devices: the devices of the training.
            precision: dtype policy of the training.
            device_tflops: TFLOP/s of one device, instead of the known value.

        Returns:
            A `DeviceSpeed`. The sustained speed is the paper's for devices that it names, else the
            peak, which makes the cost an upper bound.
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
    """Return the dtype policy of a model's layers; a mixed one if any layer has it."""
    policies = {layer.dtype_policy.name for layer in model.layers if layer.weights}
    return max(policies, key=lambda name: (name.startswith("mixed"), name), default="float32")
