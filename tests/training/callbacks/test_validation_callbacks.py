"""BLEU while training, stopping without progress, and what validations leave on disk."""

import math
import sys

import pytest

from keras_transformer.errors import UserInputError
from keras_transformer.training import (
    BleuValidation,
    StepWork,
    StopOnPlateau,
    TensorBoardLog,
    ValidationLog,
)
from keras_transformer.training.checkpoints.training_state import cut_rows
from tests.training.equal_runs import rows
from tests.training.event_files import events
from tests.training.small_training import WORK, drive, small_model

SOURCES = ["a small house by the lake", "two dogs play", "a man reads", "the sun shines today"]
REFERENCES = [
    "ein kleines Haus am See", "zwei Hunde spielen", "ein Mann liest", "heute scheint die Sonne"
]  # fmt: skip


def validation(tmp_path, translate=lambda sources: list(REFERENCES), **options):
    options = {"path": tmp_path / "samples.txt", **options}
    return begun(BleuValidation(translate, SOURCES, REFERENCES, **options))


def begun(callback):
    """A callback at the beginning of a training."""
    callback.set_model(small_model())
    callback.model.stop_training = False
    callback.on_train_begin()
    return callback


def bleu_of_epochs(callback, number):
    logs = [{} for _ in range(number)]
    for epoch, values in enumerate(logs):
        callback.on_epoch_end(epoch, values)
    return [values.get("val_bleu") for values in logs]


def test_bleu_is_in_the_logs_at_its_interval(tmp_path):
    calls = []

    def translate(sources):
        calls.append(sources)
        return list(REFERENCES)

    scores = bleu_of_epochs(validation(tmp_path, translate, every=2), 4)
    assert [scores[0], scores[2]] == [None, None]
    assert [scores[1], scores[3]] == pytest.approx([100.0, 100.0])
    assert calls == [SOURCES, SOURCES]


def test_a_training_that_stops_is_scored_at_its_end(tmp_path):
    callback = validation(tmp_path, every=10)
    callback.model.stop_training = True
    assert bleu_of_epochs(callback, 1) == [pytest.approx(100.0)]


def test_the_score_is_that_of_evaluation(tmp_path):
    # Half of the words in their order: all precisions are 1, and the brevity penalty exp(1 - 10/5).
    callback = BleuValidation(
        lambda sources: ["a b c d e"], ["x"], ["a b c d e f g h i j"], path=tmp_path / "s"
    )
    assert bleu_of_epochs(begun(callback), 1) == [pytest.approx(100 * math.exp(-1))]


def test_samples_are_spread_over_the_set_and_written(tmp_path, capsys):
    callback = validation(tmp_path, samples=2)
    callback.step = 700
    bleu_of_epochs(callback, 1)
    assert callback.samples == [(SOURCES[i], REFERENCES[i], REFERENCES[i]) for i in (0, 3)]
    text = (tmp_path / "samples.txt").read_text()
    assert text.startswith("step 700  validation BLEU 100.00  nrefs:1")
    assert "source:      the sun shines today\ntranslation: heute scheint die Sonne\n" in text
    assert "two dogs" not in text
    assert capsys.readouterr().err == "step 700  validation BLEU 100.00\n"


def test_a_sample_with_a_line_break_stays_one_line(tmp_path):
    bleu_of_epochs(validation(tmp_path, lambda sources: ["a\nb\r\nc"] * 4, samples=1), 1)
    assert "\ntranslation: a b  c\nreference:" in (tmp_path / "samples.txt").read_text()


def test_the_samples_of_all_times_are_kept_in_rows_that_can_be_cut(tmp_path):
    path = tmp_path / "dev_samples.csv"
    odd = 'a,"b"\u2028c\n' + "d" * 2000
    for step in (1, 2):  # as a training and its continuation
        callback = validation(tmp_path, lambda sources: [odd] * 4, samples=2, history=path)
        callback.step = step
        bleu_of_epochs(callback, 1)
    cut_rows(path, 1)
    cut = ('a,"b" c ' + "d" * 2000)[:1000]
    assert rows(path) == [
        {"step": "1", "source": SOURCES[i], "translation": cut, "reference": REFERENCES[i]}
        for i in (0, 3)
    ]


def test_a_process_that_is_not_the_chief_scores_in_silence(tmp_path, capfd):
    assert bleu_of_epochs(validation(tmp_path, path=None), 1) == [pytest.approx(100.0)]
    assert list(tmp_path.iterdir()) == []
    assert capfd.readouterr().err == ""


def test_all_sentences_are_samples_if_they_are_few(tmp_path):
    callback = validation(tmp_path, samples=10)
    bleu_of_epochs(callback, 1)
    assert [sample[0] for sample in callback.samples] == SOURCES


