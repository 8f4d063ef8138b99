"""Exports with a shortlist: the strings of the translator that has it."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transformer import Translator
from keras_transformer.errors import UserInputError
from keras_transformer.formats.guarded_generator import GraphShortlist
from keras_transformer.formats.litert.reader import LiteRTTranslator
from keras_transformer.formats.litert.writer import export_litert
from keras_transformer.formats.saved_model.reader import SavedModelTranslator
from keras_transformer.formats.saved_model.writer import export_saved_model
from keras_transformer.text import SentencePieceTokenizer, Shortlist
from tests.export.exported_signatures import ExportedSignatures
from tests.random_translation import build, sentences

pytestmark = pytest.mark.tensorflow

LINES = ["", *sentences(30)]
LIMITS = {"max_source_length": 40, "extra_length": 6}


@pytest.fixture(scope="module")
def shortlist(tokenizer):
    """None to three translations of each of 55 tokens at random, and 4 of all."""
    generator = np.random.default_rng(0)
    counts = generator.integers(0, 4, 55)
    translations = generator.integers(2, 60, counts.sum())
    return Shortlist([0, *np.cumsum(counts)], translations, [4, 5, 6, 7], tokenizer)


@pytest.fixture(scope="module")
def translator(tokenizer, shortlist):
    return Translator(
        [build(tokenizer), build(tokenizer, seed=1)],
        tokenizer,
        shortlist=shortlist,
        beam_size=3,
        no_repeat_ngram=2,
        extra_length=LIMITS["extra_length"],
    )


def check_translations(exported, translator):
    found = exported.translate_with_scores(LINES)
    assert found[0] == ("", 0.0)
    for (text, score), expected in zip(found, translator.translate_nbest(LINES, 1), strict=True):
        assert text == expected[0][0]
        assert score == pytest.approx(expected[0][1], abs=1e-4)
    whole = Translator(translator.models, translator.tokenizer, beam_size=3, no_repeat_ngram=2)
    assert [text for text, _ in found] != whole.translate(LINES)
    assert exported.translate(LINES[5:6]) == [found[5][0]]


@pytest.mark.slow
def test_a_saved_model(translator, tmp_path):
    path = export_saved_model(translator, tmp_path / "model", **LIMITS)
    check_translations(SavedModelTranslator(path), translator)
    card = json.loads((path / "model_card.json").read_text())
    assert card["options"]["shortlist"] is True
    signatures = ExportedSignatures(path)
    assert signatures.run("translate", inputs=[])["outputs"].shape == (0,)
    scored = signatures.run("score", inputs=LINES[1:4], targets=LINES[4:7])["log_probs"]
    expected = translator.score(LINES[1:4], LINES[4:7])
    np.testing.assert_allclose(scored, expected, rtol=1e-4)


def test_litert_searches_greedily_for_one_sentence_and_for_many(translator, shortlist, tmp_path):
    greedy = Translator(translator.models[0], translator.tokenizer, shortlist=shortlist)
    greedy = greedy.with_search(beam_size=1, extra_length=LIMITS["extra_length"])
    exported = LiteRTTranslator(export_litert(greedy, tmp_path / "model"))
    expected = greedy.translate(LINES)
    assert exported.translate(LINES) == expected
    assert [exported.translate([line])[0] for line in LINES[:9]] == expected[:9]


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_a_litert_model(translator, precision, tmp_path):
    path = export_litert(translator, tmp_path / "model", precision=precision, **LIMITS)
    assert json.loads((path / "translation.json").read_text())["shortlist"] is True
    exported = LiteRTTranslator(path)
    if precision == "float32":
        check_translations(exported, translator)
        return
    pairs = zip(exported.translate(LINES), translator.translate(LINES), strict=True)
    assert sum(one == other for one, other in pairs) > len(LINES) // 2


@pytest.mark.parametrize("copies", [True, False])
def test_a_graph_has_the_candidates_of_the_shortlist(tokenizer, shortlist, copies):
    source_tokenizer = tokenizer
    if not copies:
        source_tokenizer = SentencePieceTokenizer.train(sentences(50), vocabulary_size=58)
    arrays = shortlist.offsets, shortlist.translations, shortlist.always
    shortlist = Shortlist(*arrays, tokenizer, source_tokenizer)
    graph = GraphShortlist(shortlist)
    function = tf.function(graph.candidates, input_signature=[tf.TensorSpec([None, None], "int32")])
    generator = np.random.default_rng(1)
    for shape in ((1, 1), (3, 7), (8, 2)):
        ids = generator.integers(0, 58, shape).astype("int32")
        found, expected = function(ids).numpy(), shortlist.candidates(ids)
        for row, other in zip(found, expected, strict=True):
            assert row[row >= 0].tolist() == other[other >= 0].tolist()
        assert (found == np.where(found >= 0, found.max(axis=0), -1)).all()
    assert function(np.zeros((0, 3), "int32")).shape[0] == 0


def test_xla_is_refused(translator, tmp_path):
    with pytest.raises(UserInputError, match="`jit_compile` must be False for a translator with"):
        export_saved_model(translator, tmp_path / "model", jit_compile=True)
    assert not (tmp_path / "model").exists()
    assert keras.backend.backend() == "tensorflow"
