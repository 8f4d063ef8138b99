"""The coordinator's side of a worker, which is a process that answers one request at a time."""

import contextlib
import json
import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from benchmarks.peers.machine import ROOT


class WorkerFailure(Exception):
    """A worker cannot continue. The message gives the reason in one line."""


class WorkerProcess:
    """A process that answers requests, one JSON object per line. Use it as a context manager.

    Args:
        command: the program and its arguments.
        environment: environment variables in addition to those of this process.
        log: file to which the process's messages are appended.
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        self._log = log
        self._started = time.perf_counter()
        with open(log, "ab") as messages:
            self._process = subprocess.Popen(
                command,
                cwd=ROOT,
                env={**os.environ, **environment},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=messages,
                text=True,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.stdout.close()

    @property
    def age(self) -> float:
        """The number of seconds since the process was started."""
        return time.perf_counter() - self._started

    def ask(self, command: str, **arguments: Any) -> dict[str, Any]:
        """Send a request and wait for its reply.

        Raises:
            WorkerFailure: the reply reports a missing package or an error, or the process ended.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):  # the process has ended, so there is no reply
            self._process.stdin.write(json.dumps({"command": command, **arguments}) + "\n")
            self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise WorkerFailure(f"its process ended with {self._process.wait()}: {self._tail()}")
        reply = json.loads(line)
        if "missing" in reply:
            raise WorkerFailure(f"not installed ({reply['missing']})")
        if "error" in reply:
            raise WorkerFailure(reply["error"])
        return reply

    def _tail(self) -> str:
        """Return the last line of the process's messages."""
        lines = self._log.read_text(encoding="utf-8", errors="replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "no message")
