"""Files of tensors from strangers: the three formats agree, and what is hostile is refused."""

import contextlib
import json
import os
import pickle
import random
import struct
import sys
import tracemalloc
import zipfile
from functools import partial

import numpy as np
import pytest

from keras_transformer.errors import UserInputError
from keras_transformer.runs import tensor_files
from keras_transformer.runs.tensor_files import open_tensors
from tests.files.torch_archives import (
    ORDERED_DICT,
    PARAMETER,
    REBUILD,
    Call,
    Storage,
    pickled,
    tensor,
    torch_file,
    write_torch,
)

ARRAYS = {
    "matrix": np.arange(6, dtype="float32").reshape(2, 3),
    "special:model.yml": np.frombuffer(b"dim-emb: 4", "int8"),
    "ids": np.array([[1, -2]], "int64"),
    "mask": np.array([True, False, True]),
    "scalar": np.array(7, "int32"),
    "nothing": np.zeros((0, 4), "float32"),
}
SAFETENSORS = {"float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16"}
SAFETENSORS |= {"int64": "I64", "int32": "I32", "int16": "I16", "int8": "I8", "uint8": "U8"}
SAFETENSORS |= {"bool": "BOOL", "complex64": "C64"}


def safetensors_file(path, arrays, dtypes=None, **changes):
    header, content = {}, b""
    for name, array in arrays.items():
        dtype = SAFETENSORS[(dtypes or {}).get(name, array.dtype.name)]
        place = [len(content), len(content) + array.nbytes]
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": place} | changes
        content += array.tobytes()
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + content)
    return path


def npz_file(path, arrays):
    np.savez(path, **arrays)
    return path


WRITERS = {
    "model.safetensors": safetensors_file,
    "pytorch_model.bin": torch_file,
    "model.npz": npz_file,
}


def write(directory, name, arrays=ARRAYS):
    if name.endswith("safetensors"):
        pytest.importorskip("safetensors")
    return WRITERS[name](directory / name, arrays)


def read_all(path):
    with open_tensors(path) as tensors:
        arrays = {name: tensors.read(name) for name in tensors.names}
        for name, array in arrays.items():
            assert array.shape == tensors.shape(name)
            assert array.flags.c_contiguous
            assert array.flags.owndata
            assert array.flags.writeable
    return arrays


@contextlib.contextmanager
def memory_below(most):
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < most
    finally:
        tracemalloc.stop()


def refusal(path, most_memory=100_000_000):
    with memory_below(most_memory), pytest.raises(UserInputError) as refused:
        read_all(path)
    message = str(refused.value)
    assert message.isprintable()
    assert path.name in message
    return message


def survives(path):
    """Damage may lie in the numbers, where nothing tells it; all else is refused."""
    message = ""
    try:
        read_all(path)
    except UserInputError as error:
        message = str(error)
    assert message.isprintable()


@pytest.mark.parametrize("name", WRITERS)
def test_every_format_gives_the_same_arrays(tmp_path, name):
    path = write(tmp_path, name)
    found = read_all(path)
    assert found.keys() == ARRAYS.keys()
    for key, array in ARRAYS.items():
        assert found[key].dtype == array.dtype
        np.testing.assert_array_equal(found[key], array)
    with open_tensors(path) as tensors:
        assert tensors.path == path
        assert tensors.dtype("ids") == "int64"


@pytest.mark.parametrize("name", ["model.safetensors", "pytorch_model.bin"])
def test_all_floats_become_float32(tmp_path, name):
    values = np.array([[1.5, -0.25], [3e38, np.inf]])
    halves = values.astype("float32").view("uint32") >> 16
    with np.errstate(over="ignore"):
        arrays = {"d": values, "h": values.astype("float16"), "b": halves.astype("uint16")}
    pytest.importorskip("safetensors")
    path = WRITERS[name](tmp_path / name, arrays, {"b": "bfloat16"})
    with open_tensors(path) as tensors:
        assert [tensors.dtype(key) for key in "dhb"] == ["float64", "float16", "bfloat16"]
    found = read_all(path)
    assert {array.dtype.name for array in found.values()} == {"float32"}
    np.testing.assert_array_equal(found["d"], values.astype("float32"))
    np.testing.assert_array_equal(found["h"], arrays["h"].astype("float32"))
    np.testing.assert_array_equal(found["b"], (halves << 16).view("float32"))