def test_sentences_are_needed(tmp_path):
    with pytest.raises(UserInputError, match="Received: 1 hypotheses, 0 references"):
        BleuValidation(list, ["a"], [], path=tmp_path / "samples.txt")
    with pytest.raises(ValueError, match="`every` must be a positive integer"):
        validation(tmp_path, every=0)


@pytest.mark.parametrize(
    ("mode", "values", "epochs"),
    [
        ("max", [1.0, 2.0, 2.0, 1.9], 4),  # an equal value is no better one
        ("min", [5.0, 4.0, 4.5, 3.0, 3.5, 3.1], 6),
        ("max", [1.0, None, 0.5, None, None, 0.6], 6),  # without a value nothing is counted
        ("max", [math.nan, math.nan], 2),
    ],
)
def test_patience_of_two(mode, values, epochs):
    stop = begun(StopOnPlateau("val_x", mode, 2))
    for epoch, value in enumerate(values, start=1):
        assert not stop.reached
        stop.on_epoch_end(epoch, {} if value is None else {"val_x": value})
        assert stop.reached == stop.model.stop_training == (epoch == epochs)


def test_a_column_that_comes_later_leaves_earlier_cells_empty(tmp_path):
    for values in ({"val_a": 0.5, "val_loss": 7}, {"val_a": 0.25, "val_bleu": 30.5}, {"val_a": 1}):
        log = begun(ValidationLog(tmp_path / "validation.csv"))  # a training that goes on
        log.on_epoch_end(0, values)
    found = rows(log.path)
    assert list(found[0]) == ["step", "seconds", "val_a", "val_bleu"]
    assert [(row["val_a"], row["val_bleu"]) for row in found] == [
        ("0.5", ""), ("0.25", "30.5"), ("1", "")
    ]  # fmt: skip


def test_tensorboard_gets_steps_validations_and_samples(tmp_path):
    samples = [("a house", "ein Haus", "ein Haus"), ("a | b", "*c*", "d")]
    work = StepWork(lambda step: 20, padding_share=lambda step: step / 100)
    log = TensorBoardLog(
        tmp_path / "logs", work, every=6,
        samples=lambda: samples,
    )  # fmt: skip
    drive(log, small_model(), 13, {"step_loss": 2.5, "step_nll": 1.5, "loss": 9.0})
    log.on_epoch_end(0, {"loss": 9.0, "val_perplexity": 4.0, "val_loss": 3.0})
    log.step = 20
    log.on_epoch_end(1, {"val_perplexity": 3.0, "val_bleu": 12.5})
    log.on_train_end()
    values, plugins = events(tmp_path / "logs")
    steps = [*range(1, 11), 12]
    assert values["loss"] == dict.fromkeys(steps, 2.5)
    assert values["nll"] == dict.fromkeys(steps, 1.5)
    assert values["padding_share"] == pytest.approx({step: (step - 1) / 100 for step in steps})
    assert set(values["learning_rate"]) == set(values["target_tokens_per_second"]) == set(steps)
    assert values["val_perplexity"] == {13: 4.0, 20: 3.0}
    assert values["val_bleu"] == {20: 12.5}
    assert "val_loss" not in values
    table = [[cell.encode() for cell in row] for row in samples]
    assert values["samples"] == {20: [[b"source", b"translation", b"reference"], *table]}
    assert {plugins[tag] for tag in values if tag != "samples"} == {"scalars"}
    assert plugins["samples"] == "text"


def test_without_tensorflow_tensorboard_is_off_and_that_is_said_once(tmp_path, monkeypatch, capsys):
    model = small_model()
    log = TensorBoardLog(tmp_path / "logs", WORK)
    monkeypatch.setitem(sys.modules, "tensorflow", None)
    drive(log, model, 3, {"step_loss": 2.5})
    log.on_epoch_end(0, {"val_bleu": 1.0})
    log.on_train_end()
    errors = capsys.readouterr().err.splitlines()
    assert errors == ["TensorFlow is not installed: no TensorBoard logs are written."]
    assert not (tmp_path / "logs").exists()


def test_sentences_are_translated_in_parts(tmp_path):
    calls = []

    def translate(sentences):
        calls.append(sentences)
        return [REFERENCES[SOURCES.index(sentence)] for sentence in sentences]

    callback = validation(tmp_path, translate, parts=[[3, 0], [1]])
    callback.before_part = lambda: calls.append("before")
    (score,) = bleu_of_epochs(callback, 1)
    assert calls == ["before", [SOURCES[3], SOURCES[0]], "before", [SOURCES[1]]]
    translations = [hypothesis for _, hypothesis, _ in callback.samples]
    assert translations == [*REFERENCES[:2], "", REFERENCES[3]]
    assert 0 < score < 100
