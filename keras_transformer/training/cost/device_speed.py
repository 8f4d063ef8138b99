"""How fast the devices of a training are, where it is known."""

import dataclasses

from keras_transformer.training.cost.device_peaks import TERA, device_peak, paper_sustained

FROM_SETTING = "device_tflops"
FROM_PAPER = "Vaswani et al. (2017), footnote 5"
FROM_PEAK = "the device's peak"


@dataclasses.dataclass(frozen=True)
class DeviceSpeed:
    """The devices of a training, all of one kind.

    Args:
        device: what the backend calls their kind.
        number: how many there are.
        peak_flops: floating-point operations a second that one can do at best, or None.
        sustained_flops: those it keeps up, as the paper counts the cost of a training, or None.
        sustained_from: where that number is from, or None.

    Example:
        >>> from keras_transformer.training.devices.devices import Devices
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
    def of(cls, devices, precision="float32", device_tflops=None):
        """Look the devices up.

        Args:
            devices: the `Devices` of the training.
            precision: dtype policy of the training.
            device_tflops: TFLOP/s of one device, which is taken in place of what is known of it, or
                None.

        Returns:
            A `DeviceSpeed`. What is sustained is the paper's value for the devices that it names,
            else the peak, which makes the cost an upper bound.
        """
        device, number = devices.device_name, devices.replicas
        if device_tflops is not None:
            given = float(device_tflops) * TERA
            return cls(device, number, given, given, FROM_SETTING)
        peak, sustained = device_peak(device, precision), paper_sustained(device)
        if sustained is not None:
            return cls(device, number, peak, sustained, FROM_PAPER)
        return cls(device, number, peak, peak, peak and FROM_PEAK)

    @property
    def total_peak_flops(self):
        """What all devices together can do in a second at best, or None."""
        return self.peak_flops and self.peak_flops * self.number
