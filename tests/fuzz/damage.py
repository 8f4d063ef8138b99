"""Damage to files, as plain data: drawn by hypothesis, written down in JSON, done again by that."""

import json
import os

import h5py
import numpy as np
from hypothesis import strategies as st

_MOST_ELEMENTS = 1 << 30  # of a dataset that is damaged once more
SHARES = st.floats(0, 1, exclude_max=True)
NUMBERS = [0, -1, 1, 2, 7, 10**9, 2**63, 10**400, -0.0, 1.5, 1e300, float("inf"), float("nan")]
NAMES = ["", "../../x", "/etc/passwd", "\0", "\ud800", "a" * 300, "run.json", "keras"]
SCALARS = st.one_of(
    st.sampled_from([None, True, False]), st.sampled_from(NUMBERS), st.sampled_from(NAMES),
    st.text(max_size=8),
)  # fmt: skip
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner),
    max_leaves=5,
)
BYTES = st.one_of(
    st.fixed_dictionaries({"how": st.just("flip"), "at": SHARES, "bit": st.integers(0, 7)}),
    st.fixed_dictionaries({"how": st.just("cut"), "at": SHARES}),
    st.fixed_dictionaries(
        {"how": st.just("insert"), "at": SHARES, "text": st.text(min_size=1, max_size=6)}
    ),
    st.fixed_dictionaries({"how": st.just("remove bytes"), "at": SHARES, "number": SHARES}),
)
WHOLE = st.one_of(
    st.fixed_dictionaries({"how": st.just("text"), "text": st.text(max_size=30), "times":
                           st.sampled_from([1, 1, 1, 10_000])}),
    st.fixed_dictionaries({"how": st.just("text"), "times": st.just(200_000), "text":
                           st.sampled_from(["[", '{"a":', "1", '"', "\0", "[1,"])}),
    st.sampled_from([{"how": how} for how in ("delete", "directory", "link", "pipe", "empty")]),
)  # fmt: skip
JSON = st.fixed_dictionaries(
    {
        "how": st.just("json"),
        "at": SHARES,
        "do": st.sampled_from(["replace", "replace", "delete", "rename", "add"]),
        "name": st.sampled_from(["format", "kept", "x", "class_name", "from"]),
        "value": VALUES,
    }
)
HDF5_KINDS = (
    "external", "soft link", "external link", "virtual", "compressed", "promise", "nan", "infinite",
    "complex", "text", "object", "scalar", "empty", "other shape", "missing", "cycle", "attributes",
    "deep", "enum", "float64", "int8", "reference",
)  # fmt: skip
HDF5 = st.fixed_dictionaries(
    {"how": st.just("hdf5"), "kind": st.sampled_from(HDF5_KINDS), "at": SHARES}
)


def damages(name):
    """The strategy of damages to a file of this name."""
    if name.endswith(".json"):
        return st.one_of(JSON, JSON, BYTES, WHOLE)
    if name.endswith(".h5"):
        return st.one_of(HDF5, HDF5, BYTES, WHOLE)
    return st.one_of(BYTES, BYTES, WHOLE)


def damage(path, how):
    """Do to a file what one of these strategies drew; FileNotFoundError where it is none."""
    if not path.is_file():  # an earlier damage may have left a pipe, or a device without an end
        raise FileNotFoundError(path)
    kinds = {"json": _damage_json, "hdf5": _damage_hdf5, "text": _write_times}
    kinds |= dict.fromkeys(("delete", "directory", "link", "pipe", "empty"), _replace)
    kinds.get(how["how"], _damage_bytes)(path, how)


def _write_times(path, how):
    path.write_bytes((how["text"] * how["times"]).encode("utf-8", "surrogatepass"))


def _damage_bytes(path, how):
    content = bytearray(path.read_bytes())
    place = int(how["at"] * len(content))
    if how["how"] == "flip" and content:
        content[place] ^= 1 << how["bit"]
    elif how["how"] == "cut":
        del content[place:]
    elif how["how"] == "insert":
        content[place:place] = how["text"].encode("utf-8", "surrogatepass")
    elif how["how"] == "remove bytes":
        del content[place : place + 1 + int(100 * how["number"])]
    path.write_bytes(content)


