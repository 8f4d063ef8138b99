"""Each verb once, with small models: one that has learned digits, others of random weights."""

import contextlib
import io
import json
import os
import pathlib
import shlex
import signal
import subprocess
import sys
import types

import httpx
import pytest

from keras_transformer.parsing.linearization import TreeTokenizer
from keras_transformer.runs.run_directory import RunDirectory
from keras_transformer.runs.shipped_models import presets
from keras_transformer.text import SentencePieceTokenizer
from keras_transformer.toolkit import cli
from keras_transformer.training.translation.training import next_commands
from tests.random_translation import build
from tests.translation_training.number_text import flags, write_pairs

pytestmark = pytest.mark.tensorflow
SOURCES = ("one two three four", "five five one two")
TARGETS = ("eins zwei drei vier", "fünf fünf eins zwei")


# A browser that writes the address that it is given.
RECORD = "-c 'import sys,pathlib;pathlib.Path(sys.argv[1]).write_text(sys.argv[2])'"


@pytest.fixture
def command(capfd, monkeypatch):
    """Call the command; its standard output."""

    def call(*arguments, stdin=""):
        stream = types.SimpleNamespace(buffer=io.BytesIO(stdin.encode()))
        monkeypatch.setattr(sys, "stdin", stream)
        code = cli.main([str(argument) for argument in arguments])
        printed = capfd.readouterr()
        assert code == 0, printed.err
        return printed.out

    return call


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Two pairs, as flags of the verbs that take files."""
    folder = tmp_path_factory.mktemp("files")
    for name, lines in (("source", SOURCES), ("target", TARGETS)):
        (folder / name).write_text("".join(f"{line}\n" for line in lines), "utf-8")
    return str(folder / "source"), str(folder / "target")


@pytest.fixture(scope="module")
def own_run(trained_run, tmp_path_factory, files):
    """A run of two more updates, which tests may change."""
    folder = tmp_path_factory.mktemp("own")
    source, target = write_pairs(folder, "train", length=2)
    run = folder / "run"
    settings = flags(steps=2, save_every=1, log_every=1, learning_rate_scale=0.001)
    with contextlib.redirect_stdout(io.StringIO()):
        text = ["--source", source, "--target", target]
        code = cli.main(["train", "--from", str(trained_run), *text, "--run", str(run), *settings])
    assert code == 0
    return run


def test_demo(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    small = ["--numbers=60", "--held-out=8", "--validation=8", "--num-layers=1"]
    small += ["--vocabulary-size=60", "--steps=1", "--warmup-steps=1", "--no-deterministic"]
    printed = command("demo", "--run", "first", "--no-probe", *small)
    assert "Try next:" in printed
    assert printed.endswith("\nfirst\n")
    for line in next_commands(pathlib.Path("first"), "Six thousand two hundred and seven."):
        assert line in printed
        flags = shlex.split(line.rpartition("|")[2])[1:]
        cli.make_parser().parse_args(flags)  # SystemExit if a flag is unknown
        if flags[0] in ("attention", "export"):
            command(*[flag for flag in flags if flag != "--open"])
    assert pathlib.Path("first/attention.html").is_file()
    assert printed.count("\nReport: first/report.html\n") == 1
    assert "exact match" in pathlib.Path("first/report.html").read_text("utf-8")
    assert pathlib.Path("first-litert/model.tflite").is_file()


def test_train(own_run):
    run = RunDirectory.open(own_run)
    assert run.checkpoints.paths() == [run.checkpoints.path_of(step) for step in (1, 2)]
    assert run.weights_path.is_file()


def test_translate(command, trained_run):
    assert command("translate", trained_run, stdin="\n".join(SOURCES)).splitlines() == [*TARGETS]


def test_evaluate(command, trained_run, files):
    source, target = files
    scores = json.loads(
        command("evaluate", trained_run, "--source", source, "--reference", target, "--json")
    )
    assert scores["systems"]["averaged"]["bleu"] == pytest.approx(100)


def test_tune(command, own_run, files):
    source, target = files
    command("tune", own_run, "--source", source, "--reference", target, "--alphas", "0.4,0.8")
    assert RunDirectory.open(own_run).search_defaults()["alpha"] in (0.4, 0.8)


def test_evalb(command, tmp_path):
    (tmp_path / "trees").write_text("(S (NP (DT the) (NN cat)) (VP (VBD sat)))\n")
    printed = command("evalb", tmp_path / "trees", tmp_path / "trees", "--json")
    assert json.loads(printed)["all"]["f1"] == 100


def test_score(command, trained_run, files):
    source, target = files
    right = command("score", trained_run, "--source", source, "--target", target).split()
    wrong = command("score", trained_run, "--source", source, "--target", source).split()
    assert all(float(a) > float(b) for a, b in zip(right, wrong, strict=True))


def test_align(command, trained_run, files):
    source, target = files
    printed = command("align", trained_run, "--source", source, "--target", target)
    for line in printed.splitlines():
        assert [pair.split("-")[1] for pair in line.split()] == ["0", "1", "2", "3"]


def test_attention(command, trained_run, tmp_path):
    page = tmp_path / "page.html"
    command("attention", trained_run, "--source", SOURCES[0], "--output", page)
    assert '"cross"' in page.read_text("utf-8")


def test_average(command, own_run):
    name = command("average", own_run, "--last", "2").strip()
    translated = command("translate", own_run, "--checkpoint", name, stdin=SOURCES[0])
    assert translated.strip() == TARGETS[0]


def test_check(command, trained_run):
    assert str(trained_run) in command("check", trained_run)


def test_plot(command, trained_run, tmp_path):
    pytest.importorskip("matplotlib")
    assert command("plot", trained_run, "--output", tmp_path / "plot.pdf")
    assert (tmp_path / "plot.pdf").read_bytes().startswith(b"%PDF")


def test_models(command):
    assert [model["name"] for model in json.loads(command("models", "--json"))] == [
        model.name for model in presets()
    ]


def test_cost(command, trained_run):
    (row,) = json.loads(command("cost", trained_run, "--json"))["runs"]
    assert row["counted_flops"] > 0


def test_export_and_serve(command, trained_run, tmp_path):
    path = command("export", "saved-model", trained_run, tmp_path / "digits").strip()
    assert path == str(tmp_path / "digits" / "1")
    assert str(tmp_path / "digits") in command("serve", tmp_path / "digits", "--docker", "--print")


def test_import(command, post_norm_run, tmp_path):
    command("export", "marian", post_norm_run, tmp_path / "theirs")
    run = command("import", "marian", tmp_path / "theirs", tmp_path / "ours").strip()
    expected = command("translate", post_norm_run, stdin="green old lamp")
    assert command("translate", run, stdin="green old lamp") == expected


def test_parse(command, tmp_path):
    words = SentencePieceTokenizer.train([*SOURCES], vocabulary_size=30)
    trees = TreeTokenizer.of(["(NP", "(S", ")NP", ")S", "XX"])
    model = build(trees, source_vocabulary_size=words.vocabulary_size)
    run = RunDirectory.create(tmp_path / "run")
    run.start(model=model, tokenizer=trees, source_tokenizer=words, settings={})
    model.save_weights(run.weights_path)
    tree = command("parse", run.path, "--repair", stdin=SOURCES[0]).strip()
    assert tree.startswith("(")
    assert all(word in tree for word in SOURCES[0].split())


def test_app(trained_run, tmp_path):
    command = [sys.executable, "-m", "keras_transformer", "app", str(trained_run), "--port", "0"]
    opened = tmp_path / "opened"
    browser = {"BROWSER": f"{sys.executable} {RECORD} {opened} %s"}
    with subprocess.Popen(
        [*command, "--open"], stdout=subprocess.PIPE, text=True, env=os.environ | browser
    ) as process:
        try:
            address = process.stdout.readline().split()[1]
            answer = httpx.post(f"{address}api/translate", json={"text": SOURCES[0]}, timeout=120)
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 0
        finally:
            process.kill()
    assert TARGETS[0] in answer.text
    assert opened.read_text() == address


def test_every_verb_is_here():
    tested = {name.removeprefix("test_") for name in globals() if name.startswith("test_")}
    assert {*cli.VERBS} <= {verb for name in tested for verb in name.split("_and_")}