def test_arrays_of_numpy_in_other_byte_orders_and_by_columns(tmp_path):
    arrays = {"big": np.arange(3, dtype=">f4"), "columns": np.arange(6.0).reshape(2, 3).T}
    arrays["half"] = np.asfortranarray(np.ones((2, 2), ">f2"))
    for key, array in read_all(npz_file(tmp_path / "model.npz", arrays)).items():
        assert array.dtype == np.dtype("float32")
        np.testing.assert_array_equal(array, arrays[key])


@pytest.mark.parametrize("name", WRITERS)
def test_shapes_are_known_and_tensors_read_one_by_one(tmp_path, name):
    arrays = {f"t{index}": np.ones((250, 1000), "float32") for index in range(8)}
    path = write(tmp_path, name, arrays)
    with memory_below(2_500_000), open_tensors(path) as tensors:
        assert [tensors.shape(key) for key in tensors.names] == [(250, 1000)] * 8
        assert tracemalloc.get_traced_memory()[1] < 500_000
        for key in tensors.names:
            tensors.read(key)


@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_views_of_a_shared_storage(tmp_path, protocol):
    values = np.arange(24, dtype="float32")
    storage = Storage("float32", "0", 24)
    state = {
        "whole": tensor(storage, 0, (4, 6), (6, 1)),
        "transposed": tensor(storage, 0, (6, 4), (1, 6)),
        "part": tensor(storage, 8, (2, 2), (12, 3)),
        "last": tensor(storage, 23, (1, 1), (99, 7)),
        "none": tensor(storage, 24, (0, 3), (3, 1)),
        "parameter": Call(
            PARAMETER, (tensor(storage, 1, (2,), (1,)), True, Call(ORDERED_DICT, ()))
        ),
    }
    path = write_torch(tmp_path / "m.bin", pickled(state, protocol), {"0": values.tobytes()}, None)
    found = read_all(path)
    matrix = values.reshape(4, 6)
    np.testing.assert_array_equal(found["whole"], matrix)
    np.testing.assert_array_equal(found["transposed"], matrix.T)
    np.testing.assert_array_equal(found["part"], [[8, 11], [20, 23]])
    np.testing.assert_array_equal(found["last"], [[23]])
    assert found["none"].shape == (0, 3)
    np.testing.assert_array_equal(found["parameter"], [1, 2])


def test_a_state_dict_with_its_attributes_in_big_endian(tmp_path):
    items = {"w": tensor(Storage("float32", "0", 2), 0, (2,), (1,))}
    metadata = {"_metadata": Call(ORDERED_DICT, (), {"": {"version": 1}})}
    body = pickled(Call(ORDERED_DICT, (), metadata))
    content = body[:-1] + b"(" + pickled("w")[2:-1] + pickled(items["w"])[2:-1] + b"u."
    data = np.array([1, 2], ">f4").tobytes()
    found = read_all(write_torch(tmp_path / "m.bin", content, {"0": data}, b"big"))
    np.testing.assert_array_equal(found["w"], [1, 2])


def test_what_pytorch_writes(tmp_path):
    torch = pytest.importorskip("torch")
    path = tmp_path / "m.bin"
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
    state = model.state_dict() | {"half": torch.ones(2, 3).bfloat16().T, "mask": torch.ones(1) > 0}
    torch.save(state, path)
    found = read_all(path)
    assert found.keys() == state.keys()
    for name, value in state.items():
        expected = value.float() if value.is_floating_point() else value
        np.testing.assert_array_equal(found[name], expected.numpy())
    torch.save(state, path, _use_new_zipfile_serialization=False)
    assert "PyTorch before 1.6" in refusal(path)


