"""Files of strangers that grow: no reader takes more than twice the file and thrice the weights."""

import contextlib
import ctypes
import gc
import json
import math
import struct
import zipfile

import h5py
import keras
import numpy as np
import pytest

from keras_transformer.errors import UserInputError
from keras_transformer.evaluation.figures import RunCurves
from keras_transformer.export import export_ctranslate2
from keras_transformer.formats.ctranslate2.model_file import open_ctranslate2
from keras_transformer.formats.marian.configurations import read_yaml
from keras_transformer.formats.marian.vocabulary import read_bpe, read_vocabulary
from keras_transformer.formats.preset_files import preset_folder
from keras_transformer.input_files import open_archive, read_array, read_json, write_archive
from keras_transformer.interop import import_ctranslate2, import_marian
from keras_transformer.models import build_transformer
from keras_transformer.runs.model_weights import (
    load_safetensors,
    load_weights,
    save_adapters,
    save_safetensors,
    save_weights,
)
from keras_transformer.runs.tensor_files import open_tensors
from keras_transformer.runs.weight_files import open_weights
from keras_transformer.text import SentencePieceTokenizer, Shortlist
from keras_transformer.text.sentencepiece_model import bytes_field
from keras_transformer.training import enable_lora
from tests.figures.logged_run import METRICS, write_logged_run
from tests.files.torch_archives import write_torch
from tests.interop import marian_folders
from tests.interop.marian_folders import ENGLISH, GERMAN, write_hugging_face
from tests.interop.random_models import random_model
from tests.peak_memory import needs_linux, peak_memory
from tests.text.shortlist_binary import binary

pytestmark = [pytest.mark.slow, pytest.mark.tensorflow, needs_linux]
# What a reader may take besides: small files and libraries, whatever the size.
ALLOWANCE = 128 << 20
WIDTH, INNER = 128, 30_000  # of a model with some 60 or 90 MB of weights, in few matrices


@pytest.fixture(scope="module")
def tokenizer():
    return SentencePieceTokenizer.train(ENGLISH + GERMAN, vocabulary_size=100)


