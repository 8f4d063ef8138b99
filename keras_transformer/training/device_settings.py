"""Settings of the devices that a training runs on: the same in every recipe."""

import dataclasses

import keras

from keras_transformer.errors import UserInputError
from keras_transformer.settings import Settings, setting

# XLA compiles one program for each shape of a batch, and that takes seconds to minutes.
MOST_SHAPES = 16
# What a training that is resumed may have otherwise: its updates stay the same, up to rounding.
DEVICE_SETTINGS_THAT_MAY_CHANGE = (
    "replicas",
    "accumulate",
    "device_tokens",
    "device_tflops",
    "probe",
)


@dataclasses.dataclass(frozen=True)
class DeviceSettings(Settings):
    """Devices, memory and number format; a recipe's settings derive from it.

    A step's batch, its loss and its update depend on none of `replicas`, `accumulate` and
    `device_tokens`.
    """

    replicas: int | None = setting(
        None,
        "devices of each machine: GPUs, or parts of its CPU; none: every GPU, or the CPU as one",
        minimum=1,
    )
    accumulate: int | None = setting(
        None,
        "parts a step is computed in one after another, for little memory; none: as few as "
        "device-tokens allows",
        minimum=1,
    )
    device_tokens: int | None = setting(
        None, "about the most tokens a side that fit into one device; none: all", minimum=1
    )
    precision: str = setting(
        "float32",
        "dtype policy of the layers; mixed_bfloat16 is twice as fast where the processor has it",
        choices=("float32", "mixed_bfloat16", "mixed_float16"),
    )
    xla: bool = setting(
        False,
        f"compile TensorFlow's step, for at most {MOST_SHAPES} shapes of batches; JAX always does",
    )
    device_tflops: float | None = setting(
        None,
        "peak of one device, for its utilisation and the cost; none: that of known devices",
        minimum=1e-6,
    )
    probe: bool = setting(
        True, "try the largest batch first: too little memory shows in the first minute"
    )
    deterministic: bool = setting(
        False, "bit-equal losses of two trainings with one seed; a third slower on a CPU"
    )

    def __post_init__(self):
        super().__post_init__()
        if self.accumulate is not None and self.device_tokens is not None:
            raise UserInputError(
                "`device_tokens` computes `accumulate`: give one of them. Received: "
                f"accumulate={self.accumulate}, device_tokens={self.device_tokens}"
            )

        if self.xla and self.deterministic and keras.backend.backend() == "tensorflow":
            raise UserInputError(
                "TensorFlow does not compile deterministic operations with XLA: say "
                "--no-deterministic. Received: xla=True, deterministic=True"
            )

    def micro_batches(self, replicas):
        """Parts that each replica computes its share of a step in.

        Args:
            replicas: number of replicas on all machines.
        """
        if self.accumulate is not None:
            return self.accumulate
        if self.device_tokens is None:
            return 1
        return -(-self.batch_tokens // (replicas * self.device_tokens))

    def jit_compile(self, backend):
        """Whether XLA compiles the step with a Keras backend.

        Keras's own "auto" would compile on a TensorFlow GPU for every shape that comes by.
        """
        return self.xla or backend == "jax"

    def shapes(self, backend):
        """Most shapes that batches may have with a Keras backend; None: any."""
        return MOST_SHAPES if self.jit_compile(backend) else None
