"""This package's side: the recipe for any two text files, with settings for one hour."""

import csv
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.joeynmt.measurement import Measurement, environment, scores
from benchmarks.joeynmt.prepare import SOURCE, TARGET, PreparedText
from benchmarks.peers.machine import ROOT
from keras_transformer.errors import UserInputError
from keras_transformer.files import write_json
from keras_transformer.runs.run_directory import RunDirectory

PROGRAM = "keras_transformer"


class Ours:
    """Training runs of this package, one per training time, because each is averaged at the end.

    Args:
        directory: directory for all outputs.
        text: the prepared text.
        settings: settings file for the recipe.
        threads: number of threads per process.
        flags: additional flags for the recipe.
    """

    def __init__(
        self,
        directory: Path,
        text: PreparedText,
        settings: Path,
        threads: int,
        flags: Sequence[str] = (),
    ) -> None:
        self._directory = directory
        self._text = text
        self._settings = settings
        self._threads = threads
        self._environment = environment(threads)
        self._flags = flags

    def measure(self, minutes: float, beam_size: int) -> Measurement:
        """Train for the given time, unless already done, and score the translations.

        Args:
            minutes: training time in minutes, including validations and checkpoints.
            beam_size: beam size for decoding.

        Raises:
            UserInputError: training failed, or the directory contains another run.
        """
        run = self._directory / f"{minutes:g}-minutes"
        command = self._command(run, minutes, beam_size)
        conditions = {
            "command": command[1:],
            "settings": self._settings.read_text(encoding="utf-8"),
            "threads": self._threads,
        }
        scores_path, begun = run / "scores.json", run.with_suffix(".json")
        if not scores_path.is_file():
            self._directory.mkdir(parents=True, exist_ok=True)
            write_json(begun, conditions)
            self._train(command, run)
        record = json.loads(scores_path.read_text(encoding="utf-8"))
        if json.loads(begun.read_text(encoding="utf-8")) != conditions:
            raise UserInputError(
                f"{run} contains another training run: remove it, or name another --work"
            )
        hypotheses = (run / "samples.txt").read_text(encoding="utf-8").split("\n")[:-1]
        directory = RunDirectory.open(run)
        return Measurement(
            program=PROGRAM,
            minutes=minutes,
            trained_minutes=record["seconds"] / 60,
            updates=_updates(run),
            parameters=directory.load_architecture().count_params(),
            target_tokens_per_second=record["target_tokens_per_second"],
            averaged_checkpoints=record["averaged_checkpoints"],
            alpha=record["alpha"],
            **scores(hypotheses, self._text.lines("dev", TARGET)),
            commands=[record["command"]],
            details={
                "settings": directory.settings(),
                "tuned_on": record.get("tuned_on"),
                "versions": record["versions"],
            },
        )

    def _train(self, command: Sequence[str], run: Path) -> None:
        output = run.with_suffix(".out")
        with open(output, "wb") as file:
            done = subprocess.run(
                command,
                cwd=ROOT,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
            )
        if done.returncode:
            lines = output.read_text(encoding="utf-8", errors="replace").strip().splitlines()
            raise UserInputError(f"Training failed: {lines[-1] if lines else done.returncode}")

    def _command(self, run: Path, minutes: float, beam_size: int) -> list[str]:
        flags: dict[str, Any] = {
            "--source": self._text.path("train", SOURCE),
            "--target": self._text.path("train", TARGET),
            "--dev-source": self._text.path("dev", SOURCE),
            "--dev-target": self._text.path("dev", TARGET),
            "--tokenizer": self._text.tokenizer,
            "--settings": self._settings,
            "--precision": "float32",
            "--beam-size": beam_size,
            "--minutes": f"{minutes:g}",
            "--run": run,
        }
        listed = [str(part) for flag in flags.items() for part in flag]
        return [sys.executable, "-m", "recipes.translate_text.train", *listed, *self._flags]


def _updates(run: Path) -> int:
    """Return the number of updates at the last validation, when training ended."""
    with open(run / "validation.csv", encoding="utf-8", newline="") as file:
        return int(list(csv.DictReader(file))[-1]["step"])
