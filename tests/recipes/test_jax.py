"""The recipes on JAX where TensorFlow is not installed: its import is blocked in a process."""

import csv
import json
import os
import pathlib
import subprocess
import sys

from keras_transformer.run_directory import RunDirectory
from keras_transformer.text import SentencePieceTokenizer
from tests.translation_training.number_text import SMALL, flags, pairs, write_pairs

ROOT = pathlib.Path(__file__).parents[2]
# Runs commands, `module: arguments` each, in one process that cannot import TensorFlow.
PROGRAM = """
import importlib, json, sys

class NoTensorFlow:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0].startswith("tensor"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, NoTensorFlow())
from keras_transformer.command_errors import run_command

for module, *arguments in json.loads(sys.argv[1]):
    code = run_command(lambda: importlib.import_module(module).main(arguments))
    if code:
        sys.exit(code)
import keras
assert keras.backend.backend() == "jax"
assert not any(name.startswith("tensor") for name in sys.modules)
"""


def run_without_tensorflow(*commands, text=""):
    """Run commands, each a module with a `main` and its arguments, on JAX; return the process."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(commands)],
        cwd=ROOT,
        env={**os.environ, "KERAS_BACKEND": "jax"},
        input=text,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done


def test_a_text_is_learned_and_translated_without_tensorflow(tmp_path):
    source, target = write_pairs(tmp_path, "train")
    model = tmp_path / "spm.model"
    english, german = pairs()
    SentencePieceTokenizer.train(english + german, vocabulary_size=48, byte_fallback=False).save(
        model
    )
    run = RunDirectory(tmp_path / "run")
    settings = {
        **SMALL,
        "tokenizer": model,
        "steps": 12,
        "bleu_every": 1,
        "bleu_sentences": 2,
        "ema": True,
        "tensorboard": True,  # asked for, and not there
    }
    texts = ["--source", source, "--target", target]
    done = run_without_tensorflow(
        ["recipes.translate_text.train", "--run", str(run.path), *texts, *flags(**settings)],
        ["keras_transformer.cli", "translate", str(run.path)],
        text="one two three five\n\nfive\n",
    )
    assert "TensorFlow is not installed: there are no TensorBoard logs." in done.stderr
    _, translations = done.stdout.rsplit(f"{run.path}\n", 1)
    assert len(translations.splitlines()) == 3
    assert json.loads(run.scores_path.read_text())["training_pairs"] == 625 - 20
    with open(run.metrics_path, encoding="utf-8") as file:
        losses = [float(row["loss"]) for row in csv.DictReader(file)]
    assert losses[-1] < losses[0]
