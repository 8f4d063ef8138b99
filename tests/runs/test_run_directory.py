"""The run directory: what it keeps, what it refuses, what it never deletes."""

import json
import os
import shutil

import keras
import numpy as np
import pytest

from keras_transformer.errors import UserInputError
from keras_transformer.models import build_transformer
from keras_transformer.runs.run_directory import RunDirectory
from keras_transformer.text import SentencePieceTokenizer

LINES = ["a small house by the sea", "ein kleines Haus am Meer", "the tree and the house"]


@pytest.fixture(scope="module")
def tokenizer():
    return SentencePieceTokenizer.train(LINES, vocabulary_size=40)


def build(tokenizer):
    return build_transformer(
        "tiny",
        vocabulary_size=tokenizer.vocabulary_size,
        hidden_dim=8,
        intermediate_dim=16,
        num_heads=2,
        num_encoder_layers=1,
        num_decoder_layers=1,
    )


@pytest.fixture
def model(tokenizer):
    return build(tokenizer)


@pytest.fixture
def run(tmp_path, model, tokenizer):
    """A run with two checkpoints and no final weights."""
    run = RunDirectory.create(tmp_path / "runs" / "first")
    run.start(model=model, tokenizer=tokenizer, settings={"seed": 1, "name": "größer"})
    for step in (9, 10):
        model.save_weights(run.checkpoints.path_of(step))
    return run


def logits(model):
    ids = np.array([[5, 6, 7]], "int32")
    return model.predict({"source_ids": ids, "target_ids": ids}, verbose=0)


def snapshot(path):
    return {file: file.read_bytes() for file in sorted(path.rglob("*")) if file.is_file()}


def test_a_run_can_be_opened_and_its_model_used(run, model, tokenizer):
    run.publish(run.checkpoints.path_of(10))
    again = RunDirectory.open(run.path)
    np.testing.assert_allclose(logits(again.load_model()), logits(model), atol=1e-6)
    assert again.load_tokenizers()[1].encode(LINES) == tokenizer.encode(LINES)
    assert again.settings() == {"seed": 1, "name": "größer"}
    record = again.record()
    assert record.format == "keras_transformer run"
    assert record.vocabulary_size == tokenizer.vocabulary_size
    assert record.tokenizer_fingerprint == tokenizer.fingerprint
    assert record.versions["keras"] == keras.__version__
    kept = json.loads(run.record_path.read_text())
    assert {"format", "format_version", "output", "versions"} <= kept.keys()
    assert "from" not in kept


def test_the_model_is_written_as_its_options_without_the_way_it_is_trained(tmp_path, tokenizer):
    model = build(tokenizer)
    model.get_layer("encoder_layer_1").trainable = False
    model.compile("adam", "mse")
    run = RunDirectory.create(tmp_path / "run")
    run.start(model=model, tokenizer=tokenizer, settings={})
    assert json.loads(run.model_path.read_text()) == model.options.to_config()
    model.save_weights(run.weights_path)
    loaded = run.load_model()
    assert not loaded.compiled
    assert len(loaded.trainable_weights) == len(loaded.weights)
    assert loaded.options == model.options


def test_an_unfinished_run_says_which_weights_it_uses(run, model, capsys):
    assert run.find_weights() == run.checkpoints.path_of(10)
    assert "is not finished: using step-00000010.weights.h5" in capsys.readouterr().err
    shutil.copyfile(run.checkpoints.path_of(9), run.checkpoints.best_path)
    assert run.find_weights() == run.checkpoints.best_path
    assert "using best.weights.h5" in capsys.readouterr().err
    run.publish(run.checkpoints.best_path)
    assert run.find_weights() == run.weights_path
    assert capsys.readouterr().err == ""


def test_checkpoints_by_name_and_path(run):
    assert run.find_weights("step-00000009") == run.checkpoints.path_of(9)
    assert run.find_weights(run.checkpoints.path_of(9)) == run.checkpoints.path_of(9)
    with pytest.raises(UserInputError, match="There is no checkpoint step-77"):
        run.find_weights("step-77")


def test_checkpoints_are_in_the_order_of_their_steps(run, model):
    model.save_weights(run.checkpoints.path_of(123_456_789))  # nine digits
    (run.checkpoints.directory / ".partial-step-00000011.weights.h5").touch()
    names = [path.name for path in run.checkpoints.paths()]
    assert names == [
        "step-00000009.weights.h5", "step-00000010.weights.h5", "step-123456789.weights.h5"
    ]  # fmt: skip


def test_a_run_without_weights(tmp_path, model, tokenizer):
    run = RunDirectory.create(tmp_path / "run")
    run.start(model=model, tokenizer=tokenizer, settings={})
    with pytest.raises(UserInputError, match="contains no weights yet"):
        run.load_model()


