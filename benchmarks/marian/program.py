"""Runs Marian in separate processes because its libraries conflict with TensorFlow's."""

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.peers.machine import ROOT

PYTHON = ROOT / ".venv-marian" / "bin" / "python"
INSTALL = "make .venv-marian/installed"
_SCRIPT = "import sys, _pymarian; sys.exit(_pymarian.main(sys.argv[1:]))"
_COST = re.compile(r" : Cost ([0-9.]+) ")


def marian(command: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run `marian COMMAND`.

    Args:
        command: "train", "decode" or "score".
        **options: flags and their values, which may be lists; True for a flag without a value.

    Returns:
        The completed process, including its output.

    Raises:
        RuntimeError: the command failed.
    """
    arguments = [str(PYTHON), "-c", _SCRIPT, command, "--cpu-threads", "1"]
    for name, value in options.items():
        values = value if isinstance(value, (list, tuple)) else [] if value is True else [value]
        arguments += ["--" + name.replace("_", "-"), *map(str, values)]
    done = subprocess.run(arguments, capture_output=True, text=True)
    if done.returncode:
        error = next((line for line in done.stderr.split("\n") if "Error" in line), done.stderr)
        raise RuntimeError(f"Marian failed: {error}")
    return done


def costs(training: subprocess.CompletedProcess[str]) -> list[float]:
    """Return the cross-entropies per target token reported by a training run."""
    return [float(cost) for cost in _COST.findall(training.stderr)]


def translations(
    models: Sequence[Path],
    vocabularies: Sequence[Path],
    source: Path,
    beam_size: int,
    **options: Any,
) -> list[str]:
    """Return Marian's translations of a file's lines, with scores divided by the length."""
    done = marian(
        "decode",
        models=models,
        vocabs=vocabularies,
        input=source,
        beam_size=beam_size,
        normalize=1,
        quiet=True,
        **options,
    )
    return done.stdout.removesuffix("\n").split("\n")


def scores(model: Path, vocabularies: Sequence[Path], source: Path, target: Path) -> list[float]:
    """Return Marian's log-probabilities of the lines in `target` given those in `source`."""
    texts = [source, target]
    done = marian("score", model=model, vocabs=vocabularies, train_sets=texts, quiet=True)
    return [float(line) for line in done.stdout.split()]
