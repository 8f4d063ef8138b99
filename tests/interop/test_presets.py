"""Presets: written, read again, from archives and the hub; hostile archives are refused."""

import dataclasses
import os
import struct
import sys
import tempfile
import types
import zipfile

import keras
import numpy as np
import pytest

from keras_transformer import Translator
from keras_transformer.errors import UserInputError
from keras_transformer.formats.preset_files import _pack
from keras_transformer.input_files import read_input
from keras_transformer.interop import import_marian_run
from keras_transformer.models import Transformer
from keras_transformer.runs.model_weights import load_safetensors, save_safetensors
from keras_transformer.text import SentencePieceTokenizer
from tests.interop.marian_folders import write_hugging_face
from tests.interop.random_models import assert_same_weights
from tests.random_translation import build, sentences

SENTENCES = ["a small house", "", "the green tree stands"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("marian") / "opus"
    write_hugging_face(path)
    return path


@pytest.fixture(scope="module")
def translator(folder):
    return Translator.from_preset(folder, beam_size=3, extra_length=5)


@pytest.fixture(scope="module")
def tokenizer():
    return SentencePieceTokenizer.train(sentences(200), vocabulary_size=64)


def assert_same(found, expected):
    assert_same_weights(found.models[0], expected.models[0])
    assert found.search_options == expected.search_options
    for side in ("source_tokenizer", "tokenizer"):
        assert getattr(found, side).fingerprint == getattr(expected, side).fingerprint


def assert_same_translations(found, expected):
    assert found.translate_nbest(SENTENCES, 2) == expected.translate_nbest(SENTENCES, 2)


@pytest.mark.parametrize(
    ("name", "weights"),
    [
        ("preset", "safetensors"),
        ("preset.zip", "keras"),
        pytest.param("preset", "keras", marks=pytest.mark.slow),
        pytest.param("preset.zip", "safetensors", marks=pytest.mark.slow),
    ],
)
def test_a_preset_is_read_as_it_was_written(translator, tmp_path, name, weights):
    path = translator.save_to_preset(tmp_path / name, weights=weights)
    assert path == tmp_path / name
    found = Translator.from_preset(path)
    assert_same(found, translator)
    assert_same_translations(found, translator)
    assert len(found.origins) == (name == "preset")
    assert Translator.from_preset(path, beam_size=1).beam_size == 1


def test_a_folder_is_a_run(translator, tmp_path):
    path = translator.save_to_preset(tmp_path / "run", weights="safetensors")
    found = Translator.load(path)
    assert_same(found, translator)
    assert_same_translations(found, translator)
    assert_same(Translator.from_preset(found.save_to_preset(tmp_path / "again")), translator)
    content = bytearray((path / "model.safetensors").read_bytes())
    content[-3] ^= 1
    (path / "model.safetensors").write_bytes(content)
    with pytest.raises(UserInputError, match="model.safetensors is damaged: its checksum is wrong"):
        Translator.load(path)


def test_an_archive_is_packed_whatever_the_times_of_its_files(tmp_path):
    """Zip has no times before 1980, which a clock that was never set gives."""
    (tmp_path / "preset" / "checkpoints").mkdir(parents=True)
    for name in ("run.json", "checkpoints/best.json"):
        (tmp_path / "preset" / name).write_text(name)
        os.utime(tmp_path / "preset" / name, (0, 0))
    _pack(tmp_path / "preset", tmp_path / "preset.zip")
    with zipfile.ZipFile(tmp_path / "preset.zip") as archive:
        found = {name: archive.read(name).decode() for name in archive.namelist()}
    assert found == {name: name for name in ("run.json", "checkpoints/best.json")}


def test_a_preset_in_int8_computes_in_float32(tokenizer, tmp_path):
    trained = Translator(build(tokenizer, dtype="mixed_bfloat16"), tokenizer)
    found = Translator.from_preset(trained.save_to_preset(tmp_path / "int8", precision="int8"))
    assert Transformer.of(found.models[0]).options.dtype == "float32"
    assert trained.models[0].options.dtype == "mixed_bfloat16"


def test_a_preset_in_int8_has_a_scale_for_each_token_and_each_column(translator, tmp_path):
    path = translator.save_to_preset(tmp_path / "preset", precision="int8")
    found = Translator.from_preset(path)
    for ours, theirs in zip(found.models[0].weights, translator.models[0].weights, strict=True):
        value, expected = (keras.ops.convert_to_numpy(each) for each in (ours, theirs))
        if value.ndim < 2:
            np.testing.assert_array_equal(value, expected)
            continue
        axis = 1 if theirs.path.endswith("token_embedding/matrix") else 0
        step = np.abs(expected).max(axis, keepdims=True) / 127
        assert (np.abs(value - expected) <= 0.5001 * step).all()
    again = found.save_to_preset(tmp_path / "again", precision="int8") / "model.safetensors"
    assert again.read_bytes() == (path / "model.safetensors").read_bytes()
    whole = translator.save_to_preset(tmp_path / "whole", weights="safetensors")
    sizes = [(each / "model.safetensors").stat().st_size for each in (path, whole)]
    assert sizes[0] < 0.5 * sizes[1]  # the vectors of small models weigh much
    with pytest.raises(ValueError, match="`precision` must be one of"):
        translator.save_to_preset(tmp_path / "new", precision="int4")


NAME = "dense.0.kernel"


def with_first(array, value):
    array = array.copy()
    array.flat[0] = value
    return array


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda values, scale: (values, with_first(scale, np.nan)), "scale is not positive"),
        (lambda values, scale: (values, with_first(scale, 0)), "scale is not positive"),
        (lambda values, scale: (values, with_first(scale, -1)), "scale is not positive"),
        (lambda values, scale: (values, with_first(scale, np.inf)), "scale is not positive"),
        (lambda values, scale: (values, with_first(scale, 1e-45)), "not finite"),
        (lambda values, scale: (values, scale[:, :4]), "its scale has 4 numbers"),
        (lambda values, scale: (values, scale.astype("float16")), "`.*scale` is left over"),
        (lambda values, scale: (values.astype("int32"), scale), "`.*scale` is left over"),
        (lambda values, scale: (values.T.copy(), scale), r"has the shape \(5, 3\)"),
        (lambda values, scale: (values, None), "must contain floating-point numbers"),
        (lambda values, scale: (None, scale), "is missing"),
    ],
)
def test_hostile_integers_are_refused(change, message, tmp_path):
    from safetensors.numpy import load_file, save_file

    inputs = keras.Input((3,))
    model = keras.Model(inputs, keras.layers.Dense(5, name="dense")(inputs))
    path = tmp_path / "model.safetensors"
    save_safetensors(model, path, "int8")
    load_safetensors(model, path)
    tensors = load_file(path)
    assert (tensors[NAME].dtype, tensors[f"{NAME}.scale"].shape) == ("int8", (1, 5))
    for name, value in zip(
        (NAME, f"{NAME}.scale"), change(tensors[NAME], tensors[f"{NAME}.scale"]), strict=True
    ):
        tensors[name] = value
    save_file({name: value for name, value in tensors.items() if value is not None}, path)
    before = model.get_weights()[0]
    with pytest.raises(UserInputError, match=message):
        load_safetensors(model, path)
    assert "not finite" in message or (model.get_weights()[0] == before).all()


