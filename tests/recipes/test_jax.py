"""The recipes on JAX where TensorFlow is not installed: its import is blocked in a process."""

import json
import math
import pathlib

import pytest

from keras_transformer.runs.run_directory import RunDirectory
from keras_transformer.text import SentencePieceTokenizer
from tests.python_programs import run_python
from tests.recipes.toy_treebank import write_treebank
from tests.tfds_wmt import write_wmt14
from tests.training.equal_runs import rows
from tests.translation_training.number_text import SMALL, flags, pairs, write_pairs

ROOT = pathlib.Path(__file__).parents[2]
# Runs commands, `module: arguments` each, in one process that cannot import TensorFlow.
PROGRAM = """
import importlib, importlib.machinery, json, sys

MISSING = ("tensorflow", "tensorflow_text", "tensorboard")

class NoTensorFlow(importlib.machinery.PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name.split(".")[0] not in MISSING:
            return super().find_spec(name, path, target)

sys.meta_path[sys.meta_path.index(importlib.machinery.PathFinder)] = NoTensorFlow
from keras_transformer.toolkit.cli.program import run_command

for module, *arguments in json.loads(sys.argv[1]):
    code = run_command(lambda: importlib.import_module(module).main(arguments))
    if code:
        sys.exit(code)
import keras
assert keras.backend.backend() == "jax"
assert not any(name in MISSING for name in sys.modules)
"""


def run_without_tensorflow(*commands, text=""):
    """Run commands, each a module with a `main` and its arguments, on JAX; return the process."""
    variables = {"KERAS_BACKEND": "jax", "JAX_LOG_COMPILES": "1"}
    return run_python("-c", PROGRAM, json.dumps(commands), input=text, cwd=ROOT, **variables)


@pytest.mark.slow
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
        "shortlist": True,
        "tensorboard": True,  # asked for, and not there
    }
    texts = ["--source", source, "--target", target]
    done = run_without_tensorflow(
        ["recipes.translate_text.train", "--run", str(run.path), *texts, *flags(**settings)],
        ["keras_transformer.toolkit.cli", "translate", str(run.path)],
        text="one two three five\n\nfive\n",
    )
    assert "TensorFlow is not installed: no TensorBoard logs are written." in done.stderr
    _, translations = done.stdout.rsplit(f"{run.path}\n", 1)
    assert len(translations.splitlines()) == 3
    assert json.loads(run.scores_path.read_text())["training_pairs"] == 625 - 20
    assert run.shortlist_path.is_file()
    losses = [float(row["loss"]) for row in rows(run.metrics_path)]
    assert losses[-1] < losses[0]
    # Packed rows have one shape: the probe and the training compile the step once, together.
    assert ", 1 shape, " in done.stdout
    assert done.stderr.count("Finished XLA compilation of jit(train_step)") == 1


@pytest.mark.slow
def test_several_devices_and_slices_train_and_validate_like_one_device(tmp_path):
    source, target = write_pairs(tmp_path, "train")
    runs = []
    for parts in ({"replicas": 1}, {"replicas": 2, "accumulate": 2}):
        run = RunDirectory(tmp_path / f"run{len(runs)}")
        settings = {**SMALL, "learning_rate_scale": 0.1, "bleu_every": 1, "ema": True, **parts}
        texts = ["--source", source, "--target", target]
        run_without_tensorflow(
            ["recipes.translate_text.train", "--run", str(run.path), *texts, *flags(**settings)]
        )
        runs.append(run)
    one, several = runs
    for path, other_path in (
        (one.metrics_path, several.metrics_path),
        (one.validation_path, several.validation_path),
    ):
        assert len(rows(path)) > 1
        for row, other in zip(rows(path), rows(other_path), strict=True):
            for name in {"loss", "nll", "gradient_norm", "val_perplexity", "val_bleu"} & set(row):
                assert float(other[name]) == pytest.approx(float(row[name]), rel=1e-4), name
    assert several.samples_path.read_text() == one.samples_path.read_text()


@pytest.mark.slow
def test_every_other_recipe_runs(tmp_path):
    english, german = pairs()
    for part, stop in (("train", 600), ("val", 20), ("test_2016_flickr", 10)):
        write_pairs(tmp_path, part, stop=stop)
    for language in ("de", "fr"):
        examples = list(zip(german, english, strict=True))
        splits = {"train": examples[:600], "validation": examples[:20], "test": examples[:10]}
        write_wmt14(tmp_path, f"{language}-en", splits, file_format="array_record")
    few = flags(**{**SMALL, "steps": 2, "save_every": 2, "choose_average": False})
    wmt = ["--data-dir", str(tmp_path), *few]
    number_words = ["--numbers=60", "--held-out=5", "--validation=5", "--vocabulary-size=60"]
    number_words += ["--num-layers=1", "--hidden-dim=32", "--steps=2"]
    wsj_parsing = ["--data", str(write_treebank(tmp_path / "wsj")), "--vocabulary-size=330"]
    wsj_parsing += ["--num-layers=1", "--hidden-dim=32", "--steps=2", "--beam-size=2"]
    source, target = write_pairs(tmp_path, "domain", stop=200)
    adapt = ["--from", str(tmp_path / "multi30k_en_de" / "run"), "--source", source]
    adapt += ["--target", target, "--lora-rank=2", "--steps=2", "--save-every=2"]
    commands = {
        "multi30k_en_de": ["--data", str(tmp_path), *few],
        "wmt14_en_de": wmt,
        "wmt14_en_fr": wmt,
        "number_words": number_words,
        "wsj_parsing": wsj_parsing,
        "adapt": adapt,
    }
    run_without_tensorflow(
        *(
            [f"recipes.{recipe}.train", "--run", str(tmp_path / recipe / "run"), *arguments]
            for recipe, arguments in commands.items()
        )
    )
    for recipe in commands:
        scores = json.loads((tmp_path / recipe / "run" / "scores.json").read_text())
        if recipe == "wsj_parsing":
            assert scores["well_formed"] == 1
            assert scores["evalb"]["all"]["valid"] == 30
            continue
        if recipe == "adapt":
            assert all(0 <= scores["adaptation"][0][when] <= 100 for when in ("before", "after"))
        if recipe == "number_words":
            assert 0 <= scores["exact_match"] <= 1
        else:
            assert scores["evaluated_on"]["sentences"] > 0
        *_, last = rows(tmp_path / recipe / "run" / "validation.csv")
        assert 1 < float(last["val_perplexity"]) < math.inf
