"""Prepared corpora that are damaged or made by somebody else: one line, never other text."""

import hashlib
import json
import os
import pathlib
import random

import numpy as np
import pytest

from keras_transformer.data import SentencePairs, prepare_corpus
from keras_transformer.errors import UserInputError
from tests.data.corpora import LetterTokenizer

pytestmark = pytest.mark.usefixtures("no_garbage_collection")  # brackets are nested deep

METADATA = "corpus.json"


@pytest.fixture
def directory(tmp_path):
    prepare(tmp_path)
    (directory,) = tmp_path.iterdir()
    return directory


def prepare(cache_directory):
    text = SentencePairs(["a", "bc", "def"], ["xyz", "vw", "u"])
    return prepare_corpus(text, LetterTokenizer(), cache_directory, keep_text=True)


def is_refused(directory):
    with pytest.raises(UserInputError) as raised:
        prepare(directory.parent)
    message = str(raised.value)
    assert "\n" not in message
    assert f"Delete {directory} to prepare it again." in message
    return True


def test_a_flipped_bit_anywhere(directory):
    generator = random.Random(1)
    for path in directory.glob("*.bin"):
        whole = path.read_bytes()
        for _ in range(20):
            damaged = bytearray(whole)
            damaged[generator.randrange(len(damaged))] ^= 1 << generator.randrange(8)
            path.write_bytes(damaged)
            assert is_refused(directory)
        path.write_bytes(whole)
    assert len(prepare(directory.parent)) == 3


def test_flipped_bits_in_the_metadata_are_refused_or_do_not_matter(directory):
    generator = random.Random(1)
    path = directory / METADATA
    whole = path.read_bytes()
    expected = prepare(directory.parent)
    for _ in range(300):
        damaged = bytearray(whole)
        damaged[generator.randrange(len(damaged))] ^= 1 << generator.randrange(8)
        path.write_bytes(damaged)
        try:
            corpus = prepare(directory.parent)
        except UserInputError as error:
            assert "\n" not in str(error)  # noqa: PT017 - most are refused, not all
            continue
        np.testing.assert_array_equal(corpus.source_ids, expected.source_ids)
        assert corpus.fingerprint == expected.fingerprint


def change(directory, **values):
    path = directory / METADATA
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


@pytest.mark.parametrize(
    "values",
    [
        {"format_version": 0},
        {"format_version": "3"},
        {"format_version": None},
        {"pairs": "3"},
        {"pairs": 10**400},
        {"pairs": -1},
        {"pairs": 2},
        {"pairs": float("nan")},
        {"keep_text": 1},
        {"dropped": []},
        {"dropped": {"unheard": 1}},
        {"vocabulary_size": 1},
        {"vocabulary_size": 10**9},
        {"content": "other"},
        {"tokenizer_fingerprint": None},
        {"checksums": []},
        {"checksums": {}},
        {"checksums": None},
    ],
)
def test_metadata_of_other_values(directory, values):
    change(directory, **values)
    assert is_refused(directory)


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b"null", b"{}", b"[" * 200_000, b"\xff\xfe", b'{"pairs": 1' + b"0" * 5000],
)
def test_metadata_of_another_form(directory, content):
    (directory / METADATA).write_bytes(content)
    assert is_refused(directory)


@pytest.mark.parametrize(
    ("name", "dtype", "values"),
    [
        ("source_ids", "<i4", [97, 98, 99, 100, 101, 128]),
        ("target_ids", "<i4", [-1] * 6),
        ("source_ids_offsets", "<i8", [0, 4, 2, 6]),
        ("source_ids_offsets", "<i8", [0, -(1 << 60), 3, 6]),
        ("target_ids_offsets", "<i8", [0, 1 << 60, 5, 6]),
        ("target_text_offsets", "<i8", [1, 3, 5, 6]),
        ("target_text_offsets", "<i8", [0, 3, 6]),
        ("line_numbers", "<i8", [1, 2, 3, 4]),
    ],
)
def test_arrays_that_somebody_made_with_their_checksums(directory, name, dtype, values):
    path = directory / f"{name}.bin"
    path.write_bytes(np.array(values, dtype).tobytes())
    checksums = json.loads((directory / METADATA).read_text())["checksums"]
    checksums[path.name] = hashlib.sha256(path.read_bytes()).hexdigest()
    change(directory, checksums=checksums)
    assert is_refused(directory)


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, pathlib.Path.touch, None])
@pytest.mark.parametrize("name", ["source_ids.bin", "line_numbers.bin", "target_text_offsets.bin"])
def test_files_that_are_none(directory, name, make):
    (directory / name).unlink()
    if make:
        make(directory / name)
    assert is_refused(directory)
