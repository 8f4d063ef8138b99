"""A process that measures at one length and prints the result as a line of JSON."""

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

# A pass over so few positions is enough to trigger the backend's one-time initialization.
_FEW = 16


def main(request: str) -> None:
    """Print the measurements.

    Args:
        request: JSON object with the arguments of `seconds` or `peak_bytes`, and the name of this
            function as `measure`.
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
    """Return each layer's seconds per round.

    All layers run once per round, so other processes affect all of them equally.

    Args:
        names: names of the layer types.
        sizes, length, xla: see `compiled_pass`.
        rounds: number of timed rounds, after a warm-up round.
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
    """Return the peak memory of a pass.

    On an accelerator, this is device memory. Otherwise, it is the increase in this process's memory
    compared with a pass over a few positions. The first pass is measured, because TensorFlow does
    not return freed memory.
    """
    from benchmarks.table1.compiled_pass import compiled_pass
    from keras_transformer.training.devices.devices import peak_device_memory

    compiled_pass(name, sizes, _FEW, xla)()
    gc.collect()
    before = _kibibytes("VmRSS")
    compiled_pass(name, sizes, length, xla)()
    return peak_device_memory() or 1024 * max(0, _kibibytes("VmHWM") - before)


def _kibibytes(name: str) -> int:
    """Return an entry of this process's status. `ru_maxrss` would include the parent's memory."""
    account = Path("/proc/self/status").read_text("utf-8")
    found = re.search(rf"^{name}:\s+(\d+) kB$", account, re.MULTILINE)
    assert found is not None
    return int(found[1])


if __name__ == "__main__":
    main(sys.argv[1])
