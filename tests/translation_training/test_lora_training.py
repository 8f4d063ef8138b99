"""`keras-transformer train --lora-rank`: adapters of a run, and the verbs that read them."""

import json

import numpy as np
import pytest

from keras_transformer import Translator, serving
from keras_transformer.runs.run_directory import RunDirectory
from keras_transformer.toolkit import cli
from tests.translation_training.number_text import train_pairs, write_pairs
from tests.written_files import one_line

pytestmark = pytest.mark.tensorflow

FEW = {
    "lora_rank": 2,
    "lora_alpha": 4.0,
    "optimizer": "adam",
    "steps": 4,
    "save_every": 2,
    "learning_rate_scale": 0.02,
    "bleu_sentences": 4,
    "tune_alpha": True,
}
SENTENCES = ["one two three five", "five five four one"]


@pytest.fixture(scope="module")
def adapted(trained_run, tmp_path_factory):
    """A run of adapters of `trained_run`."""
    directory = tmp_path_factory.mktemp("adapted")
    code, run = train_pairs(directory, directory / "run", "--from", trained_run, **FEW)
    assert code == 0
    return run


def test_the_run_translates_with_merged_weights(adapted, trained_run):
    assert adapted.settings() == {**RunDirectory(trained_run).settings(), **FEW}
    assert adapted.record().origin == str(trained_run)
    origin = RunDirectory(trained_run).load_model()
    for before, now in zip(
        origin.get_weights(), adapted.load_model("base").get_weights(), strict=True
    ):
        np.testing.assert_array_equal(before, now)
    final = adapted.load_model().get_weights()
    assert any(
        np.abs(before - now).max() > 0
        for before, now in zip(origin.get_weights(), final, strict=True)
    )
    scores = json.loads(adapted.scores_path.read_text())
    assert scores["bleu"] > 80
    assert scores["tuned_on"]["sentences"] == 20
    expected = Translator.load(trained_run).translate(SENTENCES)
    assert Translator.load(adapted.path).translate(SENTENCES) == expected
    assert Translator.load(adapted.path, checkpoint="best").translate(SENTENCES) == expected


def test_verbs_read_the_run(adapted, tmp_path, capsys):
    assert cli.main(["average", str(adapted.path), "--last", "2"]) == 0
    name = capsys.readouterr().out.strip()
    weights = [adapted.load_model(f"step-0000000{step}").get_weights() for step in (2, 4)]
    for mean, *both in zip(adapted.load_model(name).get_weights(), *weights, strict=True):
        expected = (both[0].astype("float64") + both[1].astype("float64")) / 2
        np.testing.assert_allclose(mean, expected, atol=1e-6)
    assert cli.main(["check", str(adapted.path)]) == 0
    source, target = write_pairs(tmp_path, "few", stop=3)
    evaluate = ["evaluate", str(adapted.path), "--source", source, "--reference", target]
    assert cli.main(evaluate) == 0


@pytest.mark.parametrize(
    ("kind", "engine"),
    [
        ("ctranslate2", "CTranslate2Translator"),
        pytest.param("saved-model", "SavedModelTranslator", marks=pytest.mark.slow),
        pytest.param("litert", "LiteRTTranslator", marks=pytest.mark.slow),
    ],
)
def test_an_export_translates_as_the_run(adapted, tmp_path, capsys, kind, engine):
    options = [] if kind == "ctranslate2" else ["--beam-size", "1"]
    assert cli.main(["export", kind, str(adapted.path), str(tmp_path / "to"), *options]) == 0
    path = capsys.readouterr().out.strip()
    expected = Translator.load(adapted.path, beam_size=1).translate(SENTENCES)
    assert getattr(serving, engine)(path).translate(SENTENCES) == expected


def test_a_run_of_adapters_is_a_run_to_start_from(adapted, tmp_path):
    """With all weights, from the merged ones."""
    few = {"lora_rank": "none", "steps": 1, "save_every": 1, "bleu_every": 0}
    code, run = train_pairs(tmp_path, tmp_path / "run", "--from", adapted.path, **few)
    assert code == 0
    assert not run.checkpoints.base_path.exists()
    before, after = adapted.load_model().get_weights(), run.load_model().get_weights()
    # One update of Adam changes each weight by one learning rate at most.
    step = 0.02 * 64**-0.5 * 40**-1.5
    assert max(np.abs(a - b).max() for a, b in zip(before, after, strict=True)) < 1.01 * step


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--lora-rank", "2"], "`lora_rank` adapts a trained model: name its run with --from RUN"),
        (["--lora-rank", "2", "--resume"], "`lora_rank` adapts a trained model"),
        (["--lora-rank", "0"], "`lora_rank` must be at least 1. Received: lora_rank=0"),
        (["--lora-alpha", "2"], "`lora_alpha` belongs to adapters: it needs `lora_rank`"),
        (["--lora-rank", "2", "--optimizer", "muon"], "`optimizer` must be adam with `lora_rank`"),
    ],
)
def test_wrong_flags_are_one_line(tmp_path, capsys, arguments, message):
    assert train_pairs(tmp_path, tmp_path / "run", *arguments)[0] == 2
    assert message in one_line(capsys)
    assert not (tmp_path / "run").exists()
