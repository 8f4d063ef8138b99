"""The comparison with JoeyNMT: its text, its settings, its clock, its choices, its table."""

import dataclasses
import gzip
import importlib.util
import json
import re
import shutil
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from benchmarks.joeynmt import __main__ as program
from benchmarks.joeynmt import ours as ours_side
from benchmarks.joeynmt.average_checkpoints import mean_state
from benchmarks.joeynmt.measurement import Measurement
from benchmarks.joeynmt.ours import Ours
from benchmarks.joeynmt.peer import Peer
from benchmarks.joeynmt.peer_settings import PeerSettings, config_text
from benchmarks.joeynmt.prepare import PreparedText, prepare_text
from benchmarks.joeynmt.report import lines, record
from benchmarks.joeynmt.training_log import LoggedCheckpoint, read_perplexity, read_training_log
from benchmarks.peers.machine import ROOT
from keras_transformer.errors import UserInputError
from keras_transformer.toolkit.cli.program import run_command
from keras_transformer.translation_training import TranslationSettings
from tests.benchmarks.fake_joeynmt import FAKE_PYTHON, LOG

SETTINGS = TranslationSettings(vocabulary_size=300)


@pytest.fixture
def data(tmp_path):
    """A folder with a text, of which one training pair has an empty side."""
    folder = tmp_path / "data"
    folder.mkdir()
    english = ["a dog runs in the park", "two dogs\u2028run", "", "a cat and a dog play"] * 5
    german = ["ein Hund läuft im Park", "zwei Hunde laufen", "nichts", "Katze und Hund"] * 5
    for part, number in (("train", 20), ("dev", 2)):
        for language, side in (("en", english), ("de", german)):
            with gzip.open(folder / f"{part}.{language}.gz", "wt", encoding="utf-8") as file:
                file.write("".join(f"{line}\n" for line in side[:number]))
    return folder


@pytest.fixture
def text(data, tmp_path):
    return prepare_text(data, tmp_path / "work" / "text", SETTINGS)


@pytest.fixture
def peer(text, tmp_path, monkeypatch):
    """JoeyNMT's side, with a program that stands for it."""
    monkeypatch.setattr("benchmarks.joeynmt.peer._LOOK_SECONDS", 0.05)
    log, python = tmp_path / "fake.log", tmp_path / "python"
    log.write_text(LOG)
    script = textwrap.dedent(FAKE_PYTHON).format(
        python=sys.executable, log=str(log), references=str(text.path("dev", "de"))
    )
    python.write_text(script)
    python.chmod(0o755)
    return Peer(str(python), tmp_path / "work" / "joeynmt", text, PeerSettings(), 256, threads=1)


def measurement(**values):
    return Measurement(
        **{
            "program": "JoeyNMT",
            "minutes": 20.0,
            "trained_minutes": 21.26,
            "updates": 1200,
            "parameters": 5490688,
            "target_tokens_per_second": 1931.4,
            "averaged_checkpoints": 4,
            "alpha": 0.6,
            "bleu": 30.125,
            "chrf": 50.5,
            "bleu_signature": "tok:13a",
            "chrf_signature": "nc:6",
            "commands": ["python -m joeynmt train train.yaml"],
            "details": {},
            **values,
        }
    )


def test_both_programs_read_the_same_lines_and_pieces(data, text):
    assert text.lines("train", "en")[:3] == [
        "a dog runs in the park",
        "two dogs run",  # some programs take U+2028 for the end of a line
        "a cat and a dog play",
    ]
    assert text.lines("train", "de")[2] == "Katze und Hund"  # the empty pair is gone on both sides
    assert len(text.lines("train", "en")) == len(text.lines("train", "de")) == 15
    pieces = text.vocabulary.read_text(encoding="utf-8").splitlines()
    assert len(set(pieces)) == 300
    assert {"<unk>", "<pad>", "<s>", "</s>", "<0x00>", "▁dog"} <= set(pieces)


