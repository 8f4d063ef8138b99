"""Presets: written, read again, from archives and the hub; hostile archives are refused."""

import dataclasses
import sys
import types
import zipfile

import numpy as np
import pytest

from keras_transformer import Translator
from keras_transformer.errors import UserInputError
from keras_transformer.files.input_files import read_input
from keras_transformer.interop import import_marian_run
from tests.interop.marian_folders import write_hugging_face

SENTENCES = ["a small house", "", "the green tree stands"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("marian") / "opus"
    path.mkdir()
    write_hugging_face(path)
    return path


@pytest.fixture(scope="module")
def translator(folder):
    return Translator.from_preset(folder, beam_size=3, extra_length=5)


def assert_same(found, expected):
    for one, other in zip(
        found.models[0].get_weights(), expected.models[0].get_weights(), strict=True
    ):
        np.testing.assert_array_equal(one, other)
    assert found.search_options == expected.search_options
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
    assert len(found.origins) == (name == "preset")
    assert Translator.from_preset(path, beam_size=1).beam_size == 1


def test_a_folder_is_a_run(translator, tmp_path):
    path = translator.save_to_preset(tmp_path / "run", weights="safetensors")
    found = Translator.load(path)
    assert_same(found, translator)
    assert_same(Translator.from_preset(found.save_to_preset(tmp_path / "again")), translator)
    content = bytearray((path / "model.safetensors").read_bytes())
    content[-3] ^= 1
    (path / "model.safetensors").write_bytes(content)
    with pytest.raises(UserInputError, match="model.safetensors is damaged: its checksum is wrong"):
        Translator.load(path)


def test_a_preset_does_not_replace_files(translator, tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("mine")
    with pytest.raises(UserInputError, match="holds files already"):
        translator.save_to_preset(tmp_path / "full")
    with pytest.raises(ValueError, match="`weights` must be one of"):
        translator.save_to_preset(tmp_path / "new", weights="pickle")
    both = Translator(
        translator.models * 2, translator.tokenizer, source_tokenizer=translator.source_tokenizer
    )
    with pytest.raises(UserInputError, match="A preset has one model"):
        both.save_to_preset(tmp_path / "new")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nothing", "There is no preset nothing: no folder and no archive"),
        ("org/model", "is hf://org/model"),
    ],
)
def test_what_does_not_exist_is_told(name, message):
    with pytest.raises(UserInputError, match=message):
        Translator.from_preset(name)


def fake_hub(monkeypatch, folder, calls, name="org/opus"):
    """A hub that has one repository, in `folder`."""

    def snapshot_download(repository, revision, allow_patterns):
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


def test_old_weights_of_the_hub_are_fetched_only_where_there_are_no_others(tmp_path, monkeypatch):
    calls = []
    tmp_path.joinpath("opus").mkdir()
    write_hugging_face(tmp_path / "opus", weights="bin")
    fake_hub(monkeypatch, tmp_path / "opus", calls)
    assert Translator.from_preset("hf://org/opus").translate(["a house"])
    assert [call[-1][-1] == "pytorch_model.bin" for call in calls] == [False, True]


def test_without_the_hubs_package_the_command_that_installs_it_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(UserInputError, match=r"huggingface_hub: pip install '.*\[interop\]'"):
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
    with pytest.raises(UserInputError, match="holds files already"):
        import_marian_run(folder, run.path)
