"""The time of a training's devices, which may be others after a break."""

from typing import TypedDict

from keras_transformer.argument_checks import is_number
from keras_transformer.training.callbacks.running_clock import CLOCK
from keras_transformer.training.devices.devices import Devices


class DeviceProgress(TypedDict):
    """What a resumed `DeviceTime` continues from; None stands for what has changed."""

    device: str | None
    number: int | None
    seconds: float | None


class DeviceTime:
    """Counts the time on the clock times the number of devices, from now on.

    Args:
        devices: the devices.
        elapsed: seconds that the training took before it was resumed. They count as those of the
            same devices, unless `progress` is set.

    Attributes:
        progress: a `DeviceProgress`, to continue from after a break.
    """

    def __init__(self, devices: Devices, elapsed: float = 0.0) -> None:
        self._device: str | None = devices.device_name
        self._number: int | None = devices.replicas
        self._before: float | None = elapsed * devices.replicas
        self._replicas = devices.replicas
        self._began = CLOCK.seconds()

    @property
    def seconds(self) -> float | None:
        """Seconds times devices; None if they were of several kinds."""
        if self._before is None:
            return None
        return self._before + (CLOCK.seconds() - self._began) * self._replicas

    @property
    def changed(self) -> bool:
        """Whether the devices were others before a break, in kind or number."""
        return self._number is None

    @property
    def progress(self) -> DeviceProgress:
        return {"device": self._device, "number": self._number, "seconds": self.seconds}

    @progress.setter
    def progress(self, progress: DeviceProgress) -> None:
        seconds = progress["seconds"]
        if seconds is not None and not is_number(seconds):
            raise TypeError("seconds")
        if progress["number"] != self._number:
            self._number = None
        if progress["device"] == self._device:
            self._before = seconds
        else:
            self._device = self._number = self._before = None
