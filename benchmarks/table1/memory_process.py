"""A process that measures the memory of one layer at one length: its request is its argument."""

import gc
import json
import re
import sys
from pathlib import Path

from benchmarks.table1.layer_types import Sizes
from keras_transformer.backend_start import start_backend_quietly

_ACCOUNT = Path("/proc/self/status")
# A pass over so few positions starts all that a backend starts once.
_FEW = 16


def main(request: str) -> None:
    """Print the memory in bytes that a pass takes at its peak.

    On an accelerator it is the device's. Else it is that of this process, above what it had after a
    pass over a few positions: TensorFlow keeps what it has freed, so the first pass counts.

    Args:
        request: JSON object of the arguments of `compiled_pass`.
    """
    arguments = json.loads(request)
    sizes = Sizes(**arguments.pop("sizes"))
    start_backend_quietly(devices=False)
    from benchmarks.table1.compiled_pass import compiled_pass
    from keras_transformer.training.devices.device_memory import peak_device_memory

    compiled_pass(**{**arguments, "length": _FEW}, sizes=sizes)()
    gc.collect()
    before = _kibibytes("VmRSS")
    compiled_pass(**arguments, sizes=sizes)()
    print(peak_device_memory() or 1024 * max(0, _kibibytes("VmHWM") - before))


def _kibibytes(name: str) -> int:
    """An entry of this process's account. A child's `ru_maxrss` would include its parent's."""
    found = re.search(rf"^{name}:\s+(\d+) kB$", _ACCOUNT.read_text("utf-8"), re.MULTILINE)
    assert found is not None
    return int(found[1])


if __name__ == "__main__":
    main(sys.argv[1])
