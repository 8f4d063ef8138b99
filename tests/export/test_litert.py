"""LiteRT models: the translator's tokens, from built-in operations, whatever the input's sizes."""

import json

import keras
import numpy as np
import pytest
import sacrebleu
import tensorflow as tf
from ai_edge_litert.interpreter import Interpreter

from keras_transformer.decoding.next_tokens import log_of_sum, maxima_of_blocks
from keras_transformer.errors import CannotWrite, UserInputError
from keras_transformer.files import PARTIAL_DIRECTORY
from keras_transformer.formats.format import NO_SCORE
from keras_transformer.formats.litert import LITERT
from keras_transformer.formats.litert.reader import LiteRTTranslator
from keras_transformer.formats.litert.writer import export_litert
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
from tests.written_files import room_for

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


@pytest.mark.parametrize("shape", [(0, 3), (0, 0), (2, 0)])
def test_nothing_gives_nothing(exported, shape):
    outputs = signature(exported, "translate_ids")(
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
    assert found == {
        "translate_ids": (source, {"output_ids": 2, "output_lengths": 1, "scores": 1}),
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


def test_a_directory_that_holds_something_is_left_alone(unusual, tmp_path):
    (tmp_path / "mine").write_text("mine")
    with pytest.raises(UserInputError, match="holds"):
        export_litert(unusual, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_a_disk_that_takes_no_more_is_one_line_and_leaves_nothing(unusual, tmp_path):
    with room_for(20_000), pytest.raises(CannotWrite) as raised:
        export_litert(unusual, tmp_path / "new")
    assert str(raised.value) == f"Cannot write {tmp_path / 'new'}: File too large."
    assert list(tmp_path.iterdir()) == []


def test_an_interrupted_export_leaves_nothing_anywhere(unusual, tmp_path, monkeypatch):
    saved_to = []

    def interrupt(module, path, **_):
        saved_to.append(path)
        with open(f"{path}/saved_model.pb", "wb") as file:
            file.write(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(tf.saved_model, "save", interrupt)
    with pytest.raises(KeyboardInterrupt):
        export_litert(unusual, tmp_path / "new")
    assert saved_to[0].startswith(f"{tmp_path}/{PARTIAL_DIRECTORY}")  # a killed one is removed next
    assert list(tmp_path.iterdir()) == []


def test_misuse(unusual, tmp_path, monkeypatch):
    with pytest.raises(ValueError, match="`precision` must be one of"):
        export_litert(unusual, tmp_path, precision="int4")
    with pytest.raises(ValueError, match="`beam_size`"):
        export_litert(unusual, tmp_path, beam_size=0)
    monkeypatch.setattr(keras.backend, "backend", lambda: "jax")
    with pytest.raises(UserInputError, match="KERAS_BACKEND=tensorflow"):
        export_litert(unusual, tmp_path)
    assert list(tmp_path.iterdir()) == []
