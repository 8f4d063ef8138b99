"""The options for training in a run directory."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from keras_transformer.argument_checks import (
    check_one_of,
    check_positive_int,
    check_positive_number,
    python_number,
)
from keras_transformer.files import is_quiet
from keras_transformer.types import PathLike

if TYPE_CHECKING:
    from keras_transformer.runs.run_directory import RunDirectory
    from keras_transformer.training.devices.devices import Devices

_COUNTS = ("steps", "save_every", "keep_last", "keep_best", "patience", "log_every")
_MAY_BE_NONE = ("steps", "patience")


class TrainingKeywords(TypedDict, total=False):
    """Types of the `TrainingOptions` fields, for functions that accept them as `**options`."""

    steps: int | None
    minutes: float | None
    save_every: int
    keep_last: int
    keep_best: int
    monitor: str
    mode: Literal["min", "max"]
    patience: int | None
    tensorboard: bool
    layer_diagnostics: bool
    log_every: int
    show_progress: bool
    resume: bool
    overwrite: bool
    origin: PathLike | None
    check_origin: "Callable[[RunDirectory], object] | None"
    needs_origin: bool
    settings: dict[str, Any] | None
    may_change: Sequence[str]
    seed: int
    deterministic: bool
    replicas: int | None
    devices: "Devices | None"
    accumulate: int | Callable[[int], int]
    device_tflops: float | None
    probe: bool
    command: str
    results: Sequence[str]


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingOptions:
    """Options for limits, checkpoints, logs, resuming and devices of a training run.

    Args:
        steps: number of updates after which training stops.
        minutes: minutes after which training stops, including time before training was resumed.
            At least one of the two limits is required.
        save_every: number of updates between two validations and checkpoints.
        keep_last: number of most recent checkpoints to keep.
        keep_best: number of best checkpoints to keep as well.
        monitor: name of the value that ranks checkpoints.
        mode: whether lower ("min") or higher ("max") values of `monitor` are better.
        patience: number of consecutive validations without improvement after which training stops.
        tensorboard: whether to write event files into the run directory.
        layer_diagnostics: whether to write layers.csv at each validation; see `LayerDiagnostics`.
        log_every: number of updates between two rows of metrics.csv.
        show_progress: whether to show the progress bar and describe the model and the devices.
        resume: whether to resume the run in the directory; without a run, a new run is started.
        overwrite: whether to replace the run in the directory.
        origin: path of the run that provides the initial model.
        check_origin: called with the `RunDirectory` of `origin`; may raise an error to refuse it.
        needs_origin: whether to refuse to start without `origin`, because LoRA adapters are only
            useful in a trained model.
        settings: JSON-compatible training settings, which must not change when training is resumed.
        may_change: names of settings that may change when training is resumed.
        seed: random seed for weights and dropout.
        deterministic: whether training must be reproducible with bit-equal losses.
        replicas: number of devices on each machine; see `start_devices`. None means all GPUs, or
            the CPU as one device.
        devices: the devices, if they have already been started.
        accumulate: number of slices of a batch that each device processes sequentially, or a
            function that computes this number from the number of devices on all machines.
        device_tflops: TFLOP/s of one device. None means the known value for the device, if any.
        probe: whether to test the largest batch first.
        command: command line that started training, for the run's records.
        results: names of additional files that are written to the run directory at the end. Like
            the final weights, the scores and the tuned search options, they are removed when
            training continues.

    Raises:
        ValueError: both limits are missing, or an option is invalid.
    """

    steps: int | None = None
    minutes: float | None = None
    save_every: int = 1000
    keep_last: int = 5
    keep_best: int = 1
    monitor: str = "val_perplexity"
    mode: Literal["min", "max"] = "min"
    patience: int | None = None
    tensorboard: bool = True
    layer_diagnostics: bool = False
    log_every: int = 50
    show_progress: bool = dataclasses.field(default_factory=lambda: not is_quiet())
    resume: bool = False
    overwrite: bool = False
    origin: PathLike | None = None
    check_origin: "Callable[[RunDirectory], object] | None" = None
    needs_origin: bool = False
    settings: dict[str, Any] | None = None
    may_change: Sequence[str] = ()
    seed: int = 1
    deterministic: bool = False
    replicas: int | None = None
    devices: "Devices | None" = None
    accumulate: int | Callable[[int], int] = 1
    device_tflops: float | None = None
    probe: bool = True
    command: str = ""
    results: Sequence[str] = ()

    def __post_init__(self) -> None:
        if self.steps is None and self.minutes is None:
            raise ValueError("One of `steps` and `minutes` must be given. Received: None for both")
        for name in _COUNTS:
            value = getattr(self, name)
            if value is not None or name not in _MAY_BE_NONE:
                check_positive_int(name, value)
        if self.minutes is not None:
            check_positive_number("minutes", self.minutes)
        check_one_of("mode", self.mode, ("min", "max"))
        for name in (*_COUNTS, "minutes"):
            object.__setattr__(self, name, python_number(getattr(self, name)))

    def slices(self, replicas: int) -> int:
        """Return the number of slices of a batch on each of `replicas` devices."""
        return self.accumulate(replicas) if callable(self.accumulate) else self.accumulate
