"""The script of docs/training.md: a user's own `compile` and `fit`, which a kill cannot hurt."""

import random
import signal

import pytest

from tests.forked_processes import ForkServer
from tests.pages.page import Page
from tests.training.equal_runs import assert_equal_runs
from tests.translation_training.number_text import write_pairs

# What makes the page's training small, without a word of the script but its numbers.
SMALLER = {
    "steps=10_000": "steps=12, save_every=3, log_every=1",
    "vocabulary_size=8000": "vocabulary_size=48",
    "batch_tokens=2048": "batch_tokens=512",
    "warmup_steps=400": "warmup_steps=6",
    'build_transformer("tiny"': 'build_transformer("tiny", num_encoder_layers=1',
}


@pytest.fixture(scope="module")
def server():
    server = ForkServer("tests.training.killed_script", "tensorflow")
    yield server
    server.close()


def write_script(directory):
    """The page's script with its data; returns its path."""
    directory.mkdir()
    script = Page("docs/training.md").blocks("python")[0]
    assert len(script.splitlines()) <= 40
    for there, smaller in SMALLER.items():
        assert script.count(there) == 1
        script = script.replace(there, smaller)
    path = directory / "train_mine.py"
    path.write_text(script, encoding="utf-8")
    for stem, pairs in (("train", None), ("dev", 40)):
        write_pairs(directory, stem, stop=pairs)
    return path


def test_a_script_of_ones_own_goes_on_after_a_kill(server, tmp_path, random_seed):
    code, errors, operations = server.run(path=str(write_script(tmp_path / "whole")))
    assert code == 0, errors
    script = write_script(tmp_path / "killed")
    operation = random.Random(random_seed).randint(operations // 4, 3 * operations // 4)
    print(f"killed at operation {operation} of {operations}")
    code, errors, _ = server.run(path=str(script), kill=operation)
    assert code == -signal.SIGKILL, errors
    code, errors, _ = server.run(path=str(script))
    assert code == 0, errors
    assert_equal_runs(tmp_path / "killed" / "runs" / "mine", tmp_path / "whole" / "runs" / "mine")
    weights = [
        tmp_path / name / "runs" / "mine" / "model.weights.h5" for name in ("killed", "whole")
    ]
    assert weights[0].read_bytes() == weights[1].read_bytes()
