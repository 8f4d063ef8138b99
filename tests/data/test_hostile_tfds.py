"""Damaged and hostile folders of TFDS, read with the library and without it: one line."""

import json
import os
import random
import shutil
import struct
import sys

import pytest

from keras_transformer.data.tfds_text import TfdsPairs
from keras_transformer.data.tfrecords import read_records
from keras_transformer.errors import UserInputError
from tests.tfds_wmt import write_wmt14

pytestmark = pytest.mark.usefixtures("no_garbage_collection")  # brackets are nested deep

NAME = "wmt14_translate/de-en"
PAIRS = [(f"{number} Häuser", f"{number} houses") for number in range(20)]
SHARD = "wmt14_translate-train.tfrecord-00000-of-00001"


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    path = tmp_path_factory.mktemp("tensorflow_datasets")
    write_wmt14(path, "de-en", {"train": PAIRS})
    return path


@pytest.fixture
def data_dir(tmp_path, whole):
    shutil.copytree(whole, tmp_path / "copy")
    return tmp_path / "copy"


@pytest.fixture
def no_tfds(monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorflow_datasets", None)


def read(data_dir):
    return list(TfdsPairs(NAME, "train", "en", "de", data_dir=data_dir, download=False))


def is_refused(data_dir):
    with pytest.raises(UserInputError) as raised:
        read(data_dir)
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 1000
    return True


def folder(data_dir):
    return data_dir / NAME / "1.0.0"


def test_a_flipped_bit_of_the_records_without_the_library(data_dir, no_tfds):
    expected = read(data_dir)
    path = folder(data_dir) / SHARD
    content = path.read_bytes()
    generator = random.Random(1)
    refused = 0
    for _ in range(200):
        damaged = bytearray(content)
        damaged[generator.randrange(len(damaged))] ^= 1 << generator.randrange(8)
        path.write_bytes(damaged)
        try:
            # The checksum of a length is left alone: a flip there changes nothing.
            assert read(data_dir) == expected
        except UserInputError:
            refused += 1
    assert refused > 150


def test_a_flipped_bit_of_the_records_with_the_library(data_dir):
    path = folder(data_dir) / SHARD
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(UserInputError, match="is damaged: .*Prepare it again"):
        read(data_dir)


@pytest.mark.parametrize(
    "damage",
    [
        b"",
        struct.pack("<Q", 1 << 63) + bytes(8),
        struct.pack("<Q", 1 << 40) + bytes(8),
        b"\xff" * 100,
        b"\0" * 16,
    ],
)
def test_records_that_are_none(data_dir, no_tfds, damage):
    (folder(data_dir) / SHARD).write_bytes(damage)
    assert is_refused(data_dir)


def test_fewer_pairs_than_tfds_recorded(data_dir):
    """With the library, to which an empty file is one without records."""
    (folder(data_dir) / SHARD).write_bytes(b"")
    with pytest.raises(UserInputError, match="it must hold 20 pairs. Received: 0. Prepare it"):
        read(data_dir)


def test_a_pipe_or_no_file_for_the_records(data_dir, no_tfds):
    path = folder(data_dir) / SHARD
    path.unlink()
    assert is_refused(data_dir)
    os.mkfifo(path)
    assert is_refused(data_dir)


def change(data_dir, **values):
    path = folder(data_dir) / "dataset_info.json"
    info = json.loads(path.read_text())
    info["splits"][0].update(values)
    path.write_text(json.dumps(info))


@pytest.mark.parametrize(
    "values",
    [
        {"shardLengths": None},
        {"shardLengths": ["x"]},
        {"shardLengths": ["9" * 5000]},
        {"shardLengths": ["19"]},
        {"shardLengths": [-1]},
        {"shardLengths": ["20"] * 2},
        {"numBytes": {}},
        {"name": 5},
        {"filepathTemplate": "{DATASET.__class__}"},
        {"filepathTemplate": "{DATASET:>9999999999}"},
        {"filepathTemplate": "../{DATASET}"},
        {"filepathTemplate": "/etc/passwd"},
        {"filepathTemplate": "a\0b"},
        {"filepathTemplate": ".."},
        {"filepathTemplate": "x" * 100_000},
    ],
)
def test_a_description_of_other_values(data_dir, no_tfds, values):
    change(data_dir, **values)
    assert is_refused(data_dir)


@pytest.mark.parametrize("name", ["dataset_info.json", "features.json"])
@pytest.mark.parametrize("content", [b"", b"[]", b"[" * 200_000, b"\xff", b'{"splits": 1}'])
@pytest.mark.parametrize("library", [False, True])
def test_a_description_of_another_form(data_dir, monkeypatch, name, content, library):
    if not library:
        monkeypatch.setitem(sys.modules, "tensorflow_datasets", None)
    elif name == "features.json":
        pytest.skip("the library knows the features of its own data sets")
    (folder(data_dir) / name).write_bytes(content)
    assert is_refused(data_dir)


def test_folders_with_other_names_are_no_versions(data_dir, no_tfds):
    other = data_dir / NAME / "a.b.c"
    other.mkdir()
    (other / "dataset_info.json").write_text("{}")
    assert len(read(data_dir)) == 20


def test_checksums_are_those_of_tensorflow(tmp_path):
    import tensorflow as tf

    generator = random.Random(1)
    records = [generator.randbytes(length) for length in (0, 1, 2, 5, 300, 70_000, 3)]
    with tf.io.TFRecordWriter(str(tmp_path / "records")) as writer:
        for record in records:
            writer.write(record)
    assert list(read_records(tmp_path / "records", 7)) == records
