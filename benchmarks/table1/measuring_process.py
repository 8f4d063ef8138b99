"""A process that measures at one length: its request is its argument, its answer a line of JSON."""

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

# A pass over so few positions starts all that a backend starts once.
_FEW = 16


def main(request: str) -> None:
    """Print what was measured.

    Args:
        request: JSON object of the arguments of `seconds` or `peak_bytes`, and in `measure` the
            name of that function.
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
    """Seconds of each round by layer.

    All layers run once a round: other work on the machine disturbs them alike.

    Args:
        names: names of the layers' types.
        sizes, length, xla: as of `compiled_pass`.
        rounds: number of rounds that count, after one that does not.
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
    """The memory that a pass takes at its peak.

    On an accelerator it is the device's. Else it is that of this process, above what it had after a
    pass over a few positions: TensorFlow keeps what it has freed, so the first pass counts.
    """
    from benchmarks.table1.compiled_pass import compiled_pass
    from keras_transformer.training.devices.devices import peak_device_memory

    compiled_pass(name, sizes, _FEW, xla)()
    gc.collect()
    before = _kibibytes("VmRSS")
    compiled_pass(name, sizes, length, xla)()
    return peak_device_memory() or 1024 * max(0, _kibibytes("VmHWM") - before)


def _kibibytes(name: str) -> int:
    """An entry of this process's account. A child's `ru_maxrss` would include its parent's."""
    account = Path("/proc/self/status").read_text("utf-8")
    found = re.search(rf"^{name}:\s+(\d+) kB$", account, re.MULTILINE)
    assert found is not None
    return int(found[1])


if __name__ == "__main__":
    main(sys.argv[1])