def test_a_text_is_prepared_once_and_never_for_other_data(data, text, tmp_path):
    before = text.tokenizer.stat().st_mtime_ns
    prepare_text(data, text.directory, SETTINGS)
    assert text.tokenizer.stat().st_mtime_ns == before
    with pytest.raises(UserInputError, match="--work must be a new folder for other data"):
        prepare_text(data, text.directory, SETTINGS, most_pairs=3)
    with pytest.raises(UserInputError, match="which contains other data, or another vocabulary"):
        prepare_text(data, text.directory, dataclasses.replace(SETTINGS, byte_fallback=False))
    (data / "dev.de").write_text("eins\nzwei\n")
    few = prepare_text(data, tmp_path / "few", SETTINGS, most_pairs=6)
    assert len(few.lines("train", "en")) == 6
    (data / "dev.de").write_text("zwei\neins\n")  # of the same name and size
    with pytest.raises(UserInputError, match="--work must be a new folder for other data"):
        prepare_text(data, few.directory, SETTINGS, most_pairs=6)


def test_the_defaults_are_the_best_of_the_readme():
    readme = (ROOT / "benchmarks" / "joeynmt" / "README.md").read_text()
    rows = re.findall(
        r"^\| (\d+) \| (\d+) \| (\S+) \| \S+ \| (\S+) \|$", readme.replace("*", ""), re.M
    )
    assert len(rows) == 3
    *best, _ = min((tuple(map(float, row)) for row in rows), key=lambda row: row[-1])
    settings = PeerSettings()
    assert best == [settings.batch_tokens, settings.warmup_steps, settings.learning_rate]


def test_the_configuration_of_a_training(tmp_path):
    yaml = pytest.importorskip("yaml")
    settings = PeerSettings(learning_rate=5e-5, batch_tokens=8192, num_layers=2, validate_every=30)
    text = PreparedText(tmp_path / "text")
    config = yaml.safe_load(config_text(text, tmp_path / "model", settings, None))
    assert config["model_dir"] == str(tmp_path / "model")
    assert config["data"]["train"] == str(tmp_path / "text" / "train")
    source, target = config["data"]["src"], config["data"]["trg"]
    assert (source["lang"], target["lang"]) == ("en", "de")
    assert source["max_length"] == -1
    assert {**source, "lang": "de"} == target
    assert source["tokenizer_cfg"]["model_file"] == str(text.tokenizer)
    training = config["training"]
    assert training["validation_freq"] % training["logging_freq"] == 0
    assert (
        training.items()
        >= {
            "learning_rate": 5e-5,  # a number: YAML takes 5e-05 for a string
            "learning_rate_min": 1e-8,
            "batch_size": 8192,
            "label_smoothing": 0.1,
        }.items()
    )
    assert config["testing"]["load_model"] is None
    encoder, decoder = config["model"]["encoder"], config["model"]["decoder"]
    assert (encoder["num_layers"], encoder["layer_norm"]) == (2, "pre")
    assert encoder["embeddings"] == decoder["embeddings"]


def test_the_configuration_of_a_score_and_of_a_search(tmp_path):
    yaml = pytest.importorskip("yaml")
    arguments = PreparedText(tmp_path), tmp_path / "model", PeerSettings(), 256
    checkpoint = tmp_path / "mean.ckpt"
    score = yaml.safe_load(config_text(*arguments, checkpoint=checkpoint, return_prob="ref"))
    assert score["training"]["label_smoothing"] == 0  # or it would not be the perplexity
    expected = {"return_prob": "ref", "return_attention": True, "beam_size": 1}
    assert score["testing"].items() >= expected.items()
    search = yaml.safe_load(config_text(*arguments, checkpoint=checkpoint, beam_size=5, alpha=1.4))
    expected = {"return_attention": False, "beam_size": 5, "beam_alpha": 1.4}
    assert search["testing"].items() >= {**expected, "load_model": str(checkpoint)}.items()


def test_the_clock_of_a_log_leaves_validations_out():
    log = read_training_log(LOG.splitlines())
    assert log.parameters == 5490688
    # 46.5 s; then 15.5 s of validation, 60 s of training; 10 s more are no training either.
    assert log.checkpoints == [LoggedCheckpoint(20, 46.5), LoggedCheckpoint(40, 106.5)]
    assert log.validation_seconds == 25.5
    assert log.first_after(0.5) == LoggedCheckpoint(20, 46.5)
    assert log.first_after(1.0) == LoggedCheckpoint(40, 106.5)
    assert log.first_after(2.0) is None


