"""What a training did."""

import dataclasses

from keras_transformer.command_line.command_errors import HUNG_UP, INTERRUPTED, TERMINATED

EXIT_CODES = {"interrupted": INTERRUPTED, "terminated": TERMINATED, "hung up": HUNG_UP}


@dataclasses.dataclass(frozen=True)
class FitRecord:
    """What a training did.

    Args:
        steps: updates done, over the training's whole life.
        seconds: time on the clock, validation and saving included, over its whole life.
        target_tokens_per_second: of the training steps alone, without those that trace or compile:
            the first after each start, or the first of each shape where every shape is compiled.
        stopped_because: "steps" or "minutes", the limit that was reached; "patience", which ended;
            "interrupted", by Ctrl-C; "terminated", by SIGTERM; "hung up", by SIGHUP; "data", which
            came to its end.
        target_tokens: those trained on, over the training's whole life.
        training_seconds: time of the training steps alone, over its whole life.
        step_seconds: mean time of a step, without those that trace or compile.
        flops: floating-point operations of all steps, or None where `work` does not know them.
        flop_utilisation: share of the devices' peak that the steps came to, without those that
            trace or compile, or None where it is not known.
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

    @property
    def interrupted(self):
        """Whether a signal such as Ctrl-C ended it: there is more to train."""
        return self.exit_code is not None

    @property
    def exit_code(self):
        """The exit code of a program that ends with it, as shells count it, or None.

        130 after Ctrl-C, 143 after SIGTERM, 129 after SIGHUP.
        """
        return EXIT_CODES.get(self.stopped_because)
