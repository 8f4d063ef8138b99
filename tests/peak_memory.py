"""How much memory this process takes at most, C and C++ libraries included, as Linux counts it."""

import contextlib
import pathlib

import pytest

_REFERENCES = pathlib.Path("/proc/self/clear_refs")
needs_linux = pytest.mark.skipif(not _REFERENCES.exists(), reason="Linux counts memory")


@contextlib.contextmanager
def peak_memory():
    """Yield a function of the most bytes beyond those of the beginning; 0 outside of Linux."""
    if not _REFERENCES.exists():
        yield lambda: 0
        return
    _REFERENCES.write_text("5")  # forgets the earlier peak
    before = _resident("VmRSS")
    yield lambda: _resident("VmHWM") - before


def _resident(name):
    lines = pathlib.Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(f"{name}:"))