def test_the_perplexity_is_the_scoring_one():
    greedy = "Evaluation result (greedy): loss: 6.95, ppl: 1043.76, acc: 0.09, 0.0000[sec]"
    scoring = "- Evaluation result (scoring) loss:  41.20, ppl:  24.31, acc:   0.41."
    assert read_perplexity(f"{scoring}\n{greedy}\n") == 24.31
    assert read_perplexity(greedy) is None


class Tensor(np.ndarray):
    """An array with the names of a PyTorch tensor that a mean takes."""

    def is_floating_point(self):
        return self.dtype.kind == "f"

    def double(self):
        return self.astype("float64")

    def to(self, dtype):
        return self.astype(dtype)


def tensor(values, dtype):
    return np.array(values, dtype).view(Tensor)


def test_the_mean_of_checkpoints():
    states = [
        {"w": tensor([value, 1.0], "float32"), "count": tensor(number, "int64")}
        for number, value in enumerate((1.0, 2.0, 6.0))
    ]
    mean = mean_state(states)
    assert mean["w"].tolist() == [3.0, 1.0]
    assert mean["w"].dtype == "float32"
    assert mean["count"] == 2  # the last one's


def test_a_training_ends_at_its_minutes_and_the_best_weights_and_alpha_translate(peer, tmp_path):
    log = tmp_path / "work" / "joeynmt" / "model" / "train.log"
    peer.train(1.5)
    before = log.stat().st_mtime_ns
    peer.train(1.5)
    assert log.stat().st_mtime_ns == before  # it is not repeated
    with pytest.raises(UserInputError, match="another training run of JoeyNMT"):
        peer.train(1.0)
    found = peer.measure(1.5, beam_size=5, alphas=[0.0, 0.6, 1.0])
    assert (found.updates, found.parameters) == (40, 5490688)
    assert found.trained_minutes == pytest.approx(106.5 / 60)
    assert found.target_tokens_per_second == pytest.approx(4850 / 106.5)
    assert found.averaged_checkpoints == 2
    assert found.details["dev_perplexity_by_averaged"] == {"1": 30.5, "2": 20.5}
    assert found.alpha == 0.6
    assert found.bleu == pytest.approx(100)
    assert found.details["bleu_by_alpha"]["1"] < 1
    assert found.commands[1].startswith("python -m joeynmt test ")
    earlier = peer.measure(0.5, beam_size=5, alphas=[0.6])
    assert (earlier.updates, earlier.averaged_checkpoints) == (20, 1)


def test_an_early_end_is_told_with_its_reason(text, tmp_path):
    peer = Peer(sys.executable, tmp_path / "work" / "joeynmt", text, PeerSettings(), 256, threads=1)
    if importlib.util.find_spec("joeynmt"):
        pytest.skip("JoeyNMT is installed beside the tests")
    with pytest.raises(UserInputError, match="JoeyNMT ended early: .*No module named joeynmt"):
        peer.train(1.0)


