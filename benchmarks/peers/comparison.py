"""Assigns rows to engines, with their files and processes."""

import dataclasses
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.peers.engines import Engine
from benchmarks.peers.inputs import Inputs
from benchmarks.peers.machine import peers_python
from benchmarks.peers.preparation import Exports
from benchmarks.peers.rounds import RowResult, measure, wrong_tokens
from benchmarks.peers.rows import Row
from benchmarks.peers.worker_process import WorkerFailure, WorkerProcess
from benchmarks.peers.workers.protocol import Job
from keras_transformer.errors import UserInputError
from keras_transformer.models import PRESETS

WORKERS = "benchmarks.peers.workers"


class Comparison:
    """Measures rows, with all files in one directory.

    Args:
        directory: existing output directory.
        data: folder with the datasets of real sentences, or None.
        threads: number of threads per engine.
        tell: function that is called with a line about each skipped engine or row, or wrong output.
    """

    def __init__(
        self, directory: Path, data: Path | None, threads: int, tell: Callable[[str], None]
    ) -> None:
        self._inputs = Inputs(directory, data)
        self._exports = Exports(directory)
        self._log = directory / "messages.txt"
        self._threads = threads
        self._tell = tell

    def run(
        self, rows: Sequence[Row], engines: Sequence[Engine], rounds: int
    ) -> Iterator[RowResult]:
        """Yield the result of each row that was run by at least one engine."""
        for row in rows:
            try:
                expected = _expected_tokens(row, self._inputs.of(row))
            except UserInputError as error:
                self._tell(f"{row.name} is skipped: {error}")
                continue
            of_task = [engine for engine in engines if engine.task == row.task]
            result = measure(row, of_task, rounds, self._start, self._tell)
            for line in wrong_tokens(result, expected):
                self._tell(line)
            if result.measured:
                yield result

    def _start(self, engine: Engine, row: Row) -> tuple[WorkerProcess, Job]:
        python = peers_python() if engine.is_peer else sys.executable
        if python is None:
            raise WorkerFailure("the peers' environment is missing: make .venv-peers/installed")
        job = Job(
            worker=engine.worker,
            row=dataclasses.asdict(row),
            sizes=_sizes(row),
            precision=engine.precision,
            inputs=str(self._inputs.of(row)),
            export=self._export(engine, row),
            threads=self._threads,
            packages=list(engine.packages),
        )
        command = [python, "-m", WORKERS]
        return WorkerProcess(command, engine.environment(self._threads, row), self._log), job

    def _export(self, engine: Engine, row: Row) -> str | None:
        if engine.export is None:
            return None
        return self._exports.of(engine, row, _sizes(row), self._inputs.tokenizer(row))


def _sizes(row: Row) -> dict[str, Any]:
    return dataclasses.asdict(PRESETS[row.preset])


def _expected_tokens(row: Row, inputs: Path) -> int:
    """Return the number of target tokens in a row. In decoding, this includes EOS."""
    if row.task == "training":
        return row.units
    with np.load(inputs) as arrays:
        return row.repeats * (int(arrays["output_lengths"].sum()) + row.num_sentences)