def test_a_truncated_checkpoint_and_one_of_another_model(run, tokenizer):
    path = run.checkpoints.path_of(10)
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(UserInputError, match="Cannot read the weights .*step-00000010.*truncated"):
        run.load_model()
    other = build_transformer("tiny", vocabulary_size=9, hidden_dim=8, num_heads=2)
    other.save_weights(path)
    with pytest.raises(
        UserInputError, match="model.json: it has .* weights, and .* do not match it"
    ):
        run.load_model()


def test_another_tokenizer_is_refused(run):
    SentencePieceTokenizer.train(LINES, run.tokenizer_path, vocabulary_size=41)
    with pytest.raises(UserInputError, match="has 41 pieces; the model was trained with 40"):
        run.load_tokenizers()
    SentencePieceTokenizer.train(LINES[:2] * 2, run.tokenizer_path, vocabulary_size=40)
    with pytest.raises(UserInputError, match="is not the one the model was trained with"):
        run.load_tokenizers()


def test_an_existing_run_is_refused_and_kept(run):
    before = snapshot(run.path)
    with pytest.raises(UserInputError, match="exists.*--overwrite"):
        RunDirectory.create(run.path)
    RunDirectory.create(run.path, overwrite=True)  # deletes nothing before `start`
    assert snapshot(run.path) == before