def test_our_side_is_the_recipe_on_the_same_files(text, tmp_path, monkeypatch, trained_run):
    commands = []

    def train(command, **options):
        """Leave the files of a run that translates as the references."""
        commands.append((command, options["env"]))
        run = tmp_path / "ours" / "2-minutes"
        shutil.copytree(trained_run, run)
        run.joinpath("samples.txt").write_text("ein Hund läuft im Park\nzwei Hunde laufen\n")
        run.joinpath("validation.csv").write_text("step,seconds\n300,60.0\n471,119.9\n")
        scores = {
            "command": " ".join(["python", *command[1:]]),
            "seconds": 121.5,
            "target_tokens_per_second": 4300.0,
            "averaged_checkpoints": 3,
            "alpha": 1.1,
            "versions": {"keras": "3.15.1"},
        }
        run.joinpath("scores.json").write_text(json.dumps(scores))
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(ours_side.subprocess, "run", train)
    settings = tmp_path / "settings.toml"
    settings.write_text('preset = "tiny"\n')
    ours = Ours(tmp_path / "ours", text, settings, threads=3)
    found = ours.measure(2.0, beam_size=5)
    ((command, variables),) = commands
    assert command[1:3] == ["-m", "recipes.translate_text.train"]
    flags = dict(zip(command[3::2], command[4::2], strict=True))
    assert flags["--tokenizer"] == str(text.tokenizer)
    assert flags["--source"] == str(text.path("train", "en"))
    assert (flags["--minutes"], flags["--beam-size"]) == ("2", "5")
    assert flags["--precision"] == "float32"
    assert variables["OMP_NUM_THREADS"] == variables["TF_NUM_INTRAOP_THREADS"] == "3"
    assert variables["MALLOC_MMAP_MAX_"] == "0"
    assert found.bleu == pytest.approx(100)
    assert (found.updates, found.alpha, found.averaged_checkpoints) == (471, 1.1, 3)
    assert found.trained_minutes == pytest.approx(121.5 / 60)
    assert found.parameters > 1000
    ours.measure(2.0, beam_size=5)
    assert len(commands) == 1  # what is there is not trained again
    for other, beam_size in ((ours, 4), (Ours(tmp_path / "ours", text, settings, threads=2), 5)):
        with pytest.raises(UserInputError, match="contains another training run"):
            other.measure(2.0, beam_size=beam_size)
    settings.write_text('preset = "small"\n')
    with pytest.raises(UserInputError, match="contains another training run"):
        ours.measure(2.0, beam_size=5)


def test_the_table_has_the_same_minutes_beside_each_other():
    ours = measurement(program="keras_transformer", parameters=5481472, bleu=33.0)
    table = list(lines([measurement(minutes=60.0), measurement(), ours]))
    assert table[1:] == [
        "     20 JoeyNMT            21.3 min    1,200   5,490,688     1,931   0.6  30.12  50.50",
        "     20 keras_transformer  21.3 min    1,200   5,481,472     1,931   0.6  33.00  50.50",
        "     60 JoeyNMT            21.3 min    1,200   5,490,688     1,931   0.6  30.12  50.50",
    ]
    assert [len(line) for line in table] == [len(table[0])] * 4
    written = record([ours], "python -m benchmarks.joeynmt", threads=2, beam_size=5)
    assert (written["threads"], written["measurements"][0]["bleu"]) == (2, 33.0)
    assert json.loads(json.dumps(written)) == written


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--minutes", "20", "--measure-at", "20", "60"], "--measure-at must be at most"),
        (["--python", "/no/such/python"], "JoeyNMT's Python is missing: /no/such/python"),
    ],
)
def test_a_wrong_flag_is_one_line(flags, message, tmp_path, capsys):
    arguments = ["--data", str(tmp_path), "--work", str(tmp_path / "work"), *flags]
    assert run_command(lambda: program.main(arguments)) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line


def test_settings_with_other_sizes_than_joeynmt_are_refused(tmp_path, capsys):
    settings = tmp_path / "settings.toml"
    settings.write_text('preset = "small"\nintermediate_dim = 1024\n')
    flags = ["--data", str(tmp_path), "--only", "ours", "--settings", str(settings)]
    assert run_command(lambda: program.main([*flags, "--work", str(tmp_path / "work")])) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "`intermediate_dim` must be that of one_hour.toml" in line
    assert line.endswith(": 512. Received: 1024")
    assert not (tmp_path / "work").exists()


@pytest.mark.slow
@pytest.mark.tensorflow
def test_joeynmt_trains_stops_and_translates(data, tmp_path, capsys):
    if not program.PYTHON.is_file():
        pytest.skip(f"no {program.PYTHON}: `make .venv-joeynmt/installed` makes it")
    settings = tmp_path / "settings.json"
    sizes = '"preset": "small", "intermediate_dim": 512'
    settings.write_text(f'{{{sizes}, "vocabulary_size": 300}}')
    flags = ["--minutes", "0.02", "--validate-every", "2", "--dev-sentences", "1"]
    flags += ["--only", "joeynmt", "--settings", str(settings), "--alphas", "0.6"]
    program.main(["--data", str(data), "--work", str(tmp_path / "work"), *flags])
    (found,) = json.loads((tmp_path / "work" / "joeynmt.json").read_text())["measurements"]
    assert found["updates"] >= 2
    assert "JoeyNMT" in capsys.readouterr().out
