"""Measures each layer at each length: its time here, in turns, its memory in its own process."""

import dataclasses
import gc
import json
import subprocess
import sys
import time
from collections.abc import Sequence

from benchmarks.peers.machine import ROOT
from benchmarks.table1.compiled_pass import compiled_pass
from benchmarks.table1.layer_types import Sizes
from keras_transformer.errors import UserInputError


@dataclasses.dataclass(frozen=True)
class Measuring:
    """What is measured, and how.

    Args:
        names: names of the layers' types.
        sizes: sizes of the layers.
        rounds: rounds that count, after one that does not.
        xla: whether XLA compiles on TensorFlow.
    """

    names: Sequence[str]
    sizes: Sizes
    rounds: int
    xla: bool

    def seconds(self, length: int) -> dict[str, list[float]]:
        """Seconds of each round by layer.

        All layers run once a round: other work on the machine disturbs them alike.
        """
        passes = {name: compiled_pass(name, self.sizes, length, self.xla) for name in self.names}
        found: dict[str, list[float]] = {name: [] for name in self.names}
        for number in range(self.rounds + 1):
            for name, run in passes.items():
                started = time.perf_counter()
                run()
                if number:
                    found[name].append(time.perf_counter() - started)
        del passes, run
        gc.collect()
        return found

    def peak_bytes(self, length: int) -> dict[str, int]:
        """Memory that a pass takes at its peak, by layer, each in a process of its own."""
        return {name: self._peak_bytes(name, length) for name in self.names}

    def _peak_bytes(self, name: str, length: int) -> int:
        sizes = dataclasses.asdict(self.sizes)
        request = {"name": name, "sizes": sizes, "length": length, "xla": self.xla}
        command = [sys.executable, "-m", "benchmarks.table1.memory_process", json.dumps(request)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        if done.returncode:
            lines = done.stderr.strip().splitlines()
            raise UserInputError(
                f"The process that measures the memory of {name} at {length:,} positions ended "
                f"with {done.returncode}: {lines[-1] if lines else 'no message'}"
            )
        return int(done.stdout.split()[-1])
