"""docs/tutorials/fine_tune.md, with a small student that the test trains."""

import json
import pathlib
import subprocess

import numpy as np
import pytest
import yaml

from keras_transformer.toolkit import cli
from recipes.adapt import train
from tests.interop.marian_folders import write_bin
from tests.pages.page import Page
from tests.small_trained_run import SETTINGS
from tests.translation_training.number_text import flags, pairs, write_pairs

PAGE = Page("docs/tutorials/fine_tune.md")
RECIPE = "python -m recipes.adapt.train"
# What Firefox's students have, and pieces for the words of the other text.
STUDENT = flags(
    **SETTINGS | {"normalize_first": False, "steps": 500, "decoder_unit": "ssru"},
    use_bias=True, use_logits_bias=True, zero_id=1, positions="sinusoidal_t2t",
)  # fmt: skip
# The page's rates are for large models and thousands of updates.
DOMAIN = flags(
    steps=120, warmup_steps=30, learning_rate_scale=0.3, save_every=60, log_every=60,
    batch_tokens=1024, bleu_every=0, tensorboard=False, held_out=20,
)  # fmt: skip


@pytest.fixture(scope="module")
def student(tmp_path_factory):
    """A folder as in the package: it translates digits, and says "zwei"."""
    folder = tmp_path_factory.mktemp("package")
    source, target = write_pairs(folder, "general")
    run, marian = str(folder / "run"), folder / "marian"
    assert cli.main(["train", "--source", source, "--target", target, "--run", run, *STUDENT]) == 0
    assert cli.main(["export", "marian", run, str(marian), "--native"]) == 0
    with np.load(marian / "model.npz") as file:
        arrays = dict(file)
    config = yaml.safe_load(arrays.pop("special:model.yml").tobytes().rstrip(b"\0").decode())
    published = folder / "published"
    published.mkdir()
    write_bin(published / "model.enpt.bin", arrays, config)
    (published / "vocab.enpt.spm").write_bytes((marian / "vocab.spm").read_bytes())
    return published


@pytest.fixture
def reader(student, tmp_path, monkeypatch):
    """The reader's folder: text that says "zwo", divided by the page's commands."""
    monkeypatch.chdir(tmp_path)
    (model,) = (words[2] for words in PAGE.commands() if words[:2] == ["import", "bergamot"])
    pathlib.Path(model).parent.mkdir(parents=True)
    pathlib.Path(model).symlink_to(student)
    domain = [
        (english, german.replace("zwei", "zwo"))
        for english, german in zip(*pairs(6), strict=True)
        if english.startswith("five")
    ]
    for side, lines in zip(("en", "pt"), zip(*domain, strict=True), strict=True):
        pathlib.Path(f"mine.{side}").write_text("".join(f"{line}\n" for line in lines))
    (divide,) = (block for block in PAGE.blocks("sh") if block.startswith("paste"))
    subprocess.run(["bash", "-e", "-c", divide], check=True)
    general = "".join(f"{line}\n" for line in pairs(4)[0] if not line.startswith("five"))
    pathlib.Path("general.en").write_text(general)


@pytest.mark.slow
@pytest.mark.tensorflow
def test_bleu_rises(reader, capsys):
    trainings = iter(PAGE.commands(RECIPE))
    evaluated = {}
    for words in PAGE.commands():
        if words[0] == "translate" and "--input" not in words:
            continue
        if words[0] == "evaluate" and words[1] == "runs/domain":
            for arguments in trainings:
                assert train.main([*arguments, *DOMAIN]) is None
        assert cli.main(words + (DOMAIN if words[0] == "train" else [])) == 0
        if words[0] == "evaluate":
            evaluated[words[1]] = capsys.readouterr().out
    for run in ("domain", "domain_lora"):
        rows = json.loads(pathlib.Path("runs", run, "scores.json").read_text())["adaptation"]
        (domain, general) = rows
        print(run, domain, general)
        assert domain["before"] < 50 < domain["after"]
        assert general["before"] == pytest.approx(100)
        assert general["after"] > 60
    assert "against" in evaluated["runs/domain"]
    (mine,) = (line for line in evaluated["runs/mine"].splitlines() if line.startswith("averaged"))
    assert float(mine.split()[1]) > 50
    assert pathlib.Path("exports/domain/model.tflite").is_file()
