"""LiteRT models: the translator's tokens, from built-in operations, whatever the input's sizes."""

import json

import keras
import numpy as np
import pytest
import sacrebleu
import tensorflow as tf
from ai_edge_litert.interpreter import Interpreter

from keras_transformer.decoding.next_tokens import log_of_sum, maxima_of_blocks
from keras_transformer.decoding.sequence_generator import SequenceGenerator
from keras_transformer.formats.format import NO_SCORE
from keras_transformer.formats.litert import LITERT
from keras_transformer.formats.litert.reader import LiteRTTranslator
from keras_transformer.search_options import SearchOptions
from tests.litert_exports import (
    LIMITS,
    litert_export,
    operations,
    padded,
    read_model,
    returning_ids,
    signature,
    translator_of,
    unusual_export,
    unusual_translator,
)
from tests.random_translation import sentences
from tests.translation_training.number_text import pairs

pytestmark = pytest.mark.tensorflow

TEXTS = ["one two three four", "five", "three three one", "", "two five five one four two"]


@pytest.fixture(scope="module")
def translator(trained_run):
    return translator_of(trained_run)


@pytest.fixture(scope="module")
def exported(trained_run):
    return litert_export(trained_run, "float32")


@pytest.fixture(scope="module")
def unusual():
    return unusual_translator()


@pytest.fixture(scope="module")
def unusual_path(trained_run):
    return unusual_export(trained_run.parent)


def test_the_parts_of_a_large_vocabulary_are_made_of_built_in_operations():
    """Searches over 2,048 tokens and more look at blocks of them, which small models do not."""

    @tf.function(input_signature=[tf.TensorSpec((1, 2, 6000), "float32")])
    def totals(logits):
        return log_of_sum(logits, maxima_of_blocks(logits))

    function = totals.get_concrete_function()
    content = tf.lite.TFLiteConverter.from_concrete_functions([function], totals).convert()
    interpreter = Interpreter(model_content=content)
    interpreter.allocate_tensors()
    logits = np.random.default_rng(0).normal(0, 3, (1, 2, 6000)).astype("float32")
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], logits)
    interpreter.invoke()
    found = interpreter.get_tensor(interpreter.get_output_details()[0]["index"])
    expected = np.log(np.exp(logits.astype("float64")).sum(axis=-1))
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def check_equal_translations(translator, path, texts):
    """The export's tokens and scores are the translator's."""
    outputs = signature(path, "translate_ids")(**padded(translator.source_tokenizer.encode(texts)))
    rows = zip(outputs["output_ids"], outputs["output_lengths"], strict=True)
    expected = [best[0] for best in returning_ids(translator).translate_nbest(texts, 1)]
    assert [row[:length].tolist() for row, length in rows] == [ids for ids, _ in expected]
    np.testing.assert_allclose(outputs["scores"], [score for _, score in expected], atol=1e-4)


def test_it_finds_what_the_translator_finds(translator, exported):
    check_equal_translations(translator, exported, [*TEXTS, *pairs(length=4)[0][::10]])


@pytest.mark.slow
def test_unusual_models_and_every_rule(unusual, unusual_path):
    texts = [text for text in sentences(30, seed=2) if len(text.split()) < 9]
    check_equal_translations(unusual, unusual_path, [*texts, ""])


def test_sizes_may_change_from_call_to_call_and_batch_mates_do_not_matter(translator, exported):
    translate = signature(exported, "translate_ids")
    rows = translator.tokenizer.encode(TEXTS)
    together = translate(**padded(rows))
    for i, row in enumerate(rows):
        alone = translate(**padded([row]))
        length = alone["output_lengths"][0]
        assert together["output_lengths"][i] == length
        np.testing.assert_array_equal(
            together["output_ids"][i, :length], alone["output_ids"][0, :length]
        )
        np.testing.assert_allclose(together["scores"][i], alone["scores"][0], atol=1e-4)


def test_a_single_sentence_has_a_signature_of_its_own(translator, exported, monkeypatch):
    translate, translate_one = (
        signature(exported, name) for name in ("translate_ids", "translate_one")
    )
    for row in translator.tokenizer.encode(TEXTS):
        inputs = padded([row])
        expected, found = translate(**inputs), translate_one(**inputs)
        for name in ("output_ids", "output_lengths"):
            np.testing.assert_array_equal(found[name], expected[name])
        np.testing.assert_allclose(found["scores"], expected["scores"], atol=1e-4)

    called = []
    call = LiteRTTranslator._call
    monkeypatch.setattr(
        LiteRTTranslator,
        "_call",
        lambda self, *args, **kw: called.append(args) or call(self, *args, **kw),
    )
    reader = LiteRTTranslator(exported)
    assert reader.translate(TEXTS[:1]) + reader.translate(TEXTS) == translator.translate(
        [*TEXTS[:1], *TEXTS]
    )
    assert called == [("translate_one",), ("translate_ids",)]


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        *(("translate_ids", shape) for shape in [(0, 3), (0, 0), (2, 0)]),
        ("translate_one", (1, 0)),
    ],
)
def test_nothing_gives_nothing(exported, name, shape):
    outputs = signature(exported, name)(
        input_ids=np.zeros(shape, "int32"), input_lengths=np.zeros(shape[0], "int32")
    )
    assert outputs["output_lengths"].tolist() == [0] * shape[0]
    assert outputs["scores"].tolist() == [0.0] * shape[0]