def peak_of(read, path):
    """The most memory that reading takes beyond the present; what is refused may take it too."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)  # memory that is free would hide what is taken
    with peak_memory() as taken, contextlib.suppress(UserInputError):
        read(path)
    return taken()


def size_of(path):
    files = [path] if path.is_file() else [each for each in path.rglob("*") if each.is_file()]
    return sum(each.stat().st_size for each in files)


# Models: files that are right. Each writes one and returns its reader and number of weights.


def weights_of(tree):
    return sum(math.prod(np.shape(each)) for each in tree)


def ctranslate2_of(precision):
    def write(path, tokenizer):
        pytest.importorskip("ctranslate2")
        from keras_transformer import Translator

        sizes = {"num_encoder_layers": 1, "num_decoder_layers": 1, "num_heads": 2}
        model, _ = random_model(
            tokenizer, vocabulary_size=100, hidden_dim=WIDTH, intermediate_dim=INNER, **sizes
        )
        export_ctranslate2(Translator(model, tokenizer), path, precision=precision)
        return import_ctranslate2, model.count_params()

    return write


def marian_of(form):
    def write(path, _):
        config = {"d_model": WIDTH, "encoder_ffn_dim": INNER, "decoder_ffn_dim": INNER}
        config |= {"encoder_layers": 1, "decoder_layers": 1}
        if form in ("safetensors", "bin"):
            tensors = write_hugging_face(path, weights=form, **config)
            return import_marian, weights_of(tensors.values())
        tensors = marian_folders.make_tensors(marian_folders.make_config(**config))
        marian_folders.write_native(path, tensors)
        if form == "8 bits":
            (path / "model.npz").unlink()
            (path / "decoder.yml").write_text("models: [model.bin]\nvocabs: [vocab.yml]\n")
            arrays = marian_folders.native_arrays(tensors)
            matrices = [n for n in arrays if "_W" in n and "_ln_" not in n]
            own = marian_folders.native_config(tensors)
            marian_folders.write_bin(path / "model.bin", arrays, own, matrices)
        return import_marian, weights_of(tensors.values())

    return write


def run_weights(kind):
    def write(path, _):
        sizes = {"num_encoder_layers": 1, "num_decoder_layers": 1, "num_heads": 2}
        sizes |= {"vocabulary_size": 100, "hidden_dim": WIDTH, "intermediate_dim": INNER}
        model = build_transformer("tiny", **sizes)
        path.mkdir()
        count = model.count_params()
        if kind == "safetensors":
            save_safetensors(model, path / "model.safetensors")
            return lambda path: load_safetensors(model, path / "model.safetensors"), count
        if kind == ".keras":
            model.save(path / "model.keras")
            return lambda path: keras.saving.load_model(path / "model.keras"), count
        save_weights(model, path / "base.weights.h5")
        if kind == "weights":
            return lambda path: load_weights(model, path / "base.weights.h5"), count
        tuned = build_transformer("tiny", **sizes)
        enable_lora(tuned, 4, 8.0)
        save_adapters(tuned, path / "step-00000001.weights.h5")
        return lambda path: load_weights(model, path / "step-00000001.weights.h5"), count

    return write


MODELS = {
    **{f"ctranslate2 {form}": ctranslate2_of(form) for form in ("int8", "float16", "float32")},
    **{f"marian {form}": marian_of(form) for form in ("safetensors", "bin", "npz", "8 bits")},
    **{
        f"run {kind}": run_weights(kind)
        for kind in ("weights", "safetensors", "adapters", ".keras")
    },
}


@pytest.mark.parametrize("name", MODELS)
def test_models_take_no_more_than_their_weights(tmp_path, tokenizer, name):
    read, weights = MODELS[name](tmp_path / "model", tokenizer)
    size = size_of(tmp_path / "model")
    peak = peak_of(read, tmp_path / "model")
    print(f"{name}: {size >> 20} MB, {4 * weights >> 20} MB of weights, peak {peak >> 20} MB")
    assert size > 10 << 20
    assert peak <= 2 * size + 12 * weights + ALLOWANCE


# Files that promise more, or hold what takes much more memory than disk.

NUMBER = 6_000_000


def scale_of_many(path):
    """An int8 table of one row, which a scale of many numbers would make a matrix."""
    from tests.interop.test_ctranslate2_import import model_file

    table, scale = np.ones((1, 128), "int8"), np.ones(NUMBER, "float32")
    path.write_bytes(model_file({"a/weight": table, "a/weight_scale": scale}))


def read_tensors(opened):
    with opened as tensors:
        return [tensors.read(name) for name in tensors.names]


def shortlist_binary(path):
    path.write_bytes(binary([[5] * NUMBER]))


def shortlist_archive(path):
    arrays = [("offsets", np.array([0, NUMBER])), ("translations", np.full(NUMBER, 5, "<i4"))]
    arrays += [("always", np.zeros(0, "<i4"))]
    with open(path, "wb") as file:
        write_archive(file, {name: len(array) for name, array in arrays}, arrays)


def shortlist_text(path):
    path.write_text("▁a ▁a 0.5\na b 0.25\n" * (NUMBER // 10))


def read_shortlist(path):
    tokenizer = SentencePieceTokenizer.train(ENGLISH + GERMAN, vocabulary_size=100)
    return Shortlist.load(path, tokenizer)


def many_pieces(path):
    path.write_bytes(b"\x0a\x03\x0a\x01a" * NUMBER)


def many_settings(path):
    path.write_bytes(b"\x0a\x03\x0a\x01a" + bytes_field(2, b"\x0a\x00" * NUMBER))


def long_pieces(path):
    unknown = b"".join(bytes_field(number, b"") for number in range(2000, NUMBER // 4))
    path.write_bytes(bytes_field(1, b"\x0a\x01a" + unknown))


def many_own_pieces(path):
    vocabulary = b'{"pieces":["a"' + b',"a"' * NUMBER + b"]}"
    tokenizer = SentencePieceTokenizer.train(ENGLISH + GERMAN, vocabulary_size=100)
    path.write_bytes(tokenizer.model_bytes + bytes_field(1000, vocabulary))


def many_entries(path):
    """A zip archive whose entries are one: only its list is long."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a", b"")
    content = path.read_bytes()
    start = content.index(b"PK\1\2")
    end = content.index(b"PK\5\6")
    entry, number = content[start:end], 500_000
    tail = struct.pack("<4sQ2H2I4Q", b"PK\6\6", 44, 45, 45, 0, 0, number, number,
                       len(entry) * number, start)  # fmt: skip
    tail += struct.pack("<4sIQI", b"PK\6\7", 0, start + len(entry) * number, 1)
    tail += struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, 0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0)
    path.write_bytes(content[:start] + entry * number + tail)


