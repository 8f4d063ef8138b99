"""The SavedModel of a trained translator gives what the translator gives."""

import numpy as np
import pytest

from keras_transformer.formats.format import NO_SCORE
from keras_transformer.formats.saved_model.writer import export_saved_model
from keras_transformer.inference.translator import Translator
from tests.export.exported_signatures import ExportedSignatures
from tests.export.nasty_sentences import NASTY
from tests.translation_training.number_text import pairs

pytestmark = pytest.mark.tensorflow

MAX_SOURCE_LENGTH = 24
SOURCES, TARGETS = (sentences[::31] for sentences in pairs())


@pytest.fixture(scope="module")
def translator(trained_run):
    return Translator.load(trained_run, beam_size=3, extra_length=8)


@pytest.fixture(scope="module")
def path(translator, tmp_path_factory):
    directory = tmp_path_factory.mktemp("saved_models") / "digits"
    return export_saved_model(translator, directory, max_source_length=MAX_SOURCE_LENGTH)


@pytest.fixture(scope="module")
def exported(path):
    return ExportedSignatures(path)


def test_the_signatures_have_their_names_types_and_shapes(exported):
    texts = {"inputs": ("string", [None])}
    ids = {"input_ids": ("int32", [None, None]), "input_lengths": ("int32", [None])}
    one = {"outputs": ("string", [None]), "scores": ("float32", [None])}
    several = {"outputs": ("string", [None, 3]), "scores": ("float32", [None, 3])}
    assert exported.specs() == {
        "serving_default": (texts, one),
        "translate": (texts, one),
        "translate_nbest": (texts, several),
        "translate_ids": (
            ids,
            {
                "output_ids": ("int32", [None, None]),
                "output_lengths": ("int32", [None]),
                "scores": ("float32", [None]),
            },
        ),
        "score": (
            texts | {"targets": ("string", [None])},
            {"log_probs": ("float32", [None])},
        ),
        "tokenize": (texts, {"ids": ("int32", [None, None]), "lengths": ("int32", [None])}),
    }


@pytest.mark.parametrize("signature", ["translate", "serving_default"])
def test_translations_are_the_translators(translator, exported, signature):
    found = exported.run(signature, inputs=[*SOURCES, ""])
    expected = translator.translate_nbest([*SOURCES, ""], 1)
    assert found["outputs"].tolist() == [text for ((text, _),) in expected]
    scores = [score for ((_, score),) in expected]
    np.testing.assert_allclose(found["scores"], scores, atol=1e-5)


def test_lists_of_the_best_are_the_translators(translator, exported):
    texts = [*SOURCES, ""]
    found = exported.run("translate_nbest", inputs=texts)
    lists = zip(found["outputs"], found["scores"], strict=True)
    for (outputs, scores), expected in zip(
        lists, translator.translate_nbest(texts, 3), strict=True
    ):
        missing = 3 - len(expected)
        assert outputs.tolist() == [text for text, _ in expected] + [""] * missing
        expected_scores = [score for _, score in expected] + [NO_SCORE] * missing
        np.testing.assert_allclose(scores, expected_scores, atol=1e-5)
    assert found["scores"][-1].tolist() == [0.0, NO_SCORE, NO_SCORE]


def test_ids_are_those_of_the_strings_whatever_fills_up_the_rows(translator, exported):
    """The model server fills up rows with the first id of a request."""
    rows = translator.source_tokenizer.encode([*SOURCES[:5], "", "five"])
    width = max(map(len, rows))
    for filling in (0, 2, rows[0][0], -7, 10**6):
        found = exported.run(
            "translate_ids",
            input_ids=[row + [filling] * (width - len(row)) for row in rows],
            input_lengths=[len(row) for row in rows],
        )
        expected = exported.run("translate", inputs=[*SOURCES[:5], "", "five"])
        ids = [
            row[:length]
            for row, length in zip(found["output_ids"], found["output_lengths"], strict=True)
        ]
        assert translator.tokenizer.decode(ids) == expected["outputs"].tolist()
        np.testing.assert_allclose(found["scores"], expected["scores"], atol=1e-5)