def test_wrong_ids_and_lengths_and_long_input_break_nothing(translator, exported):
    translate = signature(exported, "translate_ids")
    tokens = translator.tokenizer.special_tokens
    wrong = np.array([[-5, 10**6, tokens.pad, tokens.bos]], "int32")
    unknown = np.full((1, 4), tokens.unk, "int32")
    for length in (4, 99):
        found = translate(input_ids=wrong, input_lengths=np.array([length], "int32"))
        expected = translate(input_ids=unknown, input_lengths=np.array([4], "int32"))
        np.testing.assert_array_equal(found["output_ids"], expected["output_ids"])
    (row,) = translator.tokenizer.encode(["one two three four " * 40])
    most = LIMITS["max_source_length"] - 1
    long, cut = (translate(**padded([ids])) for ids in (row, row[:most]))
    np.testing.assert_array_equal(long["output_ids"], cut["output_ids"])
    assert long["output_ids"].shape == (1, most + LIMITS["extra_length"] + 1)
    assert long["output_lengths"][0] <= most + LIMITS["extra_length"]


@pytest.mark.parametrize(
    "precision",
    ["float32", "int8", pytest.param("float16", marks=pytest.mark.slow)],
)
def test_operations_are_built_in_and_keep_no_state(trained_run, precision):
    found = operations(litert_export(trained_run, precision))
    assert "WHILE" in found
    assert not {name for name in found if "CUSTOM" in name or "VAR" in name or "HASH" in name}


def test_operations_of_unusual_models_are_built_in(unusual_path):
    assert "CUSTOM" not in operations(unusual_path)


def test_signatures(exported):
    model = read_model(exported)
    found = {}
    for one in model.signatureDefs:
        tensors = model.subgraphs[one.subgraphIndex].tensors
        found[one.signatureKey.decode()] = tuple(
            {tensor.name.decode(): len(tensors[tensor.tensorIndex].shape) for tensor in side}
            for side in (one.inputs, one.outputs)
        )
    memory = {"memory_0": 3} | {f"memory_{i}": 4 for i in range(1, 5)}  # keys and values, 2 layers
    cache = {"cache_0": 3} | {f"cache_{i}": 5 for i in range(1, 5)}  # ancestors, keys and values
    source = {"input_ids": 2, "input_lengths": 1}
    translation = {"output_ids": 2, "output_lengths": 1, "scores": 1}
    assert found == {
        "translate_ids": (source, translation),
        "translate_one": (source, translation),
        "encode": (source | {"beam_size": 0, "cache_length": 0}, memory | cache),
        "step": (
            {"tokens": 2, "parents": 2, "index": 0} | memory | cache,
            {"log_probs": 3} | cache,
        ),
    }


def test_all_signatures_share_one_set_of_weights(trained_run, translator):
    weights = 4 * sum(model.count_params() for model in translator.models)
    sizes = {}
    for precision in LITERT.precisions:
        path = litert_export(trained_run, precision) / "model.tflite"
        sizes[precision] = path.stat().st_size
    assert weights < sizes["float32"] < weights + 2**20
    assert sizes["int8"] < sizes["float16"] < sizes["float32"]


def test_int8_translates_as_well(trained_run):
    sources, references = pairs(length=4)
    scores = {}
    for precision in ("float32", "int8"):
        translator = LiteRTTranslator(litert_export(trained_run, precision), num_threads=1)
        found = translator.translate(sources)
        scores[precision] = sacrebleu.corpus_bleu(found, [references]).score
    assert scores["float32"] > 50
    assert scores["int8"] >= scores["float32"] - 0.5


def test_what_lies_beside_the_model(unusual, unusual_path):
    assert sorted(path.name for path in unusual_path.iterdir()) == [
        "SHA256SUMS",
        "model.tflite",
        "model_card.json",
        "model_card.md",
        "source_tokenizer.model",
        "tokenizer.model",
        "translation.json",
    ]
    settings = json.loads((unusual_path / "translation.json").read_text("utf-8"))
    special_tokens = {"pad": 0, "bos": 1, "eos": 2, "unk": 3}
    assert settings["source"] == {
        "tokenizer": "source_tokenizer.model",
        "vocabulary": None,
        "vocabulary_size": 60,
        "special_tokens": special_tokens,
        "right_to_left": False,
    }
    assert settings["target"]["tokenizer"] == "tokenizer.model"
    assert settings["target"]["vocabulary_size"] == 50
    assert settings["limits"] == {"max_source_length": 24, "extra_length": 6, "max_length": 24}
    search = SearchOptions(beam_size=3, alpha=1.0, min_length=3, no_repeat_ngram=2)
    elsewhere = {"extra_length", "max_source_length", "num_results"}
    assert settings["search"] == {
        name: value for name, value in vars(search).items() if name not in elsewhere
    }
    assert settings["no_score"] == NO_SCORE
    for side, name in (("source", "source_tokenizer"), ("", "tokenizer")):
        written = (unusual_path / f"{name}.model").read_bytes()
        assert written == getattr(unusual, name).model_bytes, side
    assert json.loads((unusual_path / "model_card.json").read_text("utf-8"))["kind"]


