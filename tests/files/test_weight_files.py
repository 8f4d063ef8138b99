"""Files of weights from strangers: what HDF5 could make of them is refused."""

import errno
import os
import struct
import types

import h5py
import numpy as np
import pytest

from keras_transformer.errors import UserInputError
from keras_transformer.runs.weight_files import make_weight_file, open_weights, weight_file
from keras_transformer.training import average_checkpoints

NAME = "layers/a/vars/0"
VALUES = np.arange(6, dtype="float32")


def virtual(file, directory):
    with h5py.File(directory / "other.h5", "w") as other:
        other["x"] = VALUES
    layout = h5py.VirtualLayout((6,), "float32")
    layout[:] = h5py.VirtualSource(str(directory / "other.h5"), "x", (6,))
    file.create_virtual_dataset(NAME, layout)


def external_link(file, directory):
    virtual(file, directory)
    del file[NAME]
    file[NAME] = h5py.ExternalLink(str(directory / "other.h5"), "x")


def soft_link(file, _):
    file["x"] = VALUES
    file[NAME] = h5py.SoftLink("/x")


def group_in_itself(file, _):
    file[NAME] = VALUES
    file["layers/again"] = file["layers"]


def external(file, directory):
    file.create_dataset(NAME, (6,), "float32", external=[(str(directory / "secret"), 0, 24)])


def dataset(**options):
    return lambda file, _: file.create_dataset(NAME, **options)


PAIRS = np.dtype([("a", "f4"), ("b", "i4")])
REFERENCE = np.array([None], h5py.ref_dtype)
HOSTILE = {
    "external": (external, "is kept in another file"),
    "virtual": (virtual, "is kept in another file"),
    "external link": (external_link, "is a link"),
    "soft link": (soft_link, "is a link"),
    "group in itself": (group_in_itself, "is a second name of something"),
    "compressed": (
        dataset(data=np.zeros((1000, 1000), "float32"), compression="gzip"),
        "is compressed",
    ),
    "without its bytes": (
        dataset(shape=(1 << 20, 1 << 20), dtype="float32"),
        "is declared with 4,398,046,511,104 bytes and has fewer",
    ),
    "complex": (dataset(data=np.zeros(6, "complex64")), "is of type complex64"),
    "text": (dataset(data=["text"], dtype=h5py.string_dtype()), "is of type object"),
    "references": (dataset(data=REFERENCE, dtype=h5py.ref_dtype), "is of type object"),
    "pairs": (dataset(data=np.zeros(2, PAIRS)), "is of type"),
    "without a shape": (dataset(data=h5py.Empty("float32")), "is of type float32"),
    "named type": (
        lambda file, _: file.__setitem__(NAME, np.dtype("float32")),
        "is not an array",
    ),
}


@pytest.fixture(params=HOSTILE)
def hostile(request, tmp_path):
    """A hostile file of weights beside a secret, and what its refusal says."""
    (tmp_path / "secret").write_bytes(b"#!/bin/sh\necho a secret\n")
    path = tmp_path / "hostile.weights.h5"
    write, reason = HOSTILE[request.param]
    with h5py.File(path, "w") as file:
        write(file, tmp_path)
    return path, reason


def test_hostile_weights_are_refused(hostile):
    path, reason = hostile
    with (
        pytest.raises(UserInputError, match=f"weights .*hostile.* are refused: .*{reason}"),
        open_weights(path),
    ):
        pass


def test_arrays_in_the_same_bytes_are_refused(tmp_path):
    """A small file could then hold a large model."""
    path = tmp_path / "x.weights.h5"
    with h5py.File(path, "w") as file:
        first, second = (file.create_dataset(f"layers/{n}", data=np.ones(9999)) for n in "ab")
        places = [struct.pack("<Q", each.id.get_offset()) for each in (first, second)]
    content = path.read_bytes()
    assert content.count(places[1]) == 1
    (end,) = struct.unpack("<Q", places[1])
    content = content.replace(places[1], places[0])[:end]
    path.write_bytes(content[:40] + struct.pack("<Q", end) + content[48:])  # its own size
    with h5py.File(path) as file:
        assert file["layers/a"][-1] == file["layers/b"][-1] == 1
    message = "`/layers/b` is in bytes of another array"
    with pytest.raises(UserInputError, match=message), open_weights(path):
        pass


def test_no_average_reads_or_writes_what_they_name(hostile, tmp_path):
    path, _ = hostile
    with pytest.raises(UserInputError, match="are refused"):
        average_checkpoints([path, path], tmp_path / "mean.weights.h5")
    assert (tmp_path / "secret").read_bytes() == b"#!/bin/sh\necho a secret\n"
    assert not (tmp_path / "mean.weights.h5").exists()


@pytest.mark.parametrize("damage", ["no HDF5", "", "\x89HDF\r\n\x1a\n", None])
def test_what_is_no_hdf5_or_a_pipe_is_one_line(tmp_path, damage):
    path = tmp_path / "x.weights.h5"
    path.write_bytes(damage.encode("latin-1")) if damage is not None else os.mkfifo(path)
    message = r"Cannot read the weights .*x.weights.h5"
    with pytest.raises(UserInputError, match=message), open_weights(path):
        pass


def test_a_file_made_in_memory_has_the_same_arrays_and_marks(tmp_path):
    with h5py.File(tmp_path / "old.weights.h5", "w") as file:
        for name, dtype in (("0", "float32"), ("1", "uint32"), ("2", "V2"), ("3", "bool")):
            file[f"layers/a/vars/{name}"] = (
                np.ones(3, "uint16").view("V2") if dtype == "V2" else (np.ones(3, dtype))
            )
        file["layers/a/vars/2"].attrs["dtype"] = "bfloat16"
        file["layers/a/vars"].attrs["name"] = "a"
    with open_weights(tmp_path / "old.weights.h5") as datasets:
        content = make_weight_file((each, each[...]) for each in datasets.values())
        with open_weights("new", content) as made:
            assert made.keys() == datasets.keys()
            for name, dataset in datasets.items():
                assert made[name].dtype == dataset.dtype
                assert made[name][...].tobytes() == dataset[...].tobytes()
            assert made["layers/a/vars/2"].attrs["dtype"] == "bfloat16"
            assert made["layers/a/vars/2"].parent.attrs["name"] == "a"


def test_only_faults_of_the_file_itself_are_reported_as_such(tmp_path, monkeypatch):
    path = tmp_path / "x.weights.h5"
    message = "Cannot read the weights .*x.weights.h5: No such file"
    with pytest.raises(UserInputError, match=message), weight_file(path):
        pass
    path.write_bytes(b"content")
    with pytest.raises(FileNotFoundError, match="other"), weight_file(path):
        raise FileNotFoundError("other")

    def broken(_):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    for name in ("read", "readinto"):
        with weight_file(path) as content:
            file = types.SimpleNamespace(**{name: broken})
            monkeypatch.setattr(content, "_file", file)
            with pytest.raises(UserInputError, match="Cannot read the weights .*x.weights.h5: In"):
                getattr(content, name)(bytearray(4) if name == "readinto" else 4)


def test_a_file_that_changes_between_two_readings_is_refused(tmp_path):
    path = tmp_path / "x.weights.h5"
    with h5py.File(path, "w") as file:
        file[NAME] = VALUES
    with weight_file(path) as content:
        for _ in range(2):
            with open_weights(path, content) as datasets:
                np.testing.assert_array_equal(datasets[NAME], VALUES)
    message = "changed while they were being read"
    with pytest.raises(UserInputError, match=message), weight_file(path) as content:
        path.write_bytes(content.read() + b"more")
