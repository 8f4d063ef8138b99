"""What a training did."""

import dataclasses

from keras_transformer.cli.program import HUNG_UP, INTERRUPTED, TERMINATED

EXIT_CODES = {"interrupted": INTERRUPTED, "terminated": TERMINATED, "hung up": HUNG_UP}


@dataclasses.dataclass(frozen=True)
class FitRecord:
    """What a training did, before and after every resume.

    Args:
        steps: updates done.
        seconds: time on the clock, validation and saving included.
        target_tokens_per_second: speed of the training steps, without those that trace or compile:
            the first after each start, or the first of each shape if every shape is compiled.
        stopped_because: "steps" or "minutes", the limit that was reached; "patience", which ran
            out; "interrupted" by Ctrl-C; "terminated" by SIGTERM; "hung up" by SIGHUP; "data",
            which came to its end.
        target_tokens: tokens trained on.
        training_seconds: time of the training steps alone.
        step_seconds: mean time of a step, without those that trace or compile.
        flops: floating-point operations of all steps, if known.
        flop_utilisation: share of the devices' peak speed that was used, without steps that trace
            or compile, if known; None if the devices were others before a break.
        device_seconds: `seconds` times the number of devices, where that changed at a break each
            part with its own; None if they were of several kinds.
    """

    steps: int
    seconds: float
    target_tokens_per_second: float
    stopped_because: str
    target_tokens: int = 0
    training_seconds: float = 0.0
    step_seconds: float = 0.0
    flops: int | None = None
    flop_utilisation: float | None = None
    device_seconds: float | None = None

    @property
    def interrupted(self) -> bool:
        """Whether a signal such as Ctrl-C ended the training."""
        return self.exit_code is not None

    @property
    def exit_code(self) -> int | None:
        """The program's exit code: 130 after Ctrl-C, 143 after SIGTERM, 129 after SIGHUP."""
        return EXIT_CODES.get(self.stopped_because)
