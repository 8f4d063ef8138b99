"""What `scores.json` holds of a training."""

import json
import types

import pytest

from keras_transformer.data import SentencePairs
from keras_transformer.inference.translator import Translator
from keras_transformer.runs.run_directory import RunDirectory
from keras_transformer.training import DeviceSpeed, FitRecord
from keras_transformer.translation_training import TranslationData, TranslationSettings
from keras_transformer.translation_training.scores import write_report, write_scores


@pytest.fixture
def run(tmp_path):
    """What is known of a training at its end."""
    record = FitRecord(
        steps=10,
        seconds=100.0,
        target_tokens_per_second=5.0,
        stopped_because="steps",
        step_seconds=0.5,
        flops=3 * 10**20,
        flop_utilisation=0.25,
    )
    speed = DeviceSpeed("NVIDIA L4", 2, 121e12, 60e12, "device_tflops")
    directory = RunDirectory(tmp_path)
    return types.SimpleNamespace(record=record, speed=speed, directory=directory, command="train")


def test_scores_hold_the_work_and_the_cost_of_the_training(run):
    lines = ["a house by the lake", "two dogs play"]
    returned = write_scores(run, lines, lines)
    scores = json.loads(run.directory.scores_path.read_text())
    assert scores == returned
    assert scores["bleu"] == pytest.approx(100)
    assert (scores["step_seconds"], scores["flop_utilisation"]) == (0.5, 0.25)
    assert scores["training_cost"] == {
        "counted_flops": 3 * 10**20,
        "paper_flops": 100.0 * 2 * 60e12,
        "devices": 2,
        "device": "NVIDIA L4",
        "sustained_flops_per_device": 60e12,
        "sustained_from": "device_tflops",
    }


REFERENCES = ["Der E-Mail-Server ist neu .", "Das ist der alte Server ."]
HYPOTHESES = ["Der E-Post-Server ist neu .", "Das ist der alte Server ."]


@pytest.mark.parametrize("tokenize", ["13a", "none"])
def test_bleu_with_compounds_split_is_measured_where_the_language_is_known(
    run, tokenize, monkeypatch, capsys
):
    received = []

    def load(path, **options):
        received.append(options)
        return types.SimpleNamespace(translate=lambda sources, progress: HYPOTHESES)

    monkeypatch.setattr(Translator, "load", load)
    text = SentencePairs(["the mail server is new", "that is the old one"], REFERENCES)
    batches = types.SimpleNamespace(texts=TranslationData([text], dev=text), record={})
    search = {"beam_size": 3, "alpha": 0.9, "extra_length": 7}
    for language in (None, "de"):
        settings = TranslationSettings(language=language, bleu_tokenize=tokenize, **search)
        write_report(settings, batches, run)
        scores = json.loads(run.directory.scores_path.read_text())
        printed = "tokenized, compounds split" in capsys.readouterr().out
        assert ("tokenized_compound_split_bleu" in scores) == printed == (language == "de")
    # "Mail" alone is wrong of the compound: E, -, -, Server are right.
    assert scores["tokenized_compound_split_bleu"] > scores["bleu"]
    assert received == [{"long_sentences": "cut", **search}] * 2
