"""The export runs where none of our code is: in TensorFlow's C library, as in a model server."""

import base64
import importlib.util
import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest
from tensorflow.core.protobuf import saved_model_pb2

from keras_transformer import Translator
from keras_transformer.data import find_text
from keras_transformer.export import export_saved_model
from keras_transformer.text.text_lines import text_lines
from tests.export import c_api_session
from tests.export.exported_signatures import ExportedSignatures
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


def signatures_of(version):
    """The tensors of each signature: (inputs, outputs), by name the tensor's name and type."""
    content = (version / "saved_model.pb").read_bytes()
    (graph,) = saved_model_pb2.SavedModel.FromString(content).meta_graphs
    return {
        name: [
            {key: (tensor.name, tensor.dtype) for key, tensor in sorted(tensors.items())}
            for tensors in (signature.inputs, signature.outputs)
        ]
        for name, signature in graph.signature_def.items()
    }


def run_calls(version, calls):
    """Call the signatures of a SavedModel, several at once, in a Python without any package.

    Args:
        version: path of the SavedModel.
        calls: list of (signature, dict of name -> array).

    Returns:
        For each call a dict of name -> array.
    """
    request = {
        "directory": str(version),
        "library": in_package("tensorflow", "libtensorflow_cc.so.2"),
        "op_libraries": [in_package("tensorflow_text", "python/ops/_sentencepiece_tokenizer.so")],
        "signatures": signatures_of(version),
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
    return [{name: array(*value) for name, value in answer.items()} for answer in found["answers"]]


def strings(sentences):
    """A string tensor `(sentences,)`, also of none."""
    encoded = [text.encode() if isinstance(text, str) else text for text in sentences]
    found = np.empty(len(encoded), dtype=object)
    found[:] = encoded
    return found


@pytest.fixture(scope="module")
def translator(trained_run):
    return Translator.load(trained_run)


def texts(outputs):
    return [text.decode() for text in outputs]


def test_every_signature_answers_as_in_tensorflows_python(translator, tmp_path, pytestconfig):
    """There, other tests compare the answers with the translator's."""
    sentences = pairs()[0][::15][:40]
    assert len(sentences) == 40
    sentences[::9] = [text.rpartition(" ")[0] for text in sentences[::9]]  # other lengths
    # The nasty ones are quick.
    version = export_saved_model(translator, tmp_path / "digits", max_source_length=48)
    nasty = NASTY if pytestconfig.getoption("--full") else NASTY[::5]
    ids = translator.source_tokenizer.encode(sentences[:10])
    padded = np.zeros((10, max(map(len, ids))), int)
    for row, tokens in zip(padded, ids, strict=True):
        row[: len(tokens)] = tokens
    lengths = np.array([len(tokens) for tokens in ids])
    pieces = [strings(sentences[i : i + 10]) for i in range(0, 40, 10)]
    none = strings([])
    calls = [
        ("serving_default", {"inputs": strings(sentences)}),
        *(("translate", {"inputs": piece}) for piece in (*pieces, strings(nasty), none)),
        ("translate_nbest", {"inputs": strings(sentences[:5])}),
        ("score", {"inputs": pieces[0], "targets": pieces[1]}),
        ("score", {"inputs": none, "targets": none}),
        ("tokenize", {"inputs": pieces[0]}),
        ("translate_ids", {"input_ids": padded, "input_lengths": lengths}),
        ("translate_ids", {"input_ids": padded[:0, :0], "input_lengths": lengths[:0]}),
    ]
    answers, exported = run_calls(version, calls), ExportedSignatures(version)
    expected = translator.translate(sentences)
    assert len(set(expected)) > 20
    assert texts(answers[0]["outputs"]) == expected
    for (name, inputs), answer in zip(calls, answers, strict=True):
        expected = exported.run(name, **inputs)
        assert answer.keys() == expected.keys()
        for key, array in expected.items():
            assert answer[key].shape == array.shape
            if array.dtype == object:
                assert texts(answer[key].ravel()) == array.ravel().tolist()
            else:
                np.testing.assert_allclose(answer[key].astype(float), array, rtol=1e-5, atol=1e-4)


def test_an_export_compiles_where_it_runs(translator, tmp_path, monkeypatch):
    version = export_saved_model(
        translator, tmp_path / "digits", max_source_length=48, jit_compile=True
    )
    monkeypatch.setenv("XLA_FLAGS", f"--xla_dump_to={tmp_path / 'dumped'}", prepend=" ")
    source = pairs()[0]
    given = [source[:3], source[3:7], ["", source[9]], [" ".join(source[:4])], []]
    calls = [("translate", {"inputs": strings(sentences)}) for sentences in given]
    no_ids = {"input_ids": np.zeros((0, 0), int), "input_lengths": np.zeros(0, int)}
    answers = run_calls(version, [*calls, ("translate_ids", no_ids)])
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
    (answer,) = run_calls(version, [("translate", {"inputs": strings(sentences)})])
    assert texts(answer["outputs"]) == translator.translate(sentences)
