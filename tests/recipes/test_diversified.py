"""The script of models that read the translations of others."""

import itertools
import json
import os
import pathlib
import subprocess
import sys

import pytest

from recipes.multi30k_en_de.settings import Multi30kSettings
from tests.recipes.captions import SMALL, captions
from tests.translation_training.number_text import flags

ROOT = pathlib.Path(__file__).parents[2]
SCRIPT = ROOT / "recipes" / "multi30k_en_de" / "diversified.sh"
STAND_IN = """#!{python}
import json, pathlib, sys
arguments = sys.argv[1:]
with open({log!r}, "a") as log:
    log.write(json.dumps(arguments) + "\\n")
if "--output" in arguments:
    pathlib.Path(arguments[arguments.index("--output") + 1]).write_text("")
if arguments[1] == "recipes.distilled.choose":
    pathlib.Path(arguments[3]).write_text("")
if "--run" in arguments:
    run = pathlib.Path(arguments[arguments.index("--run") + 1])
    if run.name == {broken!r}:
        sys.exit(1)
    run.mkdir()
    (run / "scores.json").write_text("{{}}")
"""


@pytest.fixture
def data(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    for part, number in (("train", 120), ("val", 20)):
        for side, sentences in zip(("en", "de"), captions(number), strict=True):
            (folder / f"{part}.{side}").write_text("\n".join(sentences) + "\n", encoding="utf-8")
    return folder


@pytest.fixture
def script(data, tmp_path):
    """Run the script; returns its process and the commands that it has given so far."""

    def call(*arguments, broken="", **environment):
        log, python = tmp_path / "log", tmp_path / "python"
        python.write_text(STAND_IN.format(python=sys.executable, log=str(log), broken=broken))
        python.chmod(0o755)
        done = subprocess.run(
            [str(SCRIPT), str(data), str(tmp_path / "runs"), *arguments],
            env={**os.environ, "PYTHON": str(python), **environment},
            capture_output=True,
            text=True,
        )
        return done, [json.loads(line) for line in log.read_text().splitlines()]

    return call


def value(command, flag):
    return command[command.index(flag) + 1]


def test_every_part_is_trained_once_also_after_a_break(script, tmp_path):
    runs = tmp_path / "runs"
    done, first = script("--steps", "7", broken="seed1", MIXED_FLAGS="--steps 9")
    assert done.returncode == 1
    modules = [command[1] for command in first]
    assert modules == [
        "recipes.multi30k_en_de.train",
        "recipes.translate_text.train",
        "keras_transformer",
        "keras_transformer",
        "recipes.distilled.choose",
        "recipes.distilled.choose",
        "recipes.translate_text.train",
        "recipes.translate_text.train",
    ]
    forward, backward, of_english, of_german, german, english, mixed, last = first
    assert "--no-test" in forward
    assert value(forward, "--steps") == "7"
    assert pathlib.Path(value(backward, "--source")).name == "train.de"
    assert pathlib.Path(value(backward, "--dev-target")).name == "val.en"
    assert value(backward, "--steps") == "7"
    assert value(backward, "--settings") == str(runs / "forward" / "settings.json")
    for name, translation, choice in (
        ("forward", of_english, german),
        ("backward", of_german, english),
    ):
        assert translation[2:4] == ["translate", str(runs / name)]
        assert choice[2] == value(translation, "--output")
    assert pathlib.Path(value(german, "--reference")).name == "train.de"
    assert pathlib.Path(value(english, "--reference")).name == "train.en"
    assert mixed[-4:] == ["--steps", "7", "--steps", "9"]  # the last one counts
    mixes = [mixed[at + 1 : at + 4] for at, flag in enumerate(mixed) if flag == "--mix"]
    assert [weight for *_, weight in mixes] == ["1", "1"]
    assert mixes[0][1] == german[3]
    assert mixes[1][0] == english[3]
    assert value(last, "--from") == str(runs / "mixed1")

    done, both = script("--steps", "7", SEEDS="1 2")
    assert done.returncode == 0, done.stderr
    again, german2, english2, *others, tuning = both[len(first) :]
    assert again == last
    ways = [value(command, "--by") for command in (german, english, german2, english2)]
    assert ways == ["best", "best", "sentence-bleu", "random"]
    assert [pathlib.Path(value(command, "--run")).name for command in others] == ["mixed2", "seed2"]
    assert tuning[2:5] == ["tune", str(runs / "seed1"), str(runs / "seed2")]
    assert "test_2016_flickr" not in " ".join(itertools.chain(*both))


def test_a_line_says_what_is_missing():
    done = subprocess.run([str(SCRIPT)], capture_output=True, text=True)
    assert done.returncode != 0
    assert "the folder of the text" in done.stderr


@pytest.mark.slow
@pytest.mark.tensorflow
def test_two_seeds_of_invented_captions(data, tmp_path):
    runs = tmp_path / "runs"
    few = flags(steps=4, bleu_every=0, choose_average=False, tune_alpha=False)
    done = subprocess.run(
        [str(SCRIPT), str(data), str(runs), *SMALL, *few],
        cwd=ROOT,
        env={
            **os.environ,
            "PYTHON": sys.executable,
            "SEEDS": "1 2",
            "MIXED_FLAGS": " ".join(flags(num_encoder_layers=1, num_decoder_layers=1)),
            "LAST_FLAGS": "--steps 2 --learning-rate-scale 0.04",
        },
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    chosen = [(runs / name).read_text() for name in ("backward1.en", "backward2.en")]
    assert [len(text.splitlines()) for text in chosen] == [120, 120]
    assert chosen[0] != chosen[1]  # the best, and any
    for name in ("forward", "backward", "mixed1", "mixed2", "seed1", "seed2"):
        assert "bleu" in json.loads((runs / name / "scores.json").read_text())
    assert "--alpha" in done.stdout
    assert Multi30kSettings().bleu_tokenize == "none"  # as the script's last command has it
