"""Runs the engines of a row alternately, so other processes affect all of them equally."""

import contextlib
import dataclasses
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from benchmarks.peers.engines import Engine
from benchmarks.peers.rows import Row
from benchmarks.peers.worker_process import WorkerFailure, WorkerProcess
from benchmarks.peers.workers.protocol import Job

# The threads of some engines keep spinning after their work, for 0.2 s in Intel's OpenMP.
REST_SECONDS = 0.5
MOST_TOKENS_OFF = 0.02  # allowed relative difference in the number of output tokens


class Start(Protocol):
    """Starts the worker of an engine and describes its job."""

    def __call__(self, engine: Engine, row: Row) -> tuple[WorkerProcess, Job]: ...


@dataclasses.dataclass
class Measurement:
    """The measurements of an engine for a row.

    Args:
        engine: the engine.
        startup_seconds: seconds from the start of its process to the first sentence or training
            update.
        versions: versions of its packages.
        seconds: seconds of each round, excluding the warm-up.
        tokens: number of target tokens per round.
        peak_bytes: peak memory of its process.
    """

    engine: Engine
    startup_seconds: float
    versions: dict[str, str]
    seconds: list[float] = dataclasses.field(default_factory=list)
    tokens: int = 0
    peak_bytes: int = 0

    @property
    def median(self) -> float:
        """The median time of a round in seconds."""
        return statistics.median(self.seconds)


@dataclasses.dataclass(frozen=True)
class RowResult:
    """The measurements of a row.

    Args:
        row: the row.
        measured: measurements of the engines that ran the row, in order.
        skipped: reasons why other engines were skipped, by engine name.
    """

    row: Row
    measured: list[Measurement]
    skipped: dict[str, str]

    @property
    def best_peer(self) -> Measurement | None:
        """The peer with the lowest median time."""
        peers = [found for found in self.measured if found.engine.is_peer]
        return min(peers, key=lambda found: found.median, default=None)

    def ratio(self, found: Measurement) -> float | None:
        """Return the median speed relative to the best peer, or None without a peer.

        The two times of a round are measured in quick succession, so a temporary slowdown of the
        machine affects both.
        """
        best = self.best_peer
        if best is None:
            return None
        pairs = zip(best.seconds, found.seconds, strict=True)
        return statistics.median(peer / own for peer, own in pairs)


def measure(
    row: Row,
    engines: Sequence[Engine],
    rounds: int,
    start: Start,
    tell: Callable[[str], None],
    rest_seconds: float = REST_SECONDS,
) -> RowResult:
    """Measure the engines of a row. Engines start one by one, and then each runs once per round.

    Args:
        row: the row.
        engines: engines for the row's task.
        rounds: number of timed rounds, after a warm-up round.
        start: function that starts the worker of an engine.
        tell: function that is called with a line about each skipped engine.
        rest_seconds: pause before each run, to let the previous engine become idle.

    Returns:
        The measurements.
    """
    skipped: dict[str, str] = {}
    running: dict[str, tuple[Measurement, WorkerProcess]] = {}

    def skip(engine: Engine, reason: str) -> None:
        skipped[engine.name] = reason
        running.pop(engine.name, None)
        tell(f"{row.name}: {engine.name} is skipped: {reason}")

    with contextlib.ExitStack() as processes:
        for engine in engines:
            try:
                running[engine.name] = _started(engine, row, start, processes)
            except WorkerFailure as failure:
                skip(engine, str(failure))
        for number in range(rounds + 1):
            for found, worker in list(running.values()):
                time.sleep(rest_seconds)
                try:
                    _run(found, worker, counts=number > 0)
                except WorkerFailure as failure:
                    skip(found.engine, str(failure))
        for found, worker in list(running.values()):
            try:
                found.peak_bytes = worker.ask("end")["peak_bytes"]
            except WorkerFailure as failure:
                skip(found.engine, str(failure))
    return RowResult(row, [found for found, _ in running.values()], skipped)


def wrong_tokens(result: RowResult, expected: int) -> list[str]:
    """Return a line for each engine whose number of output tokens differs from the row's."""
    return [
        f"{result.row.name}: {found.engine.name} made {found.tokens:,} tokens instead of "
        f"{expected:,}"
        for found in result.measured
        if abs(found.tokens - expected) > MOST_TOKENS_OFF * expected
    ]


def _started(
    engine: Engine, row: Row, start: Start, processes: contextlib.ExitStack
) -> tuple[Measurement, WorkerProcess]:
    """Start an engine and run a small first part of its work."""
    reason = engine.reason_to_skip(row)
    if reason is not None:
        raise WorkerFailure(reason)
    worker, job = start(engine, row)
    processes.enter_context(worker)
    reply = worker.ask("prepare", **dataclasses.asdict(job))
    return Measurement(engine, worker.age, reply["versions"]), worker


def _run(found: Measurement, worker: WorkerProcess, counts: bool) -> None:
    reply = worker.ask("run")
    found.tokens = reply["tokens"]
    if counts:
        found.seconds.append(reply["seconds"])