def test_a_preset_does_not_replace_files(translator, tmp_path):
    (tmp_path / "mine.zip").write_text("mine")
    with pytest.raises(UserInputError, match="mine.zip exists: choose another archive"):
        translator.save_to_preset(tmp_path / "mine.zip")
    assert (tmp_path / "mine.zip").read_text() == "mine"
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("mine")
    with pytest.raises(UserInputError, match="already contains files"):
        translator.save_to_preset(tmp_path / "full")
    with pytest.raises(ValueError, match="`weights` must be one of"):
        translator.save_to_preset(tmp_path / "new", weights="pickle")
    both = Translator(
        translator.models * 2, translator.tokenizer, source_tokenizer=translator.source_tokenizer
    )
    with pytest.raises(UserInputError, match="A preset contains one model"):
        both.save_to_preset(tmp_path / "new")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nothing", "There is no preset nothing: neither a folder nor an archive"),
        ("org/model", "hub: hf://org/model"),
    ],
)
def test_what_does_not_exist_is_told(name, message):
    with pytest.raises(UserInputError, match=message):
        Translator.from_preset(name)


def fake_hub(monkeypatch, folder, calls, name="org/opus"):
    """A hub that has one repository, in `folder`."""

    def snapshot_download(repository, revision, allow_patterns, ignore_patterns):
        assert ignore_patterns == ["*/*"]
        calls.append((repository, revision, tuple(allow_patterns)))
        if repository != name:
            raise ConnectionError(f"no repository\n{repository}")
        return str(folder)

    module = types.ModuleType("huggingface_hub")
    module.snapshot_download = snapshot_download
    monkeypatch.setitem(sys.modules, "huggingface_hub", module)