def _replace(path, how):
    path.unlink()
    if how["how"] == "directory":
        path.mkdir()
    elif how["how"] == "link":
        path.symlink_to("/dev/zero")
    elif how["how"] == "pipe":
        os.mkfifo(path)
    elif how["how"] == "empty":
        path.touch()


def _damage_json(path, how):
    value = json.loads(path.read_bytes())
    places = list(_places(value))
    if not places:
        return
    owner, key = places[int(how["at"] * len(places))]
    if how["do"] == "delete":
        del owner[key]
    elif how["do"] == "rename" and isinstance(owner, dict):
        owner[how["name"]] = owner.pop(key)
    elif how["do"] == "add" and isinstance(owner, dict):
        owner[how["name"]] = how["value"]
    else:
        owner[key] = how["value"]
    path.write_text(json.dumps(value))


def _places(value):
    """Every entry of nested lists and dictionaries: pairs of the owner and a key."""
    owners = [value]
    while owners:
        owner = owners.pop()
        entries = owner.items() if isinstance(owner, dict) else enumerate(owner)
        for key, entry in entries:
            yield owner, key
            if isinstance(entry, (list, dict)):
                owners.append(entry)


def _damage_hdf5(path, how):
    names = []

    def collect(name, item):
        # An earlier damage may have promised more than any memory holds.
        if hasattr(item, "shape") and (item.size or 0) < _MOST_ELEMENTS:
            names.append(name)

    with h5py.File(path, "r+") as file:
        file.visititems(collect)
        name = names[int(how["at"] * len(names))]
        value = np.array(file[name])
        if how["kind"] in ("nan", "infinite"):
            file[name][...] = np.nan if how["kind"] == "nan" else np.inf
            return
        del file[name]
        _write_hostile(file, name, value, how["kind"], path.parent)


def _write_hostile(file, name, value, kind, directory):
    """Put something else in the place of a dataset; files outside are those of the canary."""
    canary = str(directory.parent.parent / "canary")
    types = {"complex": "c8", "float64": "f8", "int8": "i1"}
    if kind in types:
        file[name] = value.astype(types[kind])
    elif kind == "external":
        file.create_dataset(name, value.shape, "f4", external=[(canary, 0, h5py.h5f.UNLIMITED)])
    elif kind == "soft link":
        file[name] = h5py.SoftLink("/")
    elif kind == "external link":
        file[name] = h5py.ExternalLink(canary, "/x")
    elif kind == "virtual":
        layout = h5py.VirtualLayout(value.shape, "f4")
        layout[...] = h5py.VirtualSource(canary, "x", value.shape)
        file.create_virtual_dataset(name, layout)
    elif kind == "compressed":
        file.create_dataset(name, data=np.zeros((1000, 1000), "f4"), compression="gzip")
    elif kind == "promise":
        file.create_dataset(name, (1 << 40, 1 << 20), "f4")
    elif kind == "attributes":
        file[name] = value
        file[name].attrs["dtype"] = np.zeros(3)
        file[name].attrs["name"] = h5py.Empty("f4")
    else:
        _write_odd(file, name, kind)


def _write_odd(file, name, kind):
    odd = {
        "text": "text",
        "scalar": 1.0,
        "empty": h5py.Empty("f4"),
        "other shape": np.ones((2, 3), "f4"),
    }
    if kind in odd:
        file[name] = odd[kind]
    elif kind == "cycle":
        file[name] = file["/"]
    elif kind == "deep":
        file[name + "/a" * 3000] = 1.0
    elif kind == "object":
        file.create_dataset(name, (3,), h5py.vlen_dtype("f4"))
    elif kind == "enum":
        file.create_dataset(name, (3,), h5py.enum_dtype({"a": 1}))
    elif kind == "reference":
        file.create_dataset(name, (3,), h5py.ref_dtype)