# `encode` and `step`: what an app needs that searches by itself.


def numpy_greedy(path, translator, text):
    """Greedy search as an app writes it: ids with EOS, and their log-probability."""
    encode, step = signature(path, "encode"), signature(path, "step")
    (row,) = translator.source_tokenizer.encode([text])
    limit = len(row) + translator.extra_length
    state = encode(**padded([row]), beam_size=np.int32(1), cache_length=np.int32(limit + 1))
    token, ids, total = translator.tokenizer.special_tokens.bos, [], 0.0
    eos = translator.tokenizer.special_tokens.eos
    while token != eos:
        outputs = step(
            tokens=np.array([[token]], "int32"),
            parents=np.zeros((1, 1), "int32"),
            index=np.int32(len(ids)),
            **state,
        )
        log_probs = outputs.pop("log_probs")[0, 0]
        state |= outputs
        token = int(log_probs.argmax()) if len(ids) < limit else eos
        ids.append(token)
        total += log_probs[token]
    return ids, total


def sources_of(translator, text):
    (row,) = translator.source_tokenizer.encode([text])
    return [[*row, translator.source_tokenizer.special_tokens.eos]]


@pytest.mark.parametrize("text", TEXTS[:3])
def test_greedy_search_over_the_steps(translator, exported, text):
    ids, total = numpy_greedy(exported, translator, text)
    generator = SequenceGenerator(translator.models, translator.tokenizer.special_tokens)
    options = SearchOptions(beam_size=1, alpha=0.0, extra_length=translator.extra_length)
    expected, log_probs = generator.search(sources_of(translator, text), options=options)
    assert ids == keras.ops.convert_to_numpy(expected)[0, 0, : len(ids)].tolist()
    np.testing.assert_allclose(total, keras.ops.convert_to_numpy(log_probs)[0, 0], atol=1e-4)


def numpy_beam(path, translator, text, beam_size, num_steps):
    """The best `beam_size` beginnings of a translation, of `num_steps` tokens without EOS."""
    encode, step = signature(path, "encode"), signature(path, "step")
    rows = translator.source_tokenizer.encode([text])
    state = encode(
        **padded(rows), beam_size=np.int32(beam_size), cache_length=np.int32(num_steps + 1)
    )
    special_tokens = translator.tokenizer.special_tokens
    tokens = np.full(beam_size, special_tokens.bos, "int32")
    parents, beginnings = np.zeros(beam_size, "int32"), [[] for _ in range(beam_size)]
    scores = np.array([0.0] + [-np.inf] * (beam_size - 1))
    for index in range(num_steps):
        outputs = step(tokens=tokens[None], parents=parents[None], index=np.int32(index), **state)
        log_probs = outputs.pop("log_probs")[0]  # (beams, vocabulary)
        state |= outputs
        log_probs[:, special_tokens.eos] = -np.inf
        total = scores[:, None] + log_probs
        best = np.argsort(-total, axis=None)[:beam_size]
        parents, tokens = (part.astype("int32") for part in np.divmod(best, total.shape[1]))
        beginnings = [[*beginnings[p], int(t)] for p, t in zip(parents, tokens, strict=True)]
        scores = total.ravel()[best]
    return beginnings, scores


def test_hypotheses_fork_and_die_in_the_steps(unusual, unusual_path):
    text, beam_size = sentences(1, seed=5)[0], 4
    beginnings, scores = numpy_beam(unusual_path, unusual, text, beam_size, num_steps=5)
    generator = SequenceGenerator(unusual.models, unusual.tokenizer.special_tokens)
    tokens = unusual.tokenizer.special_tokens
    sources = np.repeat(sources_of(unusual, text), beam_size, axis=0)
    inputs = [[tokens.bos, *row[:-1]] for row in beginnings]
    expected = generator.score(keras.ops.convert_to_tensor(sources), np.array(inputs), beginnings)
    np.testing.assert_allclose(scores, keras.ops.convert_to_numpy(expected), atol=1e-4)
    assert len({tuple(row) for row in beginnings}) == beam_size


def test_a_step_never_offers_what_is_no_output(unusual, unusual_path):
    rows = unusual.source_tokenizer.encode(sentences(2))
    sizes = {"beam_size": np.int32(1), "cache_length": np.int32(2)}
    state = signature(unusual_path, "encode")(**padded(rows), **sizes)
    tokens = unusual.tokenizer.special_tokens
    log_probs = signature(unusual_path, "step")(
        tokens=np.full((2, 1), tokens.bos, "int32"),
        parents=np.zeros((2, 1), "int32"),
        index=np.int32(0),
        **state,
    )["log_probs"]
    assert log_probs.shape == (2, 1, unusual.tokenizer.vocabulary_size)
    assert np.unique(np.nonzero(log_probs == NO_SCORE)[2]).tolist() == [tokens.pad, tokens.bos]
