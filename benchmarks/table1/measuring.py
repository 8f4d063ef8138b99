"""Measures the layers at a length, in processes that end and leave their memory to the next."""

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
    """What is measured, and how.

    Args:
        names: names of the layers' types.
        sizes: sizes of the layers.
        rounds: rounds of times that count, after one that does not.
        xla: whether XLA compiles on TensorFlow.
    """

    names: Sequence[str]
    sizes: Sizes
    rounds: int
    xla: bool

    def seconds(self, length: int) -> dict[str, list[float]]:
        """Seconds of each round by layer, all of them in turn in one process."""
        return self._ask(length, measure="seconds", names=self.names, rounds=self.rounds)

    def peak_bytes(self, length: int) -> dict[str, int]:
        """Memory that a pass takes at its peak, by layer, each in a process of its own."""
        return {name: self._ask(length, measure="peak_bytes", name=name) for name in self.names}

    def _ask(self, length: int, **request: Any) -> Any:
        """The answer of a new process.

        Raises:
            UserInputError: it failed, such as for too little memory.
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
