"""JSON from strangers: a value, or one line that says what is wrong."""

import os

import msgspec
import pytest

from keras_transformer.errors import UserInputError
from keras_transformer.input_files import MOST_BYTES, read_json, read_record

pytestmark = pytest.mark.usefixtures("no_garbage_collection")  # brackets are nested deep


class Place(msgspec.Struct):
    name: str
    number: int


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b'{"name": "x"}', "missing required field `number`"),
        (b'{"name": "x", "number": "1"}', "Expected `int`, got `str` - at `$.number`"),
        (b'{"name": "x", "number": NaN}', "Expected `int`, got `float`"),
        (b'{"name": "x", "number": 1e999}', "Expected `int`, got `float`"),
        (b'{"name": null, "number": 1}', "Expected `str`, got `null`"),
        (b'["name", 1]', "Expected `object`, got `array`"),
        (b"null", "Expected `object`, got `null`"),
        (b"", "it is not JSON"),
        (b'{"name": "x", "number"', "it is not JSON"),
        (b"\xff\xfe", "it is not JSON"),
        (b'{"name": "x", "number": ' + b"9" * 5000 + b"}", "it is not JSON"),
        (rb'{"name": "\ud800", "number": 1}', "surrogates not allowed"),
        (b"[" * 200_000, "brackets are nested too deep"),
        (b"[" + b"[],{}," * 200_000 + b"0]", "it has more than 750,000 values"),
        (b'{"name":' * 200_000, "brackets are nested too deep"),
    ],
)
def test_what_is_no_record_is_one_line(tmp_path, content, reason):
    path = tmp_path / "place.json"
    path.write_bytes(content)
    with pytest.raises(UserInputError) as error:
        read_record(path, Place, "Copy it anew.")
    message = str(error.value)
    assert message.startswith(f"{path} is damaged: ")
    assert reason in message
    assert message.endswith("Copy it anew.")
    assert len(message.splitlines()) == 1


def test_a_record_is_read_and_what_it_has_besides_passed_over(tmp_path):
    path = tmp_path / "place.json"
    path.write_text('{"name": "größer", "number": 2, "more": [1, {"x": null}]}', encoding="utf-8")
    assert read_record(path, Place) == Place("größer", 2)


def test_what_is_no_small_ordinary_file_is_one_line(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with open(tmp_path / "large", "wb") as file:
        file.truncate(MOST_BYTES + 1)
    for path, reason in [
        (tmp_path / "missing", "No such file"),
        (tmp_path, "not a regular file"),
        (tmp_path / "pipe", "not a regular file"),
        ("/dev/zero", "not a regular file"),
        (tmp_path / "large", "must have at most 16 MB"),
    ]:
        with pytest.raises(UserInputError, match=reason):
            read_json(path)