def test_log_probabilities_are_the_translators(translator, exported):
    sources, targets = [*SOURCES, "one", ""], [*reversed(TARGETS), "", "eins"]
    found = exported.run("score", inputs=sources, targets=targets)
    np.testing.assert_allclose(found["log_probs"], translator.score(sources, targets), rtol=1e-5)


def test_ids_of_the_tokenizer(translator, exported):
    texts = ["one two", "", "Fünf 🎉", "one"]
    found = exported.run("tokenize", inputs=texts)
    rows = zip(found["ids"], found["lengths"], strict=True)
    assert [ids[:length].tolist() for ids, length in rows] == translator.tokenizer.encode(texts)
    assert found["ids"][1].tolist() == [0] * max(found["lengths"])


def test_an_empty_batch_has_an_empty_answer(exported):
    for name, (inputs, outputs) in exported.specs().items():
        empty = {key: np.zeros([0] * len(shape)) for key, (_, shape) in inputs.items()}
        found = exported.run(name, **empty)
        assert found.keys() == outputs.keys()
        assert all(array.shape[0] == 0 for array in found.values())


def test_inputs_with_different_numbers_of_rows_are_refused(exported):
    import tensorflow as tf

    message = "must have the same number of rows"
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        exported.run("translate_ids", input_ids=[[5], [6]], input_lengths=[1])
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        exported.run("score", inputs=["one", "two"], targets=["eins"])


def test_ids_without_a_column_are_empty_sentences(exported):
    found = exported.run("translate_ids", input_ids=np.zeros((2, 0)), input_lengths=[0, 0])
    assert found["output_lengths"].tolist() == [0, 0]
    assert found["scores"].tolist() == [0.0, 0.0]


def test_what_is_too_long_is_cut(translator, exported):
    text = "one two three four " * 10
    (ids,) = translator.source_tokenizer.encode([text])
    assert len(ids) > MAX_SOURCE_LENGTH
    (cut,) = translator.source_tokenizer.decode([ids[: MAX_SOURCE_LENGTH - 1]])
    (expected,) = translator.translate_nbest([cut], 1)
    found = exported.run("translate", inputs=["one", text])
    assert found["outputs"][1] == expected[0][0]
    assert found["scores"][1] == pytest.approx(expected[0][1], abs=1e-5)


def test_nasty_inputs_have_answers_that_do_not_depend_on_their_batch(translator, exported):
    texts = [text.decode("utf-8", "replace") for text in NASTY]
    together = {
        "translate": exported.run("translate", inputs=list(NASTY)),
        "translate_nbest": exported.run("translate_nbest", inputs=list(NASTY)),
        "score": exported.run("score", inputs=list(NASTY), targets=list(reversed(NASTY))),
        "tokenize": exported.run("tokenize", inputs=list(NASTY)),
    }
    for i, nasty in enumerate(NASTY):
        alone = exported.run("translate_nbest", inputs=[nasty])
        for name in ("translate", "translate_nbest"):
            outputs, scores = together[name]["outputs"][i], together[name]["scores"][i]
            n = np.size(outputs)
            assert np.atleast_1d(outputs).tolist() == alone["outputs"][0, :n].tolist()
            np.testing.assert_allclose(scores, alone["scores"][0, :n].squeeze(), atol=1e-4)
        score = exported.run("score", inputs=[nasty], targets=[NASTY[-1 - i]])
        np.testing.assert_allclose(together["score"]["log_probs"][i], score["log_probs"], rtol=1e-4)
    rows = zip(together["tokenize"]["ids"], together["tokenize"]["lengths"], strict=True)
    rows = [ids[:length].tolist() for ids, length in rows]
    assert rows == translator.source_tokenizer.encode(texts)
    short = [i for i, row in enumerate(rows) if len(row) < MAX_SOURCE_LENGTH]
    assert len(short) > 20
    expected = translator.translate([texts[i] for i in short])
    assert together["translate"]["outputs"][short].tolist() == expected