def test_files_before_pytorch_1_6_are_refused_with_a_way_to_convert_them(tmp_path):
    (tmp_path / "m.bin").write_bytes(pickle.dumps(0x1950A86A20F9469CFC6C, 2) + pickled({}))
    assert refusal(tmp_path / "m.bin") == (
        f"The file {tmp_path / 'm.bin'} has the format of PyTorch before 1.6. Convert it with "
        "PyTorch: torch.save(torch.load(path, weights_only=True), path)"
    )


def text(value):
    return b"X" + struct.pack("<I", len(value)) + value.encode()


def calling(module, name, argument):
    return b"\x80\x02c%b\n%b\n" % (module, name) + text(argument) + b"\x85R."


ONE = Storage("float32", "0", 1)
TENSOR = pickled(tensor(ONE, 0, (1,), (1,)))[2:-1]
PERSISTENT = b"(X\x07\0\0\0storage%bX\x01\0\0\0" + b"0X\x03\0\0\0cpuK\x01tQ"
CALL = calling(b"os", b"system", "touch harm")[2:-1]
RUNNING = {
    "os.system": calling(b"os", b"system", "touch harm"),
    "posix.system": calling(b"posix", b"system", "touch harm"),
    "builtins.eval": calling(b"builtins", b"eval", "open('harm', 'w').close()"),
    "STACK_GLOBAL": b"\x80\x04\x8c\x02os\x8c\x06system\x93" + text("touch harm") + b"\x85R.",
    "INST": b"(" + text("touch harm") + b"ios\nsystem\n.",
    "OBJ": b"(cos\nsystem\n" + text("touch harm") + b"o.",
    "in a dict": b"}" + text("w") + CALL + b"s.",
    "as arguments": b"ccollections\nOrderedDict\n" + CALL + b"\x85R.",
}
OPERATION = "an operation that tensors do not need"
HOSTILE = {
    "torch.load": (calling(b"torch", b"load", "harm"), "asks for torch.load"),
    "getattr": (calling(b"builtins", b"getattr", "x"), "asks for builtins.getattr"),
    "attribute": (b"ccollections\nOrderedDict.__init__\n.", "OrderedDict.__init__"),
    "OrderedDict of items": (b"ccollections\nOrderedDict\n}\x85R.", "takes 0 positional"),
    "a global of no text": (b"K\x01K\x02\x93.", "STACK_GLOBAL requires str"),
    "REDUCE on a str": (text("os.system") + text("x") + b"\x85R.", "not callable"),
    "REDUCE on a storage type": (b"ctorch\nFloatStorage\n)R.", "not callable"),
    "NEWOBJ": (b"ccollections\nOrderedDict\n)\x81.", OPERATION),
    "EXT1": (b"\x82\x01.", OPERATION),
    "BUILD of a tensor": (TENSOR + b"}" + text("__dict__") + b"}sb.", "sets attributes"),
    "BUILD of a function": (b"ccollections\nOrderedDict\n}b.", "sets attributes"),
    "PERSID": (b"P1\n.", OPERATION),
    "nested persistent ids": (
        PERSISTENT % (PERSISTENT % b"ctorch\nFloatStorage\n") + b".",
        "malformed storage",
    ),
    "a storage of a bool": (pickled(ONE._replace(size=True)), ">= 0"),
    "a storage of -1": (pickled(ONE._replace(size=-1)), ">= 0"),
    "a storage of no type": (PERSISTENT % b"K\x01" + b".", "malformed storage"),
    "a tensor of no storage": (pickled(tensor({}, 0, (1,), (1,))), "no storage"),
    "a parameter of no tensor": (pickled(Call(PARAMETER, ({}, True, {}))), "no tensor"),
    "too few arguments": (pickled(Call(REBUILD, (ONE,))), "missing 3 required"),
    "a float as offset": (pickled(tensor(ONE, 0.0, (1,), (1,))), ">= 0"),
    "a large integer": (pickled(tensor(ONE, 1 << 900, (1,), (1,))), ">= 0"),
    "an axis without stride": (pickled(tensor(ONE, 0, (1, 1), (1,))), "one stride per axis"),
    "a shape of no tuple": (pickled(tensor(ONE, 0, {}, (1,))), "not a tuple"),
    "a number": (pickled(1), "must be a dict of tensors"),
    "a tensor alone": (TENSOR + b".", "must be a dict of tensors"),
    "a dict in the dict": (pickled({"model": {}}), "`model` is of type dict"),
    "a number in the dict": (pickled({"step": 3}), "`step` is of type int"),
    "a dict in itself": (b"}q\x00" + text("w") + b"h\x00s.", "`w` is of type dict"),
    "a number as name": (pickled({1: 2}), "not a string"),
    "a name with a line break": (pickled({"a\n\x1b[2J": 3}), "`a  [2J` is of type int"),
    "an odd number of items": (b"}(" + text("w") + b"u.", "shorter"),
    "items of a string": (text("w") * 3 + b"s.", "other than a dict"),
    "an empty stack": (b"\x86.", "not readable"),
    "no mark": (b"t.", "not readable"),
    "an unknown memo": (b"h\x07.", "not readable"),
    "no end": (b"}", "EOFError"),
    "an unknown operation": (b"\xff.", OPERATION),
    # Bombs: none may take time or memory.
    "deep nesting": (b")" + b"\x85" * 200_000 + b".", "must be a dict"),
    "repeated doubling": (
        b"})" + b"".join(b"q%ch%c\x86" % (i, i) for i in range(200)) + b"Ns.",
        "not a string",
    ),
    "a far memo index": (b"}r\xff\xff\xff\xff\x86.", "not readable"),
    "a long string": (b"X\xff\xff\xff\xff.", "not readable"),
    "long bytes": (b"\x8e" + b"\xff" * 7 + b"\x7f}.", OPERATION),
}


