"""The Multi30k recipe on invented captions: whole runs, and what it says to bad input."""

import gzip
import json
import pathlib

import pytest

from keras_transformer.runs.run_directory import RunDirectory
from keras_transformer.text import SentencePieceTokenizer
from keras_transformer.toolkit.cli.program import run_command
from recipes.multi30k_en_de.train import main
from tests.python_programs import run_python
from tests.recipes.captions import SMALL, captions
from tests.training.equal_runs import rows
from tests.translation_training.number_text import flags
from tests.written_files import one_line

pytestmark = pytest.mark.tensorflow

ROOT = pathlib.Path(__file__).parents[2]


@pytest.fixture
def data(tmp_path):
    """A folder laid out as Multi30k is, with one file compressed."""
    folder = tmp_path / "data"
    folder.mkdir()
    for part, number in (("train", 120), ("val", 20), ("test_2016_flickr", 10)):
        for side, sentences in zip(("en", "de"), captions(number), strict=True):
            text = "\n".join(sentences) + "\n"
            (folder / f"{part}.{side}").write_text(text, encoding="utf-8")
    english = (folder / "train.en").read_bytes()
    (folder / "train.en").unlink()
    (folder / "train.en.gz").write_bytes(gzip.compress(english))
    return folder


@pytest.fixture
def train(data, tmp_path):
    """Call the recipe as its command does; returns the exit code."""

    def call(*arguments):
        run = ["--data", str(data), "--run", str(tmp_path / "run")]
        return run_command(lambda: main([*run, *SMALL, *arguments]))

    return call


def test_a_run_leaves_what_the_readme_promises(train, tmp_path, capsys):
    options = ["--layer-diagnostics", "--r-drop", "2", "--word-dropout", "0.1"]
    assert train("--steps", "12", "--average", "3", *options) == 0
    run = tmp_path / "run"
    assert capsys.readouterr().out.splitlines()[-1] == str(run)
    assert RunDirectory(run).load_architecture().get_layer("embedding").word_dropout == 0.1

    scores = json.loads((run / "scores.json").read_text())
    assert {"bleu", "signature", "seconds", "target_tokens_per_second", "command"} <= set(scores)
    assert "tok:none" in scores["signature"]
    assert scores["command"].startswith("python -m recipes.multi30k_en_de.train --data")
    assert scores["versions"]["keras"]
    assert scores["averaged_checkpoints"] in (1, 2, 3)
    search = {name: scores[name] for name in ("alpha", "beam_size", "extra_length")}
    assert json.loads((run / "run.json").read_text())["search"] == search
    tuned = scores["tuned_on"]
    assert (tuned["sentences"], len(tuned["alphas"])) == (20, 21)
    by_alpha, before = dict(zip(tuned["alphas"], tuned["bleu"], strict=True)), tuned["alpha_before"]
    best = [alpha for alpha, score in by_alpha.items() if score == max(tuned["bleu"])]
    assert scores["alpha"] == min(best, key=lambda alpha: abs(alpha - before))
    assert by_alpha[before] == tuned["bleu_before"]

    steps = rows(run / "metrics.csv")
    assert list(steps[0])[:4] == ["step", "loss", "learning_rate", "target_tokens_per_second"]
    # The loss is smoothed: on an untrained model it is near the plain negative log-likelihood.
    assert float(steps[0]["nll"]) == pytest.approx(float(steps[0]["loss"]), rel=0.1)
    assert [int(row["step"]) for row in steps] == [*range(1, 11), 12]
    # The first loss of an untrained model is about that of a guess among 40 tokens.
    assert 3 < float(steps[0]["loss"]) < 8
    assert float(steps[1]["learning_rate"]) == pytest.approx(2 * float(steps[0]["learning_rate"]))

    layers = rows(run / "layers.csv")
    assert {int(row["step"]) for row in layers} == set(range(2, 13, 2))
    assert "decoder_layer_1.cross_attention" in {row["part"] for row in layers}

    assert len((run / "samples.txt").read_text().splitlines()) == 10
    kept = {path.name for path in (run / "checkpoints").glob("step-*")}
    weights = {f"step-{step:08d}.weights.h5" for step in (8, 10, 12)}
    assert kept == weights | {f"step-{step:08d}.state.npz" for step in (10, 12)}
    assert (run / "model.weights.h5").is_file()


