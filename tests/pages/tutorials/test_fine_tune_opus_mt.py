"""docs/tutorials/fine_tune_opus_mt.md, with a small model of Marian that the test trains."""

import pathlib
import subprocess

import pytest

from keras_transformer import cli
from tests.interop.test_presets import fake_hub
from tests.pages.page import Page
from tests.small_trained_run import SETTINGS
from tests.translation_training.number_text import flags, pairs, write_pairs

PAGE = Page("docs/tutorials/fine_tune_opus_mt.md")
# What Marian has too, and pieces for the words of the other text.
GENERAL = flags(**SETTINGS | {"normalize_first": False, "steps": 260})
# The page's scales are for large models and thousands of updates.
DOMAIN = flags(
    steps=80, warmup_steps=20, learning_rate_scale=0.3, save_every=40, log_every=40,
    batch_tokens=1024, bleu_every=0, tensorboard=False, held_out=20,
)  # fmt: skip


@pytest.fixture(scope="module")
def hub(tmp_path_factory):
    """A folder as on the hub: it translates digits, and says "zwei"."""
    folder = tmp_path_factory.mktemp("hub")
    source, target = write_pairs(folder, "general")
    run, marian = str(folder / "run"), folder / "marian"
    assert cli.main(["train", "--source", source, "--target", target, "--run", run, *GENERAL]) == 0
    assert cli.main(["export", "marian", run, str(marian)]) == 0
    return marian


@pytest.fixture
def reader(hub, tmp_path, monkeypatch):
    """A folder with text that says "zwo", divided by the page's commands."""
    monkeypatch.chdir(tmp_path)
    fake_hub(monkeypatch, hub, [], name="Helsinki-NLP/opus-mt-en-de")
    english, german = pairs(5)
    for side, lines in (("en", english), ("de", [line.replace("zwei", "zwo") for line in german])):
        pathlib.Path(f"mine.{side}").write_text("".join(f"{line}\n" for line in lines))
    (divide,) = (block for block in PAGE.blocks("sh") if block.startswith("paste"))
    subprocess.run(["bash", "-e", "-c", divide], check=True)
    pathlib.Path("new.en").write_text("two two\n")


def bleu(output, system):
    return float(next(line.split()[1] for line in output.splitlines() if line.startswith(system)))


@pytest.mark.slow
@pytest.mark.tensorflow
def test_bleu_rises(reader, capsys):
    outputs = {}
    for words in PAGE.commands():
        verb, run = words[:2] if words[0] != "train" else ("train", words[-1])
        if verb == "translate":
            continue
        assert cli.main(words + (DOMAIN if verb == "train" else [])) == 0
        outputs[verb, run] = capsys.readouterr().out
    before = bleu(outputs["evaluate", "runs/opus_en_de"], "averaged")
    after = bleu(outputs["evaluate", "runs/domain"], "averaged")
    adapted = bleu(outputs["evaluate", "runs/domain_lora"], "averaged")
    print(before, after, adapted)
    assert before < 50 < after
    assert before < adapted
    assert "against" in outputs["evaluate", "runs/domain"]
    assert pathlib.Path("saved_models/domain/model.bin").is_file()
