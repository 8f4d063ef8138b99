"""What a SavedModel is made of and how large it is, for every kind of translator."""

import functools

import numpy as np
import pytest

from keras_transformer.formats.guarded_generator import with_precision
from keras_transformer.formats.saved_model.writer import export_saved_model
from keras_transformer.inference.translator import Translator
from keras_transformer.models import build_transformer
from keras_transformer.text import SentencePieceTokenizer
from tests.export.exported_signatures import ExportedSignatures, check_equal, operations
from tests.random_translation import build, sentences
from tests.translation_training.number_text import pairs

pytestmark = pytest.mark.tensorflow

# TensorFlow's core and the SentencePiece operations that the model server links.
ALLOWED = {
    "Assert",
    "SentencepieceDetokenizeOp", "SentencepieceOp", "SentencepieceTokenizeOp",
    "UnicodeTranscode",
    # arithmetic
    "Abs", "AddV2", "BatchMatMulV2", "BiasAdd", "Cos", "Cumsum", "Erfc", "Exp", "FloorDiv",
    "FloorMod", "Log", "Log1p", "LogSoftmax", "MatMul", "Max", "Maximum", "Mean", "Minimum", "Mul",
    "Neg", "Pow", "Prod", "RealDiv", "Relu", "Rsqrt", "Sin", "Softmax", "SquaredDifference", "Sub",
    "Sum", "TopKV2",
    # comparison
    "All", "Any", "Equal", "Greater", "GreaterEqual", "IsFinite", "IsNan", "Less", "LessEqual",
    "LogicalAnd", "LogicalNot", "LogicalOr", "NotEqual", "Select", "SelectV2", "Where",
    # shapes and types
    "BroadcastTo", "Cast", "ConcatV2", "ExpandDims", "Fill", "GatherV2", "Pack", "Pad", "PadV2",
    "RaggedTensorToTensor", "Range", "Reshape", "ScatterNd", "Shape", "SplitV", "Squeeze",
    "StridedSlice", "Transpose", "Unpack", "ZerosLike",
    # control flow, variables, loading
    "AssignVariableOp", "Const", "DisableCopyOnRead", "Identity", "MergeV2Checkpoints", "NoOp",
    "PartitionedCall", "Placeholder", "ReadVariableOp", "RestoreV2", "SaveV2",
    "ShardedFilename", "StatefulPartitionedCall", "StaticRegexFullMatch", "StopGradient",
    "StringJoin", "VarHandleOp", "While",
}  # fmt: skip
MEGABYTE = 10**6


def weights_size(path):
    return sum(file.stat().st_size for file in (path / "variables").glob("variables.data-*"))


def whole_size(path):
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())


def parameters(translator):
    return sum(model.count_params() for model in translator.models)


@pytest.fixture(scope="module")
def texts():
    return [*sentences(8, seed=3), ""]


@pytest.fixture(scope="module")
def learned(tokenizer, tmp_path_factory):
    """Two vocabularies of which one is padded, every option of a model, rules for the output."""
    target = SentencePieceTokenizer.train(sentences(50), vocabulary_size=30, model_type="unigram")
    model = build(
        target,
        vocabulary_size=target.vocabulary_size + 6,
        source_vocabulary_size=tokenizer.vocabulary_size,
        positions="learned",
        max_length=30,
        use_bias=True,
        value_dim=4,
        activation="gelu",
        layer_norm_epsilon=1e-3,
        final_norm=True,
        tie_weights=False,
    )
    translator = Translator(
        model, target, source_tokenizer=tokenizer, beam_size=3, min_length=2, no_repeat_ngram=2
    )
    return translator, export_saved_model(translator, tmp_path_factory.mktemp("learned"))


@pytest.fixture(scope="module")
def ensemble(tokenizer, tmp_path_factory):
    """Two models, one of them pre-norm, greedy search."""
    models = [build(tokenizer), build(tokenizer, seed=1, normalize_first=True)]
    translator = Translator(models, tokenizer, beam_size=1)
    path = export_saved_model(translator, tmp_path_factory.mktemp("ensemble"), extra_length=6)
    return Translator(models, tokenizer, beam_size=1, extra_length=6), path


