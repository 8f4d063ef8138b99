"""What lies in the directory of a served model: versions, and what the model server reads."""

import dataclasses
import json
import os
import sys

import pytest
import tensorflow as tf
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format
from google.protobuf import wrappers_pb2 as wrappers

from keras_transformer.errors import CannotWrite, UserInputError
from keras_transformer.formats.guarded_generator import exported_search
from keras_transformer.formats.saved_model.tensorflow_warmup import (
    WARMUP_FILE,
    write_warmup_requests,
)
from keras_transformer.formats.saved_model.writer import export_saved_model
from keras_transformer.inference.translator import Translator
from keras_transformer.installation import pip_install
from keras_transformer.search_options import SearchOptions
from keras_transformer.text import SentencePieceTokenizer
from tests.export.exported_signatures import ExportedSignatures
from tests.random_translation import build

pytestmark = pytest.mark.tensorflow


@pytest.fixture(scope="module")
def translator(tokenizer):
    return Translator(build(tokenizer), tokenizer, beam_size=2, extra_length=3)


@pytest.fixture(scope="module")
def path(translator, tmp_path_factory):
    return export_saved_model(translator, tmp_path_factory.mktemp("models") / 'the "first"')


def batching_parameters():
    """An empty `BatchingParameters`, whose definition is in no package.

    Reference: tensorflow_serving/servables/tensorflow/session_bundle_config.proto
    """
    fields = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="batching.proto", package="test")
    file.dependency.append(wrappers.DESCRIPTOR.name)
    message = file.message_type.add(name="BatchingParameters")
    names = ("max_batch_size", "batch_timeout_micros", "max_enqueued_batches", "num_batch_threads")
    of_integer = {"type": fields.TYPE_MESSAGE, "type_name": ".google.protobuf.Int64Value"}
    kinds = dict.fromkeys(names, of_integer)
    kinds["pad_variable_length_inputs"] = {"type": fields.TYPE_BOOL}
    for number, (name, kind) in enumerate(kinds.items(), 1):
        message.field.add(name=name, number=number, label=fields.LABEL_OPTIONAL, **kind)
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(wrappers.DESCRIPTOR.serialized_pb)
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("test.BatchingParameters"))()


def test_a_version_is_the_one_after_the_largest_and_what_is_there_stays(translator, tmp_path):
    for name in ("2", "x", "9.5", "-8", "٨", ".partial-directory-9"):
        (tmp_path / name).mkdir()
    (tmp_path / "2" / "mine").touch()
    (tmp_path / "5").touch()  # no version, yet its name is taken
    (tmp_path / "models.config").write_text("mine", encoding="utf-8")
    path = export_saved_model(translator, str(tmp_path))
    assert path == tmp_path / "6"
    assert [file.name for file in (tmp_path / "2").iterdir()] == ["mine"]
    assert (tmp_path / "models.config").read_text("utf-8") == "mine"
    assert {file.name for file in tmp_path.iterdir()} == {
        "2", "5", "6", "x", "9.5", "-8", "٨", "models.config", "batching.config",
    }  # fmt: skip


def test_the_first_version_has_all_that_a_server_reads(path):
    assert path.name == "1"
    assert {file.name for file in path.iterdir()} == {
        "SHA256SUMS", "assets", "assets.extra", "fingerprint.pb", "model_card.json",
        "model_card.md", "saved_model.pb", "variables",
    }  # fmt: skip
    card = json.loads((path / "model_card.json").read_text("utf-8"))
    assert card["kind"] == "SavedModel"
    assert card["precision"] == "float32"
    search = SearchOptions(beam_size=2, extra_length=3, max_source_length=256, num_results=2)
    others = {"jit_compile": False, "shortlist": False, "terms": False}
    assert card["options"] == dataclasses.asdict(search) | others


def test_the_configuration_of_models_names_this_one(path):
    from tensorflow_serving.config import model_server_config_pb2

    text = (path.parent / "models.config").read_text("utf-8")
    config = text_format.Parse(text, model_server_config_pb2.ModelServerConfig())
    (model,) = config.model_config_list.config
    assert model.name == 'the "first"'
    assert model.base_path == str(path.parent)
    assert model.model_platform == "tensorflow"


def test_the_batching_parameters_are_some(path):
    text = (path.parent / "batching.config").read_text("utf-8")
    parameters = text_format.Parse(text, batching_parameters())
    assert parameters.max_batch_size.value == 32
    assert parameters.batch_timeout_micros.value > 0
    assert parameters.max_enqueued_batches.value > 1
    assert parameters.num_batch_threads.value > 0
    # Two requests of `translate_ids` fail together if their rows have different lengths.
    assert parameters.pad_variable_length_inputs


def test_a_path_that_no_configuration_can_hold_is_refused(translator, tmp_path):
    directory = tmp_path / os.fsdecode(b"caf\xe9")
    with pytest.raises(UserInputError, match="`directory` must be a path in UTF-8"):
        export_saved_model(translator, directory)
    assert not directory.exists()


def test_the_smallest_vocabulary_has_warm_up_requests(tmp_path):
    tokenizer = SentencePieceTokenizer.train(["a a"], vocabulary_size=6)
    translator = Translator(build(tokenizer), tokenizer)
    write_warmup_requests(tmp_path, translator, exported_search(translator), terms=False)
    assert (tmp_path / WARMUP_FILE).stat().st_size > 0


def test_warm_up_requests_run_every_signature(path):
    from tensorflow_serving.apis import prediction_log_pb2

    exported, shapes = ExportedSignatures(path), {}
    records = tf.data.TFRecordDataset(str(path / "assets.extra/tf_serving_warmup_requests"))
    for record in records.as_numpy_iterator():
        log = prediction_log_pb2.PredictionLog.FromString(record)
        request = log.predict_log.request
        inputs = {name: tf.make_ndarray(value) for name, value in request.inputs.items()}
        outputs = exported.run(request.model_spec.signature_name, **inputs)
        (batch_size,) = {array.shape[0] for array in outputs.values()}
        shapes.setdefault(request.model_spec.signature_name, set()).add(batch_size)
    names = ("translate", "translate_nbest", "translate_ids", "score", "tokenize")
    assert shapes == {name: {1, 4} for name in names}


def test_without_the_servers_package_a_line_says_what_is_left_out(
    translator, tmp_path, monkeypatch, capsys
):
    monkeypatch.setitem(sys.modules, "tensorflow_serving", None)
    path = export_saved_model(translator, tmp_path)
    assert not (path / "assets.extra").exists()
    (line,) = capsys.readouterr().err.splitlines()
    assert pip_install("serving") in line


def test_a_file_in_the_way_is_named(translator, tmp_path):
    (tmp_path / "taken").touch()
    with pytest.raises(CannotWrite, match="taken"):
        export_saved_model(translator, tmp_path / "taken")
