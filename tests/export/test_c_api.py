"""The export runs where none of our code is: in TensorFlow's C library, as in a model server."""

import base64
import importlib.util
import itertools
import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

from keras_transformer import Translator
from keras_transformer.data import find_text
from keras_transformer.export import export_saved_model
from keras_transformer.text.text_lines import text_lines
from tests.export import c_api_session
from tests.export.nasty_sentences import NASTY
from tests.external_data import MULTI30K, MULTI30K_RUN, needs_multi30k_run
from tests.translation_training.number_text import pairs

pytestmark = [pytest.mark.tensorflow, pytest.mark.slow]

THREADS = 8


def in_package(package, path):
    """A file of an installed package, which is not imported for it."""
    return str(pathlib.Path(importlib.util.find_spec(package).origin).parent / path)


def tensor(values):
    """An array of bytes or integers as the script takes it."""
    values = np.asarray(values)
    flat = values.ravel().tolist()
    flat = [base64.b64encode(v).decode() if isinstance(v, bytes) else v for v in flat]
    return [values.shape, flat]


def array(shape, values):
    """What the script gives, as an array."""
    values = [base64.b64decode(v) if isinstance(v, str) else v for v in values]
    return np.array(values, dtype=object).reshape(shape)


def run_calls(version, calls):
    """Call the signatures of a SavedModel, several at once, in a Python without any package.

    Args:
        version: path of the SavedModel.
        calls: list of (signature, dict of name -> array).

    Returns:
        signatures: dict of name -> (inputs, outputs).
        answers: for each call a dict of name -> array.
    """
    request = {
        "directory": str(version),
        "library": in_package("tensorflow", "libtensorflow_cc.so.2"),
        "op_libraries": [in_package("tensorflow_text", "python/ops/_sentencepiece_tokenizer.so")],
        "threads": THREADS,
        "calls": [
            [name, {key: tensor(value) for key, value in inputs.items()}] for name, inputs in calls
        ],
    }
    done = subprocess.run(
        [sys.executable, "-I", "-S", c_api_session.__file__],
        input=json.dumps(request),
        capture_output=True,
        text=True,
        timeout=600,
        env={"TF_CPP_MIN_LOG_LEVEL": "2"} | os.environ,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    strangers = {"keras", "keras_transformer", "numpy", "tensorflow", "tensorflow_text"}
    assert strangers.isdisjoint(found["modules"])
    answers = [
        {name: array(*value) for name, value in answer.items()} for answer in found["answers"]
    ]
    return found["signatures"], answers


def strings(sentences):
    """A string tensor `(sentences,)`, also of none."""
    encoded = [text.encode() if isinstance(text, str) else text for text in sentences]
    found = np.empty(len(encoded), dtype=object)
    found[:] = encoded
    return found


@pytest.fixture(scope="module")
def translator(trained_run):
    return Translator.load(trained_run)


@pytest.fixture(scope="module")
def found(translator, tmp_path_factory, pytestconfig):
    """All answers of one process, by what was asked."""
    sentences = pairs()[0][::15][:40]
    assert len(sentences) == 40
    sentences[::9] = [text.rpartition(" ")[0] for text in sentences[::9]]  # other lengths
    version = export_saved_model(
        translator,
        tmp_path_factory.mktemp("c_api") / "digits",
        max_source_length=48,  # the nasty ones are quick
    )
    nasty = NASTY if pytestconfig.getoption("--full") else NASTY[::5]
    pieces = [sentences[i : i + 10] for i in range(0, 40, 10)]
    calls = {
        "default": [("serving_default", {"inputs": strings(sentences)})],
        "pieces": [("translate", {"inputs": strings(piece)}) for piece in pieces],
        "nbest": [("translate_nbest", {"inputs": strings(sentences[:5])})],
        "score": [("score", {"inputs": strings(pieces[0]), "targets": strings(pieces[1])})],
        "tokenize": [("tokenize", {"inputs": strings(pieces[0])})],
        "nasty": [("translate", {"inputs": strings(nasty)})],
        "nasty alone": [("translate", {"inputs": strings([text])}) for text in nasty],
        "empty": [
            ("translate", {"inputs": strings([])}),
            ("translate_nbest", {"inputs": strings([])}),
            ("tokenize", {"inputs": strings([])}),
            ("score", {"inputs": strings([]), "targets": strings([])}),
        ],
        "empty ids": [
            (
                "translate_ids",
                {"input_ids": np.zeros((0, 0), int), "input_lengths": np.zeros(0, int)},
            )
        ],
    }
    ids = translator.source_tokenizer.encode(pieces[0])
    padded = np.zeros((10, max(map(len, ids))), int)
    for row, tokens in zip(padded, ids, strict=True):
        row[: len(tokens)] = tokens
    lengths = np.array([len(tokens) for tokens in ids])
    calls["ids"] = [("translate_ids", {"input_ids": padded, "input_lengths": lengths})]
    signatures, answers = run_calls(version, list(itertools.chain(*calls.values())))
    answers = iter(answers)
    named = {name: [next(answers) for _ in asked] for name, asked in calls.items()}
    return {"sentences": sentences, "signatures": signatures, **named}


def texts(outputs):
    return [text.decode() for text in outputs]


def test_the_strings_are_the_translators(translator, found):
    expected = translator.translate(found["sentences"])
    (answer,) = found["default"]
    assert len(set(expected)) > 20
    assert texts(answer["outputs"]) == expected
    assert texts(np.concatenate([piece["outputs"] for piece in found["pieces"]])) == expected


def test_the_other_signatures_are_the_translators(translator, found):
    first, second = found["sentences"][:10], found["sentences"][10:20]
    (nbest,), (score,), (tokens,), (ids,) = (
        found[name] for name in ("nbest", "score", "tokenize", "ids")
    )
    expected = translator.translate_nbest(first[:5], 4)
    assert [texts(row) for row in nbest["outputs"]] == [[t for t, _ in row] for row in expected]
    np.testing.assert_allclose(
        nbest["scores"].astype(float), [[s for _, s in row] for row in expected], atol=1e-5
    )
    np.testing.assert_allclose(
        score["log_probs"].astype(float), translator.score(first, second), rtol=1e-5, atol=1e-4
    )
    rows = zip(tokens["ids"].tolist(), tokens["lengths"], strict=True)
    assert [row[:length] for row, length in rows] == translator.source_tokenizer.encode(first)
    rows = zip(ids["output_ids"].tolist(), ids["output_lengths"], strict=True)
    translations = translator.tokenizer.decode([row[:length] for row, length in rows])
    assert translations == translator.translate(first)


def test_the_signatures_have_their_names_and_types(found):
    kinds = {c_api_session.STRING: "string", c_api_session.INT32: "int32"}
    kinds[c_api_session.FLOAT] = "float"
    plain = {
        name: [{key: kinds[kind] for key, (_, kind) in tensors.items()} for tensors in both]
        for name, both in found["signatures"].items()
        if not name.startswith("__")
    }
    strings_in, translation = {"inputs": "string"}, {"outputs": "string", "scores": "float"}
    assert plain == {
        "serving_default": [strings_in, translation],
        "translate": [strings_in, translation],
        "translate_nbest": [strings_in, translation],
        "translate_ids": [
            {"input_ids": "int32", "input_lengths": "int32"},
            {"output_ids": "int32", "output_lengths": "int32", "scores": "float"},
        ],
        "score": [{"inputs": "string", "targets": "string"}, {"log_probs": "float"}],
        "tokenize": [strings_in, {"ids": "int32", "lengths": "int32"}],
    }


def test_an_empty_batch_has_an_empty_answer(found):
    translate, nbest, tokens, score = found["empty"]
    assert (translate["outputs"].shape, translate["scores"].shape) == ((0,), (0,))
    assert (nbest["outputs"].shape, nbest["scores"].shape) == ((0, 4), (0, 4))
    assert (tokens["ids"].shape, tokens["lengths"].shape) == ((0, 0), (0,))
    assert score["log_probs"].shape == (0,)
    (ids,) = found["empty ids"]
    assert (len(ids["output_ids"]), ids["output_lengths"].shape) == (0, (0,))


def test_nasty_inputs_have_the_same_answer_alone_and_together(found):
    (together,) = found["nasty"]
    assert [texts(answer["outputs"])[0] for answer in found["nasty alone"]] == texts(
        together["outputs"]
    )
    assert together["outputs"][0] == b""  # of the empty string


def test_an_export_compiles_where_it_runs(translator, tmp_path, monkeypatch):
    version = export_saved_model(
        translator, tmp_path / "digits", max_source_length=48, jit_compile=True
    )
    monkeypatch.setenv("XLA_FLAGS", f"--xla_dump_to={tmp_path / 'dumped'}", prepend=" ")
    source = pairs()[0]
    given = [source[:3], source[3:7], ["", source[9]], [" ".join(source[:4])], []]
    calls = [("translate", {"inputs": strings(sentences)}) for sentences in given]
    no_ids = {"input_ids": np.zeros((0, 0), int), "input_lengths": np.zeros(0, int)}
    _, answers = run_calls(version, [*calls, ("translate_ids", no_ids)])
    for sentences, answer in zip(given, answers, strict=False):
        assert texts(answer["outputs"]) == translator.translate(sentences)
    assert answers[-1]["output_lengths"].shape == (0,)
    # Rows and tokens: 4 short ones, twice; 2; and a long one.
    compiled = {path.name for path in (tmp_path / "dumped").glob("*before_optimizations.txt")}
    assert len(compiled) == 3


@needs_multi30k_run
def test_multi30k_through_the_c_api(tmp_path):
    translator = Translator.load(MULTI30K_RUN)
    version = export_saved_model(translator, tmp_path / "multi30k")
    sentences = list(text_lines(find_text(MULTI30K, "test_2016_flickr.en")))[:100]
    _, (answer,) = run_calls(version, [("translate", {"inputs": strings(sentences)})])
    assert texts(answer["outputs"]) == translator.translate(sentences)