@pytest.mark.slow
def test_two_replicas_diagnose_what_one_device_does(data, tmp_path):
    once = flags(steps=4, dropout=0, bleu_every=0, choose_average=False, tune_alpha=False)
    once += flags(batch_tokens=2000)  # half of it, a device's part, holds the same dev batches
    layers, losses = [], []
    for replicas in ("1", "2"):
        run = tmp_path / replicas
        command = ["-m", "recipes.multi30k_en_de.train", "--data", data, "--run", run]
        command += [*SMALL, *once, "--beam-size", "1", "--no-test"]
        run_python(*command, "--layer-diagnostics", "--replicas", replicas, cwd=ROOT)
        layers.append(rows(run / "layers.csv"))
        losses.append([float(row["loss"]) for row in rows(run / "metrics.csv")])
    assert losses[1] == pytest.approx(losses[0], rel=1e-4)
    one, two = layers
    assert [row["part"] for row in two] == [row["part"] for row in one]
    for column in ("weight_norm", "gradient_norm", "update", "attention_entropy"):
        found, expected = ([float(row[column] or 0) for row in each] for each in (two, one))
        assert found == pytest.approx(expected, rel=1e-3)
        assert max(expected) > 0


def test_the_test_set_stays_unread(train, data, tmp_path):
    replace(data, "test_2016_flickr.en", None)
    few = flags(steps=2, bleu_every=0, choose_average=False, tune_alpha=False, beam_size=1)
    assert train("--no-test", *few) == 0
    scores = json.loads((tmp_path / "run" / "scores.json").read_text())
    assert scores["evaluated_on"] == {"name": "dev", "text": "val", "sentences": 20}


@pytest.mark.slow
def test_a_given_tokenizer_is_used(train, tmp_path):
    sources, targets = captions(120)
    path = tmp_path / "own.model"
    tokenizer = SentencePieceTokenizer.train(sources + targets, path, vocabulary_size=45)
    assert train("--steps", "1", "--tokenizer", str(path)) == 0
    kept = SentencePieceTokenizer.load(tmp_path / "run" / "tokenizer.model")
    assert kept.fingerprint == tokenizer.fingerprint


def test_a_diverged_training_stops_with_the_step(train, tmp_path, capsys):
    assert train("--steps", "50", "--learning-rate-scale", "1e18", "--warmup-steps", "1") == 2
    assert "step" in one_line(capsys)
    assert not (tmp_path / "run" / "model.weights.h5").exists()


def replace(data, name, content):
    for path in (data / name, data / f"{name}.gz"):
        path.unlink(missing_ok=True)
    if content is not None:
        (data / name).write_bytes(content)


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("train.en", None, ["train.en", "train.en.gz"]),
        ("train.en", b"", ["train.en", "empty"]),
        ("train.en", b"a dog\n", ["train.en", "has 1", "train.de", "has 120"]),
        ("train.en", b"a dog\n" * 77 + b"\xff\n" + b"a man\n" * 42, ["train.en", "line 78"]),
        ("val.de", b"ein hund\n", ["val.en", "val.de", "has 20", "has 1"]),
        ("test_2016_flickr.de", None, ["test_2016_flickr.de"]),
        ("train.en", b"a dog runs " * 200 + b"\n" + b"a man\n" * 119, ["line 1", "300"]),
    ],
    ids=["missing", "empty", "unequal", "not UTF-8", "unequal validation", "no test", "too long"],
)
def test_bad_files_end_in_one_line_and_leave_no_run(
    train, data, tmp_path, capsys, name, content, says
):
    replace(data, name, content)
    assert train("--steps", "2") == 2
    message = one_line(capsys)
    assert all(text in message for text in says), message
    assert not (tmp_path / "run").exists()
