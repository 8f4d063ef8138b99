"""Damaged folders of TFDS: one line."""

import shutil
import struct

import pytest

from keras_transformer.data.tfds_text import TfdsPairs
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


def test_a_flipped_bit_of_the_records(data_dir):
    path = folder(data_dir) / SHARD
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(UserInputError, match="is damaged: .*Prepare it again"):
        read(data_dir)


@pytest.mark.parametrize("damage", [struct.pack("<Q", 1 << 40) + bytes(8), b"\xff" * 100])
def test_records_that_are_none(data_dir, damage):
    (folder(data_dir) / SHARD).write_bytes(damage)
    assert is_refused(data_dir)


def test_fewer_pairs_than_tfds_recorded(data_dir):
    (folder(data_dir) / SHARD).write_bytes(b"")
    with pytest.raises(UserInputError, match="contained only 0 elements.*Prepare it again"):
        read(data_dir)


def test_no_file_for_the_records(data_dir):
    (folder(data_dir) / SHARD).unlink()
    assert is_refused(data_dir)


def test_a_damaged_file_of_the_other_format(tmp_path):
    write_wmt14(tmp_path, "de-en", {"train": PAIRS}, file_format="array_record")
    (path,) = tmp_path.rglob("*-train.array_record-*")
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    for broken in (bytes(content), content[:100]):
        path.write_bytes(broken)
        assert is_refused(tmp_path)


@pytest.mark.parametrize("content", [b"", b"[]", b"[" * 200_000, b"\xff", b'{"splits": 1}'])
def test_a_description_of_another_form(data_dir, content):
    (folder(data_dir) / "dataset_info.json").write_bytes(content)
    assert is_refused(data_dir)
