"""Describes the machine and its environments without importing a numeric library."""

import os
import platform
import shutil
import subprocess
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PEERS_PYTHON = ROOT / ".venv-peers" / "bin" / "python"

# Processor flags that determine the speed of matrix products.
_FLAGS = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_bf16", "amx_int8", "amx_tile")


def machine() -> dict[str, Any]:
    """Return the processor, its cores and flags, and the memory in bytes."""
    facts = _processor_facts()
    flags = facts.get("flags", "").split()
    return {
        "processor": facts.get("model name", platform.machine()),
        "cores": len(os.sched_getaffinity(0)),
        "flags": [flag for flag in _FLAGS if flag in flags],
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "gpus": _gpus(),
        "system": platform.platform(),
        "python": platform.python_version(),
    }


def peers_python() -> str | None:
    """Return the Python executable of the peers' environment, or None."""
    return shutil.which(PEERS_PYTHON)


def _gpus() -> list[str]:
    """Return the names of the NVIDIA GPUs."""
    try:
        query = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
        return subprocess.run(query, capture_output=True, text=True, check=True).stdout.splitlines()
    except (OSError, subprocess.CalledProcessError):
        return []


def _processor_facts() -> dict[str, str]:
    """Return the names and values of the entries for the first processor."""
    try:
        block = Path("/proc/cpuinfo").read_text(encoding="utf-8").split("\n\n")[0]
    except OSError:
        return {}
    pairs = (line.partition(":") for line in block.splitlines())
    return {name.strip(): value.strip() for name, _, value in pairs}
