"""Measures the layers at one length in separate processes, to release their memory."""

import dataclasses
import json
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from benchmarks.peers.machine import ROOT
from benchmarks.table1.layer_types import Sizes
from keras_transformer.errors import UserInputError


@dataclasses.dataclass(frozen=True)
class Measuring:
    """The layers to measure and the measuring options.

    Args:
        names: names of the layer types.
        sizes: sizes of the layers.
        rounds: number of timed rounds, after a warm-up round.
        xla: whether to compile with XLA on TensorFlow.
    """

    names: Sequence[str]
    sizes: Sizes
    rounds: int
    xla: bool

    def seconds(self, length: int) -> dict[str, list[float]]:
        """Return each layer's seconds per round. The layers alternate in one process."""
        return self._ask(length, measure="seconds", names=self.names, rounds=self.rounds)

    def peak_bytes(self, length: int) -> dict[str, int]:
        """Return each layer's peak memory for a pass, measured in separate processes."""
        return {name: self._ask(length, measure="peak_bytes", name=name) for name in self.names}

    def _ask(self, length: int, **request: Any) -> Any:
        """Return the result of a new process.

        Raises:
            UserInputError: the process failed, for example because of a lack of memory.
        """
        request |= {"length": length, "sizes": dataclasses.asdict(self.sizes), "xla": self.xla}
        command = [sys.executable, "-m", "benchmarks.table1.measuring_process", json.dumps(request)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        if done.returncode:
            lines = done.stderr.strip().splitlines()
            raise UserInputError(
                f"The process that measures {length:,} positions ended with {done.returncode}: "
                f"{lines[-1] if lines else 'no message'}"
            )
        return json.loads(done.stdout.splitlines()[-1])
