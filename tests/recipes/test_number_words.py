"""The demo: its numbers, its report, and the whole of it with few numbers and a small model."""

import contextlib
import io
import json
import pathlib
import re
import runpy
import signal
import subprocess
import sys
import time

import pytest

from keras_transformer import models
from keras_transformer.errors import UserInputError
from keras_transformer.metrics import Perplexity
from keras_transformer.runs.run_directory import RunDirectory
from keras_transformer.toolkit import cli
from keras_transformer.toolkit.cli import run_command
from keras_transformer.toolkit.demo.number_pairs import (
    ALWAYS_TRAINED,
    NumberPairs,
    NumberWordsSettings,
    split_numbers,
)
from keras_transformer.toolkit.demo.report import EXAMPLES, translation_lines
from keras_transformer.training import TrainingRun
from recipes.number_words.train import main
from recipes.recipe_options import recipe_options
from tests.training.equal_runs import rows

ROOT = pathlib.Path(__file__).parents[2]
TRANSLATE = pathlib.Path(sys.executable).with_name("keras-transformer")
SMALL = ["--numbers=300", "--held-out=30", "--validation=30", "--num-layers=1"]
SMALL += ["--hidden-dim=64", "--intermediate-dim=128", "--vocabulary-size=80"]
SMALL += ["--batch-tokens=1024", "--steps=300", "--warmup-steps=100", "--save-every=100"]