def test_names_of_the_hub_are_downloaded_without_code(folder, translator, monkeypatch):
    calls = []
    fake_hub(monkeypatch, folder, calls)
    found = Translator.from_preset("hf://org/opus@v1", beam_size=3, extra_length=5)
    assert_same(found, translator)
    ((repository, revision, patterns),) = calls
    assert (repository, revision) == ("org/opus", "v1")
    assert not any(pattern.endswith((".py", ".bin", "*")) for pattern in patterns)
    with pytest.raises(
        UserInputError, match="Cannot download hf://org/else: no repository org/els"
    ):
        Translator.from_preset("hf://org/else")


def test_without_network_a_line_says_so(monkeypatch):
    errors = pytest.importorskip("huggingface_hub.errors")

    def snapshot_download(*_, **__):
        raise errors.LocalEntryNotFoundError("ConnectError: [Errno -2] Name or service not known")

    monkeypatch.setattr("huggingface_hub.snapshot_download", snapshot_download)
    with pytest.raises(UserInputError, match="hf://org/opus: the hub cannot be reached, and its"):
        Translator.from_preset("hf://org/opus")


def test_old_weights_of_the_hub_are_fetched_only_where_there_are_no_others(tmp_path, monkeypatch):
    calls = []
    write_hugging_face(tmp_path / "opus", weights="bin")
    fake_hub(monkeypatch, tmp_path / "opus", calls)
    assert Translator.from_preset("hf://org/opus").translate(["a house"])
    assert [call[-1][-1] == "pytorch_model.bin" for call in calls] == [False, True]


# What repositories of OPUS-MT and of Keras hold beside a preset or a model.
HUB_FILES = """.gitattributes README.md benchmark_results.txt config.json flax_model.msgpack
generation_config.json metadata.json model.safetensors opus.vocab.yml pytorch_model.bin
rust_model.ot source.spm special_tokens_map.json target.spm tf_model.h5 tokenizer_config.json
vocab.json target_vocab.json onnx/config.json onnx/model.onnx onnx/decoder_model.safetensors
coreml/model.weights.h5 checkpoints/step-1.weights.h5 adapter_model.safetensors
translation.py decoder.yml model.npz opus.src.vocab run.json settings.json model.json
SHA256SUMS tokenizer.model source_tokenizer.model sentencepiece.bpe.model
model.weights.h5""".split()
TAKEN = """SHA256SUMS config.json decoder.yml generation_config.json metadata.json model.json
model.npz model.safetensors model.weights.h5 opus.src.vocab opus.vocab.yml run.json settings.json
source.spm source_tokenizer.model special_tokens_map.json target.spm target_vocab.json
tokenizer.model tokenizer_config.json vocab.json""".split()


def test_of_a_repository_only_what_is_needed_is_downloaded(monkeypatch, tmp_path):
    utilities = pytest.importorskip("huggingface_hub.utils")
    taken = []

    def snapshot_download(repository, revision, **patterns):
        taken.append(sorted(utilities.filter_repo_objects(HUB_FILES, **patterns)))
        return str(tmp_path)

    monkeypatch.setattr("huggingface_hub.snapshot_download", snapshot_download)
    with pytest.raises(UserInputError, match="contains no Marian model"):
        Translator.from_preset("hf://org/opus")
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(UserInputError, match="config.json must describe a Marian model"):
        Translator.from_preset("hf://org/opus")
    old = sorted([*TAKEN, "pytorch_model.bin"])
    assert taken == [TAKEN, TAKEN, old]


def test_without_the_hubs_package_the_command_that_installs_it_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(UserInputError, match=r"hub package: pip install .*\[interop\]'"):
        Translator.from_preset("hf://org/opus")


def entry(name, *, mode=0o644, compress=zipfile.ZIP_STORED):
    found = zipfile.ZipInfo(name)
    found.external_attr = mode << 16
    found.compress_type = compress
    return found


@pytest.mark.parametrize(
    "bad",
    [
        entry("../outside.txt"),
        entry("/absolute.txt"),
        entry("a\\..\\b"),
        entry("."),
        entry("link", mode=0o120777),
        entry("bomb", compress=zipfile.ZIP_DEFLATED),
    ],
    ids=lambda bad: bad.filename,
)
def test_a_hostile_archive_is_refused(bad, translator, tmp_path):
    path = translator.save_to_preset(tmp_path / "preset.zip")
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(bad, "0" * 10_000)
    with pytest.raises(UserInputError, match="preset.zip is refused"):
        Translator.from_preset(path)
    assert {file.name for file in tmp_path.iterdir()} == {"preset.zip"}


def test_an_entry_of_an_archive_without_a_name_is_refused(translator, tmp_path):
    path = translator.save_to_preset(tmp_path / "preset.zip")
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("@@", b"0")
    path.write_bytes(path.read_bytes().replace(b"@@", b"\0\0"))
    with pytest.raises(UserInputError, match="preset.zip is refused: ''"):
        Translator.from_preset(path)


