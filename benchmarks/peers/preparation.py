"""Writes exports for engines, each in a separate process."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.peers.engines import Engine
from benchmarks.peers.machine import ROOT, peers_python
from benchmarks.peers.rows import Row
from benchmarks.peers.worker_process import WorkerFailure

_WORKERS = "benchmarks.peers.workers"


class Exports:
    """The exports of a benchmark run, shared by rows with the same model and search.

    Args:
        directory: existing output directory.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def of(self, engine: Engine, row: Row, sizes: dict[str, Any], tokenizer: Path | None) -> str:
        """Return the export directory that an engine reads for a row.

        Args:
            engine: engine with an `export`.
            row: decoding row.
            sizes: fields of the preset's sizes.
            tokenizer: vocabulary file; None for a vocabulary of numbered pieces.

        Raises:
            WorkerFailure: the export failed.
        """
        path = self._directory / self._name(engine, row)
        if path.is_dir():
            return str(path)
        request = {
            "directory": str(path),
            "precision": engine.precision,
            "vocabulary_size": row.vocabulary_size,
        }
        if engine.export == "marian":
            _write(peers_python(), "marian", {**request, "sizes": sizes})
        else:
            search = {"preset": row.preset, "beam_size": row.beam_size, "length": row.length}
            vocabulary = None if tokenizer is None else str(tokenizer)
            more = {"kind": engine.export, "tokenizer": vocabulary}
            _write(sys.executable, "exports", {**request, **search, **more})
        return str(path)

    def _name(self, engine: Engine, row: Row) -> str:
        """Return a directory name that includes everything that determines the contents."""
        parts = [engine.export, engine.precision, row.preset, row.vocabulary_size]
        if engine.export == "ctranslate2":
            parts.append(row.corpus)
        elif engine.forces == "export":
            parts += [row.beam_size, row.length]
        return "-".join(map(str, parts))


def _write(python: str | None, module: str, request: dict[str, Any]) -> None:
    """Run a module that writes an export."""
    if python is None:
        raise WorkerFailure("not installed")
    done = subprocess.run(
        [python, "-m", f"{_WORKERS}.{module}", json.dumps(request)],
        cwd=ROOT,
        env={**os.environ, "KERAS_BACKEND": "tensorflow", "TF_CPP_MIN_LOG_LEVEL": "2"},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        raise WorkerFailure(f"its export failed: {lines[-1] if lines else done.returncode}")