def train_command(*arguments):
    return [sys.executable, "-m", "recipes.number_words.train", *arguments]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A small demo, run as `python -m` would in this process: run directory, flags and output."""
    path = tmp_path_factory.mktemp("demo") / "run"
    flags = ["--run", str(path), "--export", str(path.with_name("saved")), *SMALL]
    flags += ["--no-deterministic"]  # TensorFlow would be so for all later tests
    program, output = ROOT / "recipes" / "number_words" / "train.py", io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(output):
        patch.setattr(sys, "argv", [str(program), *flags])
        with pytest.raises(SystemExit) as ended:
            runpy.run_path(str(program), run_name="__main__")
    assert not ended.value.code
    return path, flags, output.getvalue()


def test_words_are_those_of_num2words():
    pairs = NumberPairs.of([4321, 16])
    assert pairs.sources == ["four thousand, three hundred and twenty-one", "sixteen"]
    assert pairs.targets == ["viertausenddreihunderteinundzwanzig", "sechzehn"]


def test_every_number_is_in_one_part():
    settings = NumberWordsSettings(numbers=50, held_out=10, validation=5)
    parts = [part.numbers for part in split_numbers(settings)]
    assert [len(part) for part in parts] == [35, 5, 10]
    assert sorted(number for part in parts for number in part) == list(range(50))
    assert {*range(21), 30, 40} <= {*parts[0]}


def test_the_first_numbers_that_anyone_types_are_trained_on():
    assert {0, 16, 20, 30, 100, 900, 4000} <= ALWAYS_TRAINED
    assert not {21, 101, 110, 1001} & ALWAYS_TRAINED


def test_pairs_occur_as_people_type_them():
    pairs = NumberPairs.of([4321, *range(3001, 3200), 5, 20]).as_typed(seed=1)
    spelled = dict(zip(pairs.sources, pairs.targets, strict=True))
    assert spelled["five"] == "fünf"
    assert spelled["twenty."] == "zwanzig."
    assert spelled["five, twenty"] == "fünf, zwanzig"
    assert pairs.numbers.count(4321) == 2
    alone = [source for source in pairs.sources if source.rstrip(".") == "five"]
    assert len(alone) == 1 + 1 + 101
    others = {
        source for seed in range(40) for source in NumberPairs.of([4321]).as_typed(seed).sources
    }
    assert "four thousand three hundred twenty one." in others
    assert "four thousand, three hundred and twenty one" in others


def test_the_seed_decides_what_is_held_out():
    first, again, other = (
        split_numbers(NumberWordsSettings(numbers=100, held_out=10, validation=5, seed=seed))[2]
        for seed in (1, 1, 2)
    )
    assert first == again
    assert set(first.numbers) != set(other.numbers)


def test_numbers_must_remain_to_train_on():
    with pytest.raises(UserInputError, match="must be at most 9 together"):
        split_numbers(NumberWordsSettings(numbers=30, held_out=5, validation=5))


def test_it_ends_when_validations_get_no_better(tmp_path):
    command = "number_words", NumberWordsSettings, "Train."
    for flags, patience in ([], 3), (["--patience=5"], 5):
        arguments = ["--run", str(tmp_path), *flags]
        options, _ = recipe_options(*command, arguments=arguments, fine_tuning=False)
        assert TrainingRun.of(options).options.patience == patience


def test_a_wrong_translation_is_marked():
    lines = translation_lines(NumberPairs.of([20, 3]), ["zwanzich", "drei"])
    assert lines == [" 3  three   drei", "20  twenty  zwanzich  (wrong: zwanzig)"]


def test_the_trained_model_translates_numbers_that_were_held_out(trained):
    path, flags, output = trained
    scores = json.loads((path / "scores.json").read_text())
    assert scores["exact_match"] >= 0.9
    assert scores["bleu"] >= 90
    assert "tok:char" in scores["signature"]
    assert scores["command"] == f"python -m recipes.number_words.train {' '.join(flags)}"
    assert str(path) in output.splitlines()
    assert f"exact match {scores['exact_match']:.1%}" in output
    record = RunDirectory.open(path).record()  # for the web app
    assert record.examples == EXAMPLES
    assert (record.source_language, record.target_language) == ("en", "de")


def test_the_run_logs_the_first_steps_and_every_fiftieth(trained):
    steps = [int(row["step"]) for row in rows(trained[0] / "metrics.csv")]
    assert steps == [*range(1, 11), 50, 100, 150, 200, 250, 300]


def test_the_command_line_translates_with_the_run(trained, tmp_path, monkeypatch, capfd):
    (tmp_path / "text").write_text("two hundred and forty-six\n\nninety-nine\n")
    with open(tmp_path / "text") as text:
        monkeypatch.setattr(sys, "stdin", text)
        assert cli.main(["translate", str(trained[0])]) == 0
    expected = "zweihundertsechsundvierzig\n\nneunundneunzig\n"
    assert capfd.readouterr() == (expected, "")


def test_it_ends_with_an_export_that_translates_as_the_run_does(trained):
    path, _, output = trained
    _, after = output.split(f"\nExported to {path.with_name('saved') / '1'}")
    shown = re.findall(r"^  (.+) -> (.+)$", after, re.MULTILINE)
    assert len(shown) == 3
    samples = (path / "samples.txt").read_text("utf-8")
    for source, output in shown:
        assert re.search(rf"^ *\d+  {re.escape(source)}  +{output}( |$)", samples, re.MULTILINE)


@pytest.mark.parametrize(
    ("flag", "complaint"),
    [
        ("--vocabulary-size=10", "`vocabulary_size` is too small"),
        ("--batch-tokens=5", "`batch_tokens`"),
        ("--export=Makefile", "`--export` must name a directory"),
    ],
)
def test_a_setting_that_cannot_be_is_one_line(tmp_path, monkeypatch, capsys, flag, complaint):
    monkeypatch.chdir(ROOT)
    assert run_command(lambda: main(["--run", str(tmp_path / "run"), *SMALL, flag])) == 2
    (error,) = capsys.readouterr().err.splitlines()
    assert complaint in error
    assert not (tmp_path / "run").exists()


FEW = [*SMALL, "--steps=1", "--warmup-steps=1", "--no-deterministic", "--no-probe"]
FEW += ["--beam-size=1"]


@pytest.mark.slow
def test_a_run_goes_on_with_its_model(tmp_path, monkeypatch):
    command = ["--run", str(tmp_path / "run"), "--precision=auto", *FEW]
    assert run_command(lambda: main(command)) == 0
    monkeypatch.setattr(models, "build_transformer", None)
    assert run_command(lambda: main([*command, "--steps=2", "--resume"])) == 0


@pytest.mark.slow
def test_a_training_without_a_finite_perplexity_has_weights_all_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr(Perplexity, "result", lambda metric: float("inf"))
    path = tmp_path / "run"
    assert run_command(lambda: main(["--run", str(path), *FEW])) == 0
    assert not (path / "checkpoints" / "best.weights.h5").exists()
    assert (path / "model.weights.h5").is_file()


@pytest.mark.parametrize("name", ["numbers", "vocabulary_size"])
def test_settings_have_a_bound(name):
    with pytest.raises(UserInputError, match=f"`{name}` must be less than"):
        NumberWordsSettings(**{name: 2**63 - 1})


@pytest.mark.slow
def test_interrupting_leaves_a_checkpoint_that_translates(tmp_path):
    path = tmp_path / "run"
    command = train_command("--run", str(path), *SMALL, "--steps=100000", "--save-every=10")
    process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)
    try:
        deadline = time.monotonic() + 600
        while not list(path.glob("checkpoints/best.weights.h5")):
            assert process.poll() is None, process.stderr.read()
            assert time.monotonic() < deadline
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=600)
    finally:
        process.kill()
    assert process.returncode == 130
    assert "Traceback" not in errors
    command = [TRANSLATE, "translate", str(path)]
    done = subprocess.run(command, input="ninety-nine\n", capture_output=True, text=True)
    assert done.returncode == 0
    assert done.stdout.count("\n") == 1
    assert "is not finished" in done.stderr
