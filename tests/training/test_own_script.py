"""The scripts of docs/training.md: a user's own `compile` and `fit`, which a kill cannot hurt."""

import random
import signal

import pytest

from tests.forked_processes import ForkServer
from tests.pages.page import Page
from tests.training.equal_runs import assert_equal_runs
from tests.translation_training.number_text import write_pairs

PAGE = Page("docs/training.md")
BLOCKS = PAGE.blocks("python")
(PLACE,) = (i for i, block in enumerate(BLOCKS) if "sys.exit" in block)  # of the complete script
# What makes the page's trainings small, without a word of the scripts but their numbers.
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


def smaller(script, changes):
    for there, small in changes.items():
        assert script.count(there) == 1, there
        script = script.replace(there, small)
    return script


def write_script(directory):
    """The page's script with its data; returns its path."""
    directory.mkdir()
    script = BLOCKS[PLACE]
    assert len(script.splitlines()) <= 40
    script = smaller(script, SMALLER)
    path = directory / "train_mine.py"
    path.write_text(script, encoding="utf-8")
    for stem, pairs in (("train", None), ("dev", 40)):
        write_pairs(directory, stem, stop=pairs)
    return path


@pytest.mark.slow
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


# Of the blocks behind the script: 2 updates each.
FEWER = {
    '"runs/by_bleu", minutes=60': '"runs/by_bleu", steps=2, save_every=2, tensorboard=False',
    '"runs/divided", steps=100_000, replicas=4': '"runs/divided", steps=2, replicas=2',
    '"runs/tuned", steps=2000': '"runs/tuned", steps=2, tensorboard=False',
    '"runs/domain", steps=1000': '"runs/domain", steps=2, tensorboard=False',
    "every=5": "every=1",
}
TWO_CPUS = """\
import tensorflow as tf

tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)
"""


@pytest.mark.slow
def test_the_page_runs_from_top_to_bottom(server, tmp_path):
    path = write_script(tmp_path / "page")
    first = path.read_text("utf-8").replace("steps=12", "steps=3")
    assert first.endswith("sys.exit(run.exit_code)\n")
    rest = smaller("".join(BLOCKS[PLACE + 1 :]), FEWER)
    rest = rest.replace('build_transformer("tiny"', SMALLER['build_transformer("tiny"'])
    script = first.removesuffix("sys.exit(run.exit_code)\n") + rest
    script = script.replace("num_encoder_layers=1", "num_encoder_layers=1, num_decoder_layers=1")
    path.write_text(TWO_CPUS + "".join(BLOCKS[:PLACE]) + script, "utf-8")
    code, errors, _ = server.run(path=str(path))
    assert code == 0, errors
    runs = sorted(path.parent.glob("runs/*/metrics.csv"))
    assert [run.parent.name for run in runs] == ["by_bleu", "divided", "domain", "mine", "tuned"]
    assert "val_bleu" in (path.parent / "runs/by_bleu/validation.csv").read_text("utf-8")
