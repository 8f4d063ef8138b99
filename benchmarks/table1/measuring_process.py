"""A process that measures at one length; it prints its result as a line of JSON."""

import gc
import json
import re
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.table1.layer_types import Sizes
from keras_transformer.installation import start_backend_quietly

# A pass over so few positions triggers everything that a backend initializes only once.
_FEW = 16


def main(request: str) -> None:
    """Print the measurements.

    Args:
        request: JSON object with the arguments of `seconds` or `peak_bytes`; `measure` contains the
            name of this function.
    """
    arguments = json.loads(request)
    measures: dict[str, Callable[..., Any]] = {"seconds": seconds, "peak_bytes": peak_bytes}
    measure = measures[arguments.pop("measure")]
    start_backend_quietly(devices=False)
    sizes = Sizes(**arguments.pop("sizes"))
    print(json.dumps(measure(sizes=sizes, **arguments)))


def seconds(
    names: Sequence[str], sizes: Sizes, length: int, xla: bool, rounds: int
) -> dict[str, list[float]]:
    """The seconds of each round by layer.

    All layers run once per round, so that other processes affect all of them equally.

    Args:
        names: names of the layer types.
        sizes, length, xla: as in `compiled_pass`.
        rounds: number of rounds that count, after a warm-up round.
    """
    from benchmarks.table1.compiled_pass import compiled_pass

    passes = {name: compiled_pass(name, sizes, length, xla) for name in names}
    found: dict[str, list[float]] = {name: [] for name in names}
    for number in range(rounds + 1):
        for name, run in passes.items():
            started = time.perf_counter()
            run()
            if number:
                found[name].append(time.perf_counter() - started)
    return found


def peak_bytes(name: str, sizes: Sizes, length: int, xla: bool) -> int:
    """The peak memory of a pass.

    On an accelerator, this is the memory of the device. Otherwise, it is the memory of this process
    above its memory after a pass over a few positions. The first pass counts, because TensorFlow
    keeps the memory that it has freed.
    """
    from benchmarks.table1.compiled_pass import compiled_pass
    from keras_transformer.training.devices.devices import peak_device_memory

    compiled_pass(name, sizes, _FEW, xla)()
    gc.collect()
    before = _kibibytes("VmRSS")
    compiled_pass(name, sizes, length, xla)()
    return peak_device_memory() or 1024 * max(0, _kibibytes("VmHWM") - before)


def _kibibytes(name: str) -> int:
    """An entry of this process's status. A child's `ru_maxrss` would include its parent's."""
    account = Path("/proc/self/status").read_text("utf-8")
    found = re.search(rf"^{name}:\s+(\d+) kB$", account, re.MULTILINE)
    assert found is not None
    return int(found[1])


if __name__ == "__main__":
    main(sys.argv[1])
