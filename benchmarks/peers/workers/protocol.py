"""The worker's side. Requests and replies are JSON objects, one per line.

| request | reply |
|---|---|
| `{"command": "prepare", ...}`, the fields of `Job` | `{"ready": true, "versions": {...}}` |
| `{"command": "run"}` | `{"seconds": 1.5, "tokens": 1056}` |
| `{"command": "end"}` | `{"peak_bytes": 123456789}`, and the process ends |

The reply is `{"missing": "..."}` if a package is missing, or `{"error": "..."}` for any other
failure.
"""

import dataclasses
import importlib
import importlib.metadata
import json
import os
import resource
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TextIO

# Does the work once, or only a small first part if True. Returns the number of target tokens.
Work = Callable[[bool], int]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Job:
    """A job for a worker to prepare.

    Args:
        worker: module in `benchmarks.peers.workers`.
        row: fields of a `Row`.
        sizes: fields of the preset's sizes.
        precision: number format.
        inputs: input file.
        export: directory of the export to read, or None.
        threads: number of threads.
        packages: distributions whose versions to report.
    """

    worker: str
    row: dict[str, Any]
    sizes: dict[str, Any]
    precision: str
    inputs: str
    export: str | None
    threads: int
    packages: list[str]


def serve(requests: Iterable[str], replies: TextIO) -> None:
    """Answer requests until the `end` command."""
    work: list[Work] = []
    for line in requests:
        request = json.loads(line)
        command = request.pop("command")
        try:
            reply = _answer(command, request, work)
        except ImportError as error:
            reply = {"missing": _one_line(error)}
        except Exception as error:
            traceback.print_exc()
            reply = {"error": _one_line(error)}
        replies.write(json.dumps(reply) + "\n")
        replies.flush()
        if command == "end":
            return


def _answer(command: str, request: Mapping[str, Any], work: list[Work]) -> dict[str, Any]:
    if command == "prepare":
        job = Job(**request)
        prepared = importlib.import_module(f"benchmarks.peers.workers.{job.worker}").prepare(job)
        prepared(True)
        work[:] = [prepared]
        return {"ready": True, "versions": _versions(job.packages)}
    if command == "run":
        start = time.perf_counter()
        tokens = work[0](False)
        return {"seconds": time.perf_counter() - start, "tokens": tokens}
    if command == "end":
        return {"peak_bytes": _peak_bytes()}
    raise ValueError(f"Unknown command: {command}")


def _peak_bytes() -> int:
    """Return the peak memory of this process. `ru_maxrss` could be that of the parent process."""
    for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
        name, _, value = line.partition(":")
        if name == "VmHWM":
            return int(value.split()[0]) * 1024  # in kibibytes on Linux
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _versions(packages: Iterable[str]) -> dict[str, str]:
    return {name: importlib.metadata.version(name) for name in packages}


def _one_line(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:300]


def main() -> None:
    """Send replies to the original standard output, and redirect printed text to stderr."""
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as replies:
        os.dup2(2, 1)
        serve(sys.stdin, replies)