def long_header(path):
    entry = '"{}":{{"dtype":"F32","shape":[0],"data_offsets":[0,0]}}'
    header = "{" + ",".join(map(entry.format, range(NUMBER // 20))) + "}"
    path.write_bytes(struct.pack("<Q", len(header)) + header.encode())


def array_archive(path):
    with open(path, "wb") as file:
        write_archive(file, {}, [("a", np.ones(4 * NUMBER, "float32"))])


def read_state(path):
    with open_archive(path) as archive:
        return read_array(archive, "a", [4 * NUMBER], 4)


def many_datasets(path):
    with h5py.File(path, "w", libver="latest") as file:
        group = file.create_group("layers")
        for number in range(20_000):
            group[str(number)] = np.float32(1)


def read_weights(path):
    with open_weights(path) as datasets:
        return {name: each[...] for name, each in datasets.items()}


def many_rows(path):
    path.mkdir()
    metrics = METRICS + "22,2.5,0.001,100.0,1.0\n" * (NUMBER // 12)
    write_logged_run(path / "run", metrics)


def whole_vocabularies(path):
    """A shortlist with all tokens for each token."""
    tokenizer = SentencePieceTokenizer.train(ENGLISH + GERMAN, vocabulary_size=100)
    translations = np.tile(np.arange(4, 100), 2000)
    offsets = np.append(0, np.full(99, len(translations)))
    Shortlist(offsets, translations, [], tokenizer).save(path)


def use_shortlist(path):
    read_shortlist(path).candidates(np.zeros((64, 100), "int32"))


def entered(context):
    with context as value:
        return value


def of_json(text):
    return lambda path: path.write_text(text)


HOSTILE = {
    "a scale of many": ("model.bin", scale_of_many, lambda p: read_tensors(open_ctranslate2(p))),
    "a shortlist": ("lex.bin", shortlist_binary, read_shortlist),
    "a shortlist of ours": ("shortlist.npz", shortlist_archive, read_shortlist),
    "a shortlist as text": ("lex.s2t", shortlist_text, read_shortlist),
    "a shortlist of many": ("shortlist.npz", whole_vocabularies, use_shortlist),
    "a log": ("runs", many_rows, lambda path: RunCurves.read(path / "run")),
    "a piece of a list": (
        "vocab.yml",
        lambda path: path.write_text("😀" + "a" * 4_000_000 + ": 0\n"),
        read_vocabulary,
    ),
    "pieces": ("vocab.spm", many_pieces, read_vocabulary),
    "pieces of a tokenizer": ("tokenizer.model", many_pieces, SentencePieceTokenizer.load),
    "settings of a tokenizer": ("tokenizer.model", many_settings, SentencePieceTokenizer.load),
    "fields of a piece": ("vocab.spm", long_pieces, read_vocabulary),
    "fields of a tokenizer's piece": ("tokenizer.model", long_pieces, SentencePieceTokenizer.load),
    "an own vocabulary": ("tokenizer.model", many_own_pieces, SentencePieceTokenizer.load),
    "codes": (
        "source.bpe",
        lambda path: path.write_text("#version: 0.2\n" + "ab c\n" * 800_000),
        lambda path: read_bpe(path, {"a": 0}),
    ),
    "a list of tokens": (
        "opus.vocab",
        lambda path: path.write_text("ab\n" * 1_300_000),
        read_vocabulary,
    ),
    "YAML": (
        "vocab.yml",
        lambda path: path.write_text("a: [" + "a," * 2_000_000 + "]\n"),
        read_yaml,
    ),
    "lists of JSON": ("vocab.json", of_json("[" + "[],[]," * 2_700_000 + "0]"), read_json),
    "an emoji in JSON": ("vocab.json", of_json('"😀' + "a" * ((1 << 24) - 10) + '"'), read_json),
    "strings of JSON": ("vocab.json", of_json(json.dumps(["ab"] * 2_500_000)), read_json),
    "a list of a preset": ("preset.zip", many_entries, lambda p: entered(preset_folder(p))),
    "a list of a package": ("a.argosmodel", many_entries, import_ctranslate2),
    "a list of arrays": ("model.npz", many_entries, lambda p: read_tensors(open_tensors(p))),
    "a header": ("m.safetensors", long_header, lambda p: read_tensors(open_tensors(p))),
    "a pickle": (
        "pytorch_model.bin",
        lambda path: write_torch(path, b"}" * (1 << 22) + b"."),
        lambda path: read_tensors(open_tensors(path)),
    ),
    "a training state": ("step-1.state.npz", array_archive, read_state),
    "many weights": ("model.weights.h5", many_datasets, read_weights),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_take_no_more_than_twice_their_size(tmp_path, name):
    file, write, read = HOSTILE[name]
    path = tmp_path / file
    write(path)
    peak = peak_of(read, path)
    print(f"{name}: {size_of(path) >> 20} MB, peak {peak >> 20} MB")
    assert peak <= 2 * size_of(path) + ALLOWANCE
