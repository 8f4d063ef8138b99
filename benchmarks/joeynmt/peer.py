"""JoeyNMT's side: train for some minutes, choose weights and alpha on dev, and translate."""

import dataclasses
import json
import shlex
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.joeynmt.measurement import Measurement, environment, scores
from benchmarks.joeynmt.peer_settings import PeerSettings, config_text
from benchmarks.joeynmt.prepare import TARGET, PreparedText
from benchmarks.joeynmt.training_log import (
    LoggedCheckpoint,
    TrainingLog,
    read_perplexity,
    read_training_log,
)
from benchmarks.peers.machine import ROOT
from keras_transformer.errors import UserInputError
from keras_transformer.files import tell, write_json, write_text

PROGRAM = "JoeyNMT"
AVERAGED = (1, 2, 4, 8)  # number of checkpoints; the mean with the lowest dev perplexity is used
_LOOK_SECONDS = 2.0
_AVERAGE = Path(__file__).with_name("average_checkpoints.py")


@dataclasses.dataclass(frozen=True)
class _Weights:
    """The mean of some checkpoints, and information about the last one."""

    path: Path
    checkpoints: int
    perplexity: float
    facts: dict[str, Any]


class Peer:
    """A JoeyNMT training run and its translations.

    Args:
        python: Python executable of JoeyNMT's environment.
        directory: directory for all outputs.
        text: the prepared text.
        settings: training settings.
        max_tokens: maximum length of training sentences; longer sentences are dropped.
        threads: number of threads per process.
    """

    def __init__(
        self,
        python: str,
        directory: Path,
        text: PreparedText,
        settings: PeerSettings,
        max_tokens: int | None,
        threads: int,
    ) -> None:
        self._python = python
        self._directory = directory
        self._text = text
        self._settings = settings
        self._max_tokens = max_tokens
        self._threads = threads
        self._environment = environment(threads)

    @property
    def _model(self) -> Path:
        return self._directory / "model"

    def train(self, minutes: float) -> None:
        """Train until the first checkpoint after the given minutes, unless already done.

        Raises:
            UserInputError: JoeyNMT ended too early, or the directory contains another run.
        """
        done = self._directory / "training.json"
        settings = dataclasses.asdict(self._settings) | {"max_tokens": self._max_tokens}
        record = {"settings": settings, "minutes": minutes, "threads": self._threads}
        if done.is_file():
            if json.loads(done.read_text(encoding="utf-8")) != record:
                raise UserInputError(
                    "--work contains another training run of JoeyNMT: remove "
                    f"{self._directory}, or name another folder"
                )
            return
        if self._model.exists():
            raise UserInputError(f"{self._model} contains an interrupted training run: remove it")
        self._directory.mkdir(parents=True, exist_ok=True)
        config = self._write_config("train.yaml")
        with open(self._directory / "train.out", "wb") as output:
            process = subprocess.Popen(
                self._joeynmt("train", config, "--skip-test"),
                cwd=ROOT,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
            try:
                self._wait(process, minutes)
            finally:
                process.kill()
                process.wait()
        write_json(done, record)

    def measure(self, minutes: float, beam_size: int, alphas: Sequence[float]) -> Measurement:
        """Score the first checkpoint after the given minutes, or its mean with earlier checkpoints.

        Args:
            minutes: training time in minutes, at most the time passed to `train`.
            beam_size: beam size for decoding.
            alphas: exponents of the length penalty to try; the best by BLEU is used.
        """
        log = self._log()
        last = log.first_after(minutes)
        assert last is not None
        assert log.parameters is not None
        folder = self._directory / f"after-{minutes:g}-minutes"
        folder.mkdir(exist_ok=True)
        weights = self._means(log.checkpoints, last, folder)
        best = min(weights, key=lambda one: one.perplexity)
        tell(
            f"JoeyNMT, {minutes:g} minutes: dev perplexity {best.perplexity:.2f}, "
            f"mean of {best.checkpoints} checkpoints"
        )
        found = {alpha: self._scores(best, beam_size, alpha, folder) for alpha in alphas}
        alpha = max(alphas, key=lambda one: found[one]["bleu"])
        tokens = best.facts["target_tokens"]
        details = {
            **dataclasses.asdict(self._settings),
            "target_tokens": tokens,
            "torch": best.facts["torch"],
            "validation_seconds": log.validation_seconds,
            "dev_perplexity_by_averaged": {str(one.checkpoints): one.perplexity for one in weights},
            "bleu_by_alpha": {f"{one:g}": found[one]["bleu"] for one in alphas},
        }
        return Measurement(
            program=PROGRAM,
            minutes=minutes,
            trained_minutes=last.seconds / 60,
            updates=last.updates,
            parameters=log.parameters,
            target_tokens_per_second=tokens / last.seconds,
            averaged_checkpoints=best.checkpoints,
            alpha=alpha,
            **found[alpha],
            commands=self._commands(folder, alpha),
            details=details,
        )

    def _wait(self, process: "subprocess.Popen[bytes]", minutes: float) -> None:
        """Wait for the first checkpoint after the given minutes."""
        known = 0
        while (log := self._log()).first_after(minutes) is None:
            if process.poll() is not None:
                raise UserInputError(f"JoeyNMT ended early: {self._last_line('train.out')}")
            if len(log.checkpoints) > known:
                known, last = len(log.checkpoints), log.checkpoints[-1]
                tell(f"JoeyNMT: {last.updates:,} updates, {last.seconds / 60:.1f} minutes")
            time.sleep(_LOOK_SECONDS)

    def _log(self) -> TrainingLog:
        path = self._model / "train.log"
        if not path.is_file():
            return TrainingLog(None, [], 0.0)
        # While the file is being written, its last line may be incomplete.
        return read_training_log(path.read_text(encoding="utf-8", errors="replace").splitlines())

    def _means(
        self, checkpoints: Sequence[LoggedCheckpoint], last: LoggedCheckpoint, folder: Path
    ) -> list[_Weights]:
        """Return the means of a checkpoint with earlier ones, and their dev perplexities."""
        paths = [
            self._model / f"{one.updates}.ckpt"
            for one in checkpoints[: checkpoints.index(last) + 1]
        ]
        return [self._mean(paths[-number:], folder) for number in AVERAGED if number <= len(paths)]

    def _mean(self, inputs: Sequence[Path], folder: Path) -> _Weights:
        number = len(inputs)
        path = folder / f"mean-of-{number}.ckpt"
        facts = json.loads(self._run([self._python, str(_AVERAGE), str(path), *map(str, inputs)]))
        name = f"{folder.name}/score-{number}.yaml"
        config = self._write_config(name, checkpoint=path, return_prob="ref")
        perplexity = read_perplexity(self._run(self._joeynmt("test", config)))
        if perplexity is None:
            raise UserInputError("JoeyNMT printed no perplexity of the dev text")
        return _Weights(path, number, perplexity, facts)

    def _scores(
        self, weights: _Weights, beam_size: int, alpha: float, folder: Path
    ) -> dict[str, Any]:
        """Translate the dev text and score it."""
        name = _search_config(folder, alpha)
        config = self._write_config(name, checkpoint=weights.path, beam_size=beam_size, alpha=alpha)
        output = config.with_suffix(".txt")
        self._run([*self._joeynmt("test", config), "-o", str(output)])
        lines = output.with_name(f"{output.name}.dev").read_text(encoding="utf-8").split("\n")
        found = scores(lines[:-1], self._text.lines("dev", TARGET))
        tell(f"JoeyNMT, alpha {alpha:g}: {found['bleu']:.2f} BLEU")
        return found

    def _commands(self, folder: Path, alpha: float) -> list[str]:
        train = self._directory / "train.yaml"
        search = self._directory / _search_config(folder, alpha)
        return [
            shlex.join(["python", *self._joeynmt("train", train, "--skip-test")[1:]]),
            shlex.join(["python", *self._joeynmt("test", search)[1:]]),
        ]

    def _joeynmt(self, verb: str, config: Path, *flags: str) -> list[str]:
        return [self._python, "-m", "joeynmt", verb, str(config), *flags]

    def _write_config(self, name: str, **search: Any) -> Path:
        path = self._directory / name
        write_text(
            path, config_text(self._text, self._model, self._settings, self._max_tokens, **search)
        )
        return path

    def _run(self, command: Sequence[str]) -> str:
        """Return a process's output, including stderr for JoeyNMT itself."""
        is_joeynmt = "joeynmt" in command
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
        if done.returncode:
            lines = [line for line in done.stderr.splitlines() if line.strip()]
            raise UserInputError(f"JoeyNMT failed: {lines[-1] if lines else done.returncode}")
        return done.stderr + done.stdout if is_joeynmt else done.stdout

    def _last_line(self, name: str) -> str:
        text = (self._directory / name).read_text(encoding="utf-8", errors="replace")
        return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")


def _search_config(folder: Path, alpha: float) -> str:
    return f"{folder.name}/alpha-{alpha:g}.yaml"