def archive_of(path, *names, size=10_000):
    """An archive of a preset's record and of files with these names; returns its content."""
    with zipfile.ZipFile(path, "w") as archive:
        for name in ("run.json", *names):
            archive.writestr(name, "0" * size)
    return bytearray(path.read_bytes())


CENTRAL = struct.Struct("<4s16xII14xI")  # compressed size, size, and where the entry begins


def entries_of(content):
    """The places of the entries in the archive's directory."""
    place, found = content.find(b"PK\x01\x02"), []
    while place >= 0:
        found.append(place)
        place = content.find(b"PK\x01\x02", place + 1)
    return found


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda stored, size, start: (stored, size, 0), "'b' overlaps another file"),
        (lambda stored, size, start: (stored, size, start - 2), "overlaps another file"),
        (lambda stored, size, start: (stored, size + 1, start), "'b' is compressed"),
        (lambda stored, size, start: (1 << 30, 1 << 30, start), "it ends early"),
        (lambda stored, size, start: (stored + 999, size + 999, start), "it ends early"),
    ],
)
def test_entries_that_share_bytes_are_refused(change, message, tmp_path):
    path = tmp_path / "preset.zip"
    content = archive_of(path, "a", "b")
    *_, last = entries_of(content)
    signature, *numbers = CENTRAL.unpack_from(content, last)
    for place, number in zip((20, 24, 42), change(*numbers), strict=True):
        struct.pack_into("<I", content, last + place, number)
    assert signature == b"PK\x01\x02"
    path.write_bytes(content)
    with pytest.raises(UserInputError, match=f"preset.zip .*{message}"):
        Translator.from_preset(path)


def test_a_fault_in_an_archive_names_the_archive(translator, tmp_path):
    path = translator.save_to_preset(tmp_path / "whole.zip", weights="safetensors")
    for left_out in ("tokenizer.model", "model.safetensors", "run.json"):
        with zipfile.ZipFile(path) as whole, zipfile.ZipFile(tmp_path / "cut.zip", "w") as cut:
            for name in whole.namelist():
                if name != left_out:
                    cut.writestr(name, whole.read(name))
        with pytest.raises(UserInputError) as refused:
            Translator.from_preset(tmp_path / "cut.zip")
        assert str(tmp_path / "cut.zip") in str(refused.value)
        assert tempfile.gettempdir() not in str(refused.value).replace(str(tmp_path), "")


def test_the_tensor_that_does_not_fit_is_named(tmp_path):
    from safetensors.numpy import load_file, save_file

    inputs = keras.Input((3,))
    model = keras.Model(inputs, keras.layers.Dense(2, name="dense")(inputs))
    path = tmp_path / "model.safetensors"
    save_safetensors(model, path)
    tensors = load_file(path)
    assert tensors.keys() == {"dense.0.kernel", "dense.1.bias"}
    kernel, bias = tensors["dense.0.kernel"], tensors["dense.1.bias"]
    for changed, message in (
        ({"dense.0.kernel": kernel}, "the tensor `dense.1.bias` is missing"),
        (tensors | {"more": bias}, "the tensor `more` is left over"),
        (tensors | {"dense.1.bias": bias[:1]}, r"`dense.1.bias` has the shape \(1,\) instead of"),
    ):
        save_file(changed, path)
        with pytest.raises(UserInputError, match=f"are from another model: .*{message}"):
            load_safetensors(model, path)


def test_a_damaged_archive_is_refused_or_has_the_same_weights(translator, tmp_path):
    content = translator.save_to_preset(tmp_path / "whole.zip").read_bytes()
    random = np.random.default_rng(0)
    damaged = [content[: random.integers(0, len(content))] for _ in range(5)]
    for place in random.integers(0, len(content), 5):
        flipped = bytearray(content)
        flipped[place] ^= 4
        damaged.append(bytes(flipped))
    refused = 0
    for number, one in enumerate(damaged):
        path = tmp_path / f"{number}.zip"
        path.write_bytes(one)
        try:
            assert_same(Translator.from_preset(path), translator)
        except UserInputError:
            refused += 1
    assert refused >= 5


def test_an_imported_run_has_the_models_own_search(folder, tmp_path):
    run = import_marian_run(folder, tmp_path / "run")
    expected = Translator.from_preset(folder)
    found = Translator.load(run.path)
    assert found.search_options == expected.search_options
    assert found.length_penalty == "power"
    assert_same(
        Translator.load(run.path, beam_size=2),
        Translator.from_preset(
            folder, **dataclasses.asdict(expected.search_options) | {"beam_size": 2}
        ),
    )
    assert str(folder) in read_input(run.record_path, 10_000).decode()
