"""A real training that is killed again and again, against one that is left alone.

The tests are one file for each backend, so that they run side by side.
"""

import csv
import random
import shutil
import signal
import time

import numpy as np

from keras_transformer.runs.run_directory import RunDirectory
from tests.forked_processes import ForkServer
from tests.translation_training.number_text import SMALL, flags, write_pairs


def command(directory, name):
    """A training of 30 steps with dropout, saved at every third, in a folder of its own."""
    source, target = write_pairs(directory, "train")
    settings = {**SMALL, "dropout": 0.1, "steps": 30, "save_every": 3, "log_every": 1}
    settings["bleu_every"] = 0  # quicker
    texts = ["--source", source, "--target", target, "--run", str(directory / name / "run")]
    return ["train", "--resume", *texts, *flags(**settings, deterministic=True)]


def losses(run):
    with open(run.metrics_path, encoding="utf-8") as file:
        return [(row["step"], row["loss"]) for row in csv.DictReader(file)]


def assert_equal_runs(killed, whole):
    """Losses and weights are equal to the last bit."""
    assert losses(killed) == losses(whole)
    for checkpoint in (None, "best"):
        weights = [run.load_model(checkpoint).get_weights() for run in (killed, whole)]
        for ours, theirs in zip(*weights, strict=True):
            np.testing.assert_array_equal(ours, theirs)


def assert_kills_change_nothing(tmp_path, backend, most, seed):
    """Where a training comes to its end before the next kill, another one begins."""
    server = ForkServer("tests.kills.killed_commands", backend)
    began = time.monotonic()
    code, errors, operations = server.run(arguments=command(tmp_path, "whole"))
    assert code == 0, errors
    seconds, kills, name = time.monotonic() - began, 0, "killed-1"
    whole = RunDirectory.open(tmp_path / "whole" / "run")
    assert len(losses(whole)) == 30
    moments = random.Random(seed)
    while kills < most or code == -signal.SIGKILL:
        kill = None
        if kills < most:
            operation, share = moments.randint(1, operations), moments.uniform(0.05, 1)
            kill = share * seconds if kills % 2 else operation
        began = time.monotonic()
        code, errors, _ = server.run(arguments=command(tmp_path, name), kill=kill)
        print(f"{name} ended with {code}, to be killed at {kill}", flush=True)
        assert code in (0, -signal.SIGKILL), errors
        if code == 0:
            seconds = min(seconds, time.monotonic() - began)  # the machine may have been busy
            assert_equal_runs(RunDirectory.open(tmp_path / name / "run"), whole)
            shutil.rmtree(tmp_path / name)
            name = f"killed-{kills + 1}"
        else:
            kills += 1
    server.close()
