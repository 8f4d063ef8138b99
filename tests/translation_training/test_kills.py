"""A real training that is killed twenty times, against one that is left alone."""

import csv
import os
import random
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from keras_transformer.runs.run_directory import RunDirectory
from tests.translation_training.number_text import SMALL, flags, write_pairs

KILLS = 20


def command(directory, name):
    """A training of 60 steps with dropout, saved at every third, in a folder of its own."""
    source, target = write_pairs(directory, "train")
    settings = {**SMALL, "dropout": 0.1, "steps": 60, "save_every": 3, "log_every": 1}
    start = "import sys; from keras_transformer.cli import main; sys.exit(main())"
    program = [sys.executable, "-c", start, "train", "--resume"]
    texts = ["--source", source, "--target", target, "--run", str(directory / name / "run")]
    return [*program, *texts, *flags(**settings, deterministic=True)]


def kill_after(seconds, arguments, environment):
    """Run a command; return whether it was killed, as it is in the end."""
    with subprocess.Popen(
        arguments, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            _, errors = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.communicate()
            return True
    assert process.returncode == 0, errors
    return False


def losses(run):
    with open(run.metrics_path, encoding="utf-8") as file:
        return [(row["step"], row["loss"]) for row in csv.DictReader(file)]


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["tensorflow", "jax"])
def test_twenty_kills_change_nothing(tmp_path, backend):
    """Where a training comes to its end before the last kill, the next one begins."""
    environment = {**os.environ, "KERAS_BACKEND": backend}
    began = time.monotonic()
    assert not kill_after(None, command(tmp_path, "whole"), environment)
    seconds, kills, number = time.monotonic() - began, 0, 1
    moments = random.Random(backend)
    while kills < KILLS:
        moment = moments.uniform(0.1, 1) * seconds
        if kill_after(moment, command(tmp_path, f"killed-{number}"), environment):
            kills += 1
            print(f"training {number}: kill {kills} after {moment:.2f} of {seconds:.2f} seconds")
        else:
            number += 1
    assert not kill_after(None, command(tmp_path, f"killed-{number}"), environment)
    whole = RunDirectory.open(tmp_path / "whole" / "run")
    assert len(losses(whole)) == 60
    for each in range(1, number + 1):
        killed = RunDirectory.open(tmp_path / f"killed-{each}" / "run")
        assert losses(killed) == losses(whole)
        for checkpoint in (None, "best"):
            weights = [run.load_model(checkpoint).get_weights() for run in (killed, whole)]
            for ours, theirs in zip(*weights, strict=True):
                np.testing.assert_array_equal(ours, theirs)
