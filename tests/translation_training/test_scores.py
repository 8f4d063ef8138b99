"""What `scores.json` holds of a training."""

import dataclasses
import json
import os
import sys
import types

import pytest

from keras_transformer.data import SentencePairs
from keras_transformer.inference.translator import Translator
from keras_transformer.runs.run_directory import RunDirectory
from keras_transformer.search_options import SearchOptions
from keras_transformer.training import DeviceSpeed, FitRecord
from keras_transformer.training.translation.training import write_report, write_scores
from keras_transformer.translation_training import TranslationData, TranslationSettings
from tests.evaluation.cost.recorded_runs import RECORD


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
        device_seconds=2 * 100.0,
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
        "device_seconds": 200.0,
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
        return types.SimpleNamespace(
            translate=lambda sources, progress: HYPOTHESES, search_options=SearchOptions(**search)
        )

    monkeypatch.setattr(Translator, "load", load)
    run.directory.checksums.write_json(run.directory.record_path, RECORD)
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
    assert received == [{"long_sentences": "cut", "max_repeats": 0, **search}] * 2


class WordTranslator:
    """Translates a word right for every 0.2 of alpha."""

    loaded = None  # keyword arguments of each `load`

    def __init__(self, **options):
        self.search_options = SearchOptions(**options)

    @classmethod
    def load(cls, path, long_sentences, **options):
        cls.loaded.append((long_sentences, options))
        return cls(**options)

    def with_search(self, **options):
        return WordTranslator(**{**vars(self.search_options), **options})

    def translate_with_alphas(self, sentences, alphas, progress=False):
        return [self.with_search(alpha=alpha).translate(sentences) for alpha in alphas]

    def translate(self, sentences, progress=False):
        number = int(self.search_options.alpha / 0.2)
        words = [[*sentence.upper().split(), "ZU", "VIEL"] for sentence in sentences]
        return [" ".join(some[:number]) for some in words]


def test_a_tuned_alpha_is_chosen_on_the_dev_text_and_written(run, monkeypatch, capsys):
    monkeypatch.setattr(Translator, "load", WordTranslator.load)
    monkeypatch.setattr(WordTranslator, "loaded", [])
    of_origin = {"beam_size": 6, "num_results": 6}  # of the run that the training started from
    record = {**RECORD, "search": of_origin}
    run.directory.checksums.write_json(run.directory.record_path, record)
    dev = [f"one two three four word{i}" for i in range(1014)]
    test = ["one two three", "a house by the lake and the old mail server"]
    texts = TranslationData(
        [SentencePairs(["x"], ["y"])],
        dev=SentencePairs(["", *dev], ["nothing", *(line.upper() for line in dev)]),
        test=SentencePairs(test, [line.upper() for line in test]),
    )
    batches = types.SimpleNamespace(texts=texts, record={})
    settings = TranslationSettings(tune_alpha=True, beam_size=3, extra_length=7)
    write_report(settings, batches, run, averaged_checkpoints=2)

    scores = json.loads(run.directory.scores_path.read_text())
    best = {"alpha": 1.0, "beam_size": 3, "extra_length": 7}
    assert scores.items() >= {**best, "averaged_checkpoints": 2}.items()
    tuned_on = scores["tuned_on"]
    assert tuned_on["sentences"] == 1000
    assert tuned_on["alphas"] == [i / 10 for i in range(21)]
    assert tuned_on["bleu"][10] == pytest.approx(100)
    assert tuned_on["length_ratios"][5] == pytest.approx(0.4)
    assert tuned_on["alpha_before"] == 0.6
    assert tuned_on["bleu_before"] == tuned_on["bleu"][6] < 100
    assert scores["evaluated_on"]["name"] == "test"
    assert run.directory.samples_path.read_text() == "ONE TWO THREE ZU VIEL\nA HOUSE BY THE LAKE\n"
    assert run.directory.search_defaults() == {**best, "num_results": None}
    before = {**settings.search_options(), "alpha": 0.6}
    assert WordTranslator.loaded == [("cut", before), ("cut", best)]
    said = "alpha 1, chosen on 1,000 dev sentences (`--tune-alpha`): BLEU 100.00, length ratio 1.0"
    assert said in capsys.readouterr().out

    # The same training ends once more, without tuning.
    write_report(dataclasses.replace(settings, tune_alpha=False), batches, run)
    scores = json.loads(run.directory.scores_path.read_text())
    assert scores.items() >= before.items()
    assert run.directory.search_defaults() == {**before, "num_results": None}


@pytest.fixture
def batches(run, monkeypatch):
    """Of a text of one pair, which a run has recorded."""
    monkeypatch.setattr(Translator, "load", WordTranslator.load)
    monkeypatch.setattr(WordTranslator, "loaded", [])
    run.directory.checksums.write_json(run.directory.record_path, RECORD)
    text = SentencePairs(["one two three"], ["ONE TWO THREE"])
    return types.SimpleNamespace(texts=TranslationData([text], dev=text), record={})


def test_without_tuning_the_search_stays_as_it_was(run, batches):
    write_report(TranslationSettings(alpha=0.9), batches, run)
    scores = json.loads(run.directory.scores_path.read_text())
    assert (scores["alpha"], scores["beam_size"]) == (0.9, 4)
    assert "tuned_on" not in scores
    expected = {**RECORD, "examples": ["one two three"]}
    assert json.loads(run.directory.record_path.read_text()) == expected


def test_scores_are_written_though_the_terminal_is_gone(run, batches, monkeypatch):
    master, terminal = os.openpty()
    with os.fdopen(terminal, "w") as stdout:
        monkeypatch.setattr(sys, "stdout", stdout)
        os.close(master)
        write_report(TranslationSettings(tune_alpha=True), batches, run)
    assert "tuned_on" in json.loads(run.directory.scores_path.read_text())