def test_overwrite_replaces_the_run_and_nothing_else(run, model, tokenizer):
    run.publish(run.checkpoints.path_of(10))
    run.metrics_path.write_text("old")
    (run.path / "notes.txt").write_text("mine")
    new = RunDirectory.create(run.path, overwrite=True)
    new.start(model=model, tokenizer=tokenizer, settings={"seed": 2})
    assert new.settings() == {"seed": 2}
    assert new.checkpoints.paths() == []
    assert not new.metrics_path.exists()
    assert not new.weights_path.exists()
    assert (run.path / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_directory_that_is_no_run_is_never_taken(tmp_path, overwrite):
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(UserInputError, match="contains no run of keras_transformer"):
        RunDirectory.create(tmp_path, overwrite=overwrite)
    with pytest.raises(UserInputError, match="exists and is a file"):
        RunDirectory.create(tmp_path / "thesis.txt", overwrite=overwrite)
    assert (tmp_path / "thesis.txt").read_text() == "years of work"


def test_an_empty_directory_is_taken(tmp_path, model, tokenizer):
    run = RunDirectory.create(tmp_path)
    run.start(model=model, tokenizer=tokenizer, settings={})
    assert RunDirectory.open(tmp_path).is_run()


def test_open_wants_a_run(tmp_path):
    with pytest.raises(UserInputError, match="There is no run directory"):
        RunDirectory.open(tmp_path / "missing")
    (tmp_path / "run.json").write_text('{"format": "another"}')
    with pytest.raises(UserInputError, match=r"is not a run of keras_transformer\.$"):
        RunDirectory.open(tmp_path)
    for place in ("litert/SHA256SUMS", "saved_model/1/SHA256SUMS"):
        (tmp_path / place).parent.mkdir(parents=True)
        (tmp_path / place).touch()
        with pytest.raises(UserInputError, match="It contains an export: the classes of"):
            RunDirectory.open(tmp_path / place.partition("/")[0])


def test_a_run_of_a_newer_format_is_refused(run):
    run.checksums.write_json(run.record_path, {**run.record().as_json(), "format_version": 2})
    with pytest.raises(UserInputError, match="has format version 2; .* reads 1 and older"):
        RunDirectory.open(run.path)


def test_separate_vocabularies_have_a_tokenizer_each(tmp_path, model, tokenizer):
    source_tokenizer = SentencePieceTokenizer.train(LINES, vocabulary_size=36)
    run = RunDirectory.create(tmp_path / "run")
    run.start(
        model=model, tokenizer=tokenizer, source_tokenizer=source_tokenizer, settings={}, origin="x"
    )
    assert run.record().origin == json.loads(run.record_path.read_text())["from"] == "x"
    loaded = RunDirectory.open(run.path).load_tokenizers()
    assert [each.fingerprint for each in loaded] == [
        source_tokenizer.fingerprint,
        tokenizer.fingerprint,
    ]
    tokenizer.save(run.source_tokenizer_path)
    with pytest.raises(UserInputError, match="source_tokenizer.model has 40 pieces; .* with 36"):
        run.load_tokenizers()


def test_a_shared_vocabulary_is_one_tokenizer(run):
    source_tokenizer, tokenizer = run.load_tokenizers()
    assert source_tokenizer is tokenizer


def test_the_best_checkpoints_come_best_first(run):
    assert run.checkpoints.best() == []
    kept = [{"step": 10, "value": 3.0}, {"step": 7, "value": 3.5}, {"step": 9, "value": 4.0}]
    run.checkpoints.write_best_record({"step": 10, "value": 3.0, "kept": kept})
    assert run.checkpoints.best() == [run.checkpoints.path_of(10), run.checkpoints.path_of(9)]


def test_an_older_file_kept_as_the_best_is_none_of_the_last(run, model):
    assert run.checkpoints.last() == [run.checkpoints.path_of(9), run.checkpoints.path_of(10)]
    model.save_weights(run.checkpoints.path_of(3))
    kept = [{"step": 3, "value": 3.0}]
    run.checkpoints.write_best_record({"step": 3, "value": 3.0, "kept": kept, "keep_last": 2})
    assert len(run.checkpoints.paths()) == 3
    assert run.checkpoints.last() == [run.checkpoints.path_of(9), run.checkpoints.path_of(10)]


def test_what_a_killed_process_left_is_cleared_with_the_run(run, model, tokenizer):
    left = (f".partial-{'7f' * 16}", ".candidate-model.weights.h5")
    for name in (*left, ".partial-test.de"):
        (run.path / name).touch()
    run.start(model=model, tokenizer=tokenizer, settings={})
    assert not [name for name in left if (run.path / name).exists()]
    assert (run.path / ".partial-test.de").exists()  # of a translation that goes on later


def test_settings_may_be_lists(run, model, tokenizer):
    run.start(model=model, tokenizer=tokenizer, settings={"betas": [0.9, 0.98]})
    assert run.settings() == {"betas": [0.9, 0.98]}


def test_a_folder_with_an_unfinished_translation_is_not_empty(tmp_path):
    (tmp_path / ".partial-test.de").touch()
    assert not RunDirectory(tmp_path).has_not_started()


def test_an_average_is_a_checkpoint_by_name_and_not_of_the_steps(run):
    path = run.checkpoints.average_path("last", 2, 10)
    assert path.name == "average-last-2-step-00000010.weights.h5"
    shutil.copyfile(run.checkpoints.path_of(10), path)
    assert run.find_weights("average-last-2-step-00000010") == path
    assert path not in run.checkpoints.paths()


def test_a_model_is_loaded_with_other_rates_and_the_same_weights(run, model):
    run.publish(run.checkpoints.path_of(10))
    loaded = run.load_model(dropout=0.7, attention_dropout=0.2)
    layer = loaded.get_layer("encoder_layer_1")
    assert (layer.dropout, layer.attention_dropout) == (0.7, 0.2)
    assert loaded.get_layer("embedding").dropout == 0.7
    older = json.loads(run.model_path.read_text())
    del older["word_dropout"]  # as before it was an option
    run.checksums.write_json(run.model_path, older)
    assert run.load_model(word_dropout=0.1).get_layer("embedding").word_dropout == 0.1
    np.testing.assert_allclose(logits(loaded), logits(model), atol=1e-6)


@pytest.mark.parametrize("operation", range(1, 9))
@pytest.mark.parametrize("overwritten", [False, True])
def test_a_run_killed_while_it_starts_begins_anew(
    tmp_path, monkeypatch, model, tokenizer, operation, overwritten
):
    """After every rename, as a kill would leave it: no code runs any more."""
    path = tmp_path / "run"
    if overwritten:
        old = RunDirectory.create(path)
        old.start(model=model, tokenizer=tokenizer, settings={"seed": 1})
        model.save_weights(old.checkpoints.path_of(10))
    run = RunDirectory.create(path, overwrite=True)
    done = 0

    def renamed(source, destination):
        nonlocal done
        if done == operation:
            raise SystemExit
        done += 1
        os.rename(source, destination)

    monkeypatch.setattr(os, "replace", renamed)
    try:
        run.start(model=model, tokenizer=tokenizer, settings={"seed": 2})
    except SystemExit:
        monkeypatch.undo()
        again = RunDirectory.create(path, resume=True)
        assert not again.is_run()
        assert again.has_not_started()
        again.start(model=model, tokenizer=tokenizer, settings={"seed": 2})
    assert RunDirectory.create(path, resume=True).is_run()
    assert RunDirectory.open(path).settings() == {"seed": 2}
    assert run.checkpoints.paths() == []
    assert not run.starting_path.exists()


def test_a_model_that_no_verb_can_load_is_told_when_it_is_kept(tmp_path, tokenizer):
    inputs = keras.Input((None,), dtype="int32")
    model = keras.Model(inputs, keras.layers.Identity()(inputs))
    with pytest.warns(UserWarning, match="cannot be loaded from its run: .* 'identity'"):
        RunDirectory.create(tmp_path / "run").start(model=model, tokenizer=tokenizer, settings={})