@pytest.fixture(scope="module")
def bfloat16(trained_run, tmp_path_factory):
    """A trained model in bfloat16."""
    translator = Translator.load(trained_run, beam_size=2)
    path = export_saved_model(translator, tmp_path_factory.mktemp("bfloat16"), precision="bfloat16")
    return translator, path


@pytest.fixture(scope="module")
def signatures():
    """A function from a path to its `ExportedSignatures`, each loaded once."""
    return functools.cache(ExportedSignatures)


@pytest.mark.parametrize("kind", ["learned", "ensemble"])
def test_every_kind_of_translator_gives_the_same_outside(kind, texts, signatures, request):
    translator, path = request.getfixturevalue(kind)
    check_equal(signatures(path), translator, texts, translator.beam_size)


def test_sources_and_targets_beyond_the_learned_positions_are_cut(learned, signatures):
    translator, path = learned
    exported = signatures(path)
    long = " ".join(sentences(20, seed=4))
    (ids,) = translator.source_tokenizer.encode([long])
    assert len(ids) > 30
    (cut,) = translator.source_tokenizer.decode([ids[:29]])
    found = exported.run("translate_nbest", inputs=[long])
    assert [found["outputs"][0, 0]] == translator.translate([cut])
    assert np.isfinite(exported.run("score", inputs=[long], targets=[long])["log_probs"]).all()


@pytest.mark.parametrize("kind", ["learned", "ensemble", "bfloat16"])
def test_there_are_only_operations_that_the_model_server_has(kind, request):
    _, path = request.getfixturevalue(kind)
    found = operations(path)
    assert found - ALLOWED == set()
    assert {"SentencepieceTokenizeOp", "While", "MatMul"} <= found  # it has looked into functions


@pytest.mark.parametrize("kind", ["learned", "ensemble", "bfloat16"])
def test_it_is_as_large_as_its_weights_and_eight_megabytes(kind, request):
    translator, path = request.getfixturevalue(kind)
    weights = parameters(translator) * (2 if kind == "bfloat16" else 4)
    assert weights <= weights_size(path) < 1.1 * weights + 20_000  # each variable once
    tokenizers = len(translator.tokenizer.model_bytes + translator.source_tokenizer.model_bytes)
    assert whole_size(path) <= weights + tokenizers + 8 * MEGABYTE


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_base_is_at_most_115_percent_of_its_weights(precision, tmp_path):
    """Of the paper's size: a vocabulary of 37,000 tokens."""
    symbols = [f"w{number}" for number in range(36_950)]
    tokenizer = SentencePieceTokenizer.train(
        sentences(50), vocabulary_size=37_000, user_defined_symbols=symbols
    )
    model = build_transformer("base", vocabulary_size=37_000)
    path = export_saved_model(Translator(model, tokenizer), tmp_path, precision=precision)
    weights = model.count_params() * {"float32": 4, "bfloat16": 2}[precision]
    print(
        f"{precision}: {whole_size(path):,} bytes, {whole_size(path) / weights:.3f} x the weights"
    )
    assert whole_size(path) <= 1.15 * weights


def test_bfloat16_computes_in_bfloat16(bfloat16, signatures):
    translator, path = bfloat16
    models = [with_precision(model, "bfloat16") for model in translator.models]
    same = Translator(models, translator.tokenizer, beam_size=2)
    sources, targets = (texts[::31] for texts in pairs())
    exported = signatures(path)
    found = exported.run("translate", inputs=sources)
    expected = same.translate_nbest(sources, 1)
    assert found["outputs"].tolist() == [text for ((text, _),) in expected]
    np.testing.assert_allclose(found["scores"], [s for ((_, s),) in expected], atol=0.02)
    log_probs = exported.run("score", inputs=sources, targets=targets)["log_probs"]
    expected = np.array(translator.score(sources, targets))
    # Rounded numbers are off by a share of themselves: improbable targets by more.
    np.testing.assert_allclose(log_probs, expected, atol=0.1, rtol=0.01)
    assert np.abs(log_probs - expected).max() > 1e-4