@pytest.mark.parametrize("name", RUNNING)
def test_code_in_a_pickle_does_not_run(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    message = refusal(write_torch(tmp_path / "m.bin", RUNNING[name], {"0": bytes(4)}))
    assert "which is refused" in message or OPERATION in message
    assert not os.path.exists("harm")
    with contextlib.suppress(TypeError):  # of the function that gets the result
        pickle.loads(RUNNING[name])
    assert os.path.exists("harm"), "the test's own pickle is harmless"


def test_a_long_pickle_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(tensor_files, "MOST_PICKLE_BYTES", 100)
    assert "201 bytes" in refusal(write_torch(tmp_path / "m.bin", b"N" * 200 + b"."))


HUGE = 1 << 40
VIEWS = {
    "too long": (4, 0, (5,), (1,)),
    "an offset": (4, 1, (4,), (1,)),
    "a far offset": (4, HUGE, (1,), (1,)),
    "a stride": (4, 0, (2, 2), (3, 1)),
    "a far stride": (4, 0, (2,), (HUGE,)),
    "repeated": (4, 0, (HUGE,), (0,)),
    "windows": (4, 0, (2, 3), (1, 1)),
    "a huge shape": (4, 0, (HUGE, HUGE, HUGE), (1, 1, 1)),
    "a huge shape of nothing": (4, 0, (0, HUGE, HUGE), (1, 1, 1)),
    "many axes": (4, 0, (1,) * 99, (1,) * 99),
    "a declared storage": (HUGE, 0, (HUGE,), (1,)),
    "a storage longer by one": (5, 0, (4,), (1,)),
    "nothing far away": (4, HUGE, (0,), (1,)),
}


def write_view(path, size, *view):
    content = pickled({"w": tensor(Storage("float32", "0", size), *view)})
    write_torch(path, content, {"0": bytes(16), "1": bytes(100)})


def with_entry(path, name, content):
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(name, content)


def torch_and(name):
    """A function that writes a file of PyTorch with another entry."""
    return lambda path: with_entry(write_torch(path, pickled({})), name, pickled({}))


ONE_TENSOR = pickled({"w": tensor(ONE, 0, (1,), (1,))})
MEMBERS = {
    f"({HUGE},)": "room for 4",
    f"({HUGE}, {HUGE})": "impossible shape",
    f"({HUGE}, 0, {HUGE})": "impossible shape",
    "(-1, -4)": "impossible shape",
    "(3,)": "does not have the length of its shape",
    "(5,)": "5 elements and room for 4",
    "(4.0,)": "has a damaged header",
    "(" * 300 + ")" * 300: "",
    "__import__('os').system('touch harm')": "",
    "(1 if 2else 3,)": "",
}
NO_NUMBERS = [np.array([{}]), np.array(["text"]), np.zeros(2, "f4,i4"), np.zeros(2, "complex64")]


def member(path, name="w.npy", shape="(1,)", data=bytes(4), version=(1, 0)):
    """An array of an archive, whose header declares what it likes."""
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    head = b"\x93NUMPY" + bytes(version) + struct.pack("<H", len(header))
    with_entry(path, name, head + header + data)
    return path


# What writes each file, and what its refusal says.
MALFORMED = {
    **{
        f"{name}.bin": (partial(write_torch, content=content, storages={"0": bytes(4)}), reason)
        for name, (content, reason) in HOSTILE.items()
    },
    **{
        f"{name}.bin": (lambda path, view=view: write_view(path, *view), "the tensor `w`")
        for name, view in VIEWS.items()
    },
    "two pickles.bin": (torch_and("other/data.pkl"), "2 entries data.pkl"),
    "no pickle.bin": (partial(with_entry, name="model/data/0", content=b""), "0 entries data.pkl"),
    "names twice.bin": (torch_and("model/data.pkl"), "occurs twice"),
    "no storage.bin": (partial(write_torch, content=ONE_TENSOR), "a storage that is missing"),
    "compressed.bin": (
        partial(write_torch, content=pickled({}), compression=zipfile.ZIP_DEFLATED),
        "is compressed",
    ),
    "a byte order.bin": (
        partial(write_torch, content=pickled({}), byte_order=b"middle"),
        "middle",
    ),
    "no archive.bin": (lambda path: path.write_bytes(b"text" * 99), "not a zip file"),
    **{
        f"{number}.npz": (partial(member, shape=shape, data=bytes(16)), reason)
        for number, (shape, reason) in enumerate(MEMBERS.items())
    },
    **{
        f"{array.dtype.name}.npz": (
            partial(npz_file, arrays={"w": array}),
            f"the tensor `w` is of type {array.dtype.name}",
        )
        for array in NO_NUMBERS
    },
    "compressed.npz": (lambda path: np.savez_compressed(path, w=np.zeros(9999)), "is compressed"),
    "twice.npz": (lambda path: member(member(path), name="w"), "occurs twice"),
    "version.npz": (partial(member, version=(2, 0)), "header of version (2, 0)"),
}


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_file_is_refused(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    write_file, reason = MALFORMED[name]
    write_file(tmp_path / name)
    is_view = name.removesuffix(".bin") in VIEWS
    assert reason in refusal(tmp_path / name, 1_000_000 if is_view else 100_000_000)
    assert not os.path.exists("harm")


def test_a_damaged_number_of_an_archive_is_refused(tmp_path):
    path = write(tmp_path, "model.npz", {"w": np.full(4, 0.1, "float32")})
    content = path.read_bytes()
    path.write_bytes(content.replace(np.full(1, 0.1, "f4").tobytes(), b"abcd", 1))
    assert "The tensor `w`" in refusal(path)
    assert "checksum" in refusal(path)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"dtype": "C64", "data_offsets": [0, 32]}, ""),
        ({"dtype": "F9"}, ""),
        ({"dtype": 3}, ""),
        ({"shape": [5]}, ""),
        ({"shape": [HUGE, HUGE, HUGE]}, ""),
        ({"shape": [0, HUGE, HUGE], "data_offsets": [0, 0]}, ""),
        ({"shape": [-4]}, ""),
        ({"shape": None}, ""),
        ({"data_offsets": [0, 8]}, ""),
        ({"data_offsets": [16, 32]}, ""),
        ({"data_offsets": [16, 0]}, ""),
        ({"data_offsets": [0, HUGE], "shape": [HUGE // 4]}, ""),
        # The axes are counted before anything else is done with them.
        ({"shape": [4, *[1] * 100_000]}, "100,001 axes, more than 32"),
    ],
)
def test_a_malformed_header_of_safetensors_is_refused(tmp_path, changes, reason):
    pytest.importorskip("safetensors")
    path = safetensors_file(tmp_path / "m.safetensors", {"w": np.zeros(4, "float32")}, **changes)
    assert reason in refusal(path, most_memory=20_000_000 if reason else 1_000_000)


def test_safetensors_that_is_not_installed_is_named(tmp_path, monkeypatch):
    path = safetensors_file(tmp_path / "m.safetensors", ARRAYS)
    monkeypatch.setitem(sys.modules, "safetensors", None)
    assert "[interop]'" in refusal(path)


@pytest.mark.parametrize("name", WRITERS)
def test_what_is_no_file_is_refused(tmp_path, name):
    pytest.importorskip("safetensors")
    path = tmp_path / name
    assert "No such file" in refusal(path)
    path.mkdir()
    assert "not a regular file" in refusal(path)
    path.rmdir()
    os.mkfifo(path)
    assert "not a regular file" in refusal(path)
    path.unlink()
    path.touch()
    refusal(path)


def test_another_name_of_a_file_or_tensor_is_refused(tmp_path):
    path = torch_file(tmp_path / "model.txt", ARRAYS)
    assert "`path` must end in .safetensors, .bin, .npz. Received: " in refusal(path)
    path = torch_file(tmp_path / "model.bin", ARRAYS)
    with open_tensors(path) as tensors:
        for find in (tensors.shape, tensors.dtype, tensors.read):
            with pytest.raises(UserInputError, match="model.bin lacks the tensor weights"):
                find("weights")
        with pytest.raises(KeyError):  # what goes wrong outside is not the file's fault
            {}["x"]


def test_too_many_tensors_are_refused(tmp_path, monkeypatch):
    pytest.importorskip("safetensors")
    monkeypatch.setattr(tensor_files, "MOST_TENSORS", 5)
    for name in WRITERS:
        assert "more than 5" in refusal(write(tmp_path, name))


@pytest.mark.parametrize("name", WRITERS)
def test_a_file_that_shrinks_while_it_is_open_is_reported(tmp_path, name):
    path = write(tmp_path, name, {"w": np.ones(100_000, "float32")})
    with open_tensors(path) as tensors:
        os.truncate(path, 1000)
        with pytest.raises(UserInputError, match="The tensor `w` of .* ends early"):
            tensors.read("w")


@pytest.mark.parametrize("name", WRITERS)
def test_a_cut_file_is_refused(tmp_path, name):
    path = write(tmp_path, name)
    content = path.read_bytes()
    for length in range(0, len(content), max(len(content) // 150, 1)):
        path.write_bytes(content[:length])
        refusal(path)


def flipped(content, seed, flips):
    generator = random.Random(seed)
    for _ in range(250):
        damaged = bytearray(content)
        for _ in range(generator.choice(flips)):
            damaged[generator.randrange(len(content))] ^= 1 << generator.randrange(8)
        yield bytes(damaged)


@pytest.mark.parametrize("name", WRITERS)
def test_flipped_bits_never_surprise(tmp_path, name, random_seed):
    path = write(tmp_path, name)
    for damaged in flipped(path.read_bytes(), random_seed, flips=(1, 1, 4)):
        path.write_bytes(damaged)
        survives(path)


def test_flipped_bits_of_a_pickle_never_surprise(tmp_path, random_seed):
    storage = Storage("float32", "0", 24)
    content = pickled({"w": tensor(storage, 2, (3, 4), (1, 3)), "b": tensor(ONE, 0, (1,), (1,))})
    for damaged in flipped(content, random_seed, flips=(1,)):
        survives(write_torch(tmp_path / "m.bin", damaged, {"0": bytes(96)}))
