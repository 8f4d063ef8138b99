"""Folders for Bergamot: read again they give the same model, in 8 bits the same matrices."""

import numpy as np
import pytest
import yaml

from keras_transformer import Translator
from keras_transformer.errors import UserInputError
from keras_transformer.export import export_bergamot
from keras_transformer.formats.marian.binary_file import open_marian_binary
from keras_transformer.formats.marian.tensors import hidden_order
from keras_transformer.interop import import_bergamot
from keras_transformer.text import SentencePieceTokenizer
from keras_transformer.toolkit import cli
from tests.interop.marian_folders import ENGLISH, GERMAN
from tests.interop.numpy_marian import sinusoids
from tests.interop.random_models import random_model, some_logits, translator_from

SIZES = {"num_encoder_layers": 1, "num_decoder_layers": 1, "hidden_dim": 64, "num_heads": 2}
STUDENT = {
    "intermediate_dim": 128,
    "zero_id": 1,
    "positions": "sinusoidal_t2t",
    "decoder_unit": "ssru",
    "use_bias": True,
    "use_logits_bias": True,
}
FORMS = {
    "student": {},
    "attention": {"decoder_unit": "attention"},
    "two vocabularies": {"source_vocabulary_size": 90},
    "deepnorm": {"residual_connection": "deepnorm"},
    "alignment head": {"alignment_layer": 1},
}
INT8 = "model.ende.intgemm.alphas.bin"


@pytest.fixture(scope="module")
def tokenizer():
    return SentencePieceTokenizer.train(ENGLISH + GERMAN, vocabulary_size=96)


def translator_of(tokenizer, **options):
    model, source = random_model(
        tokenizer, **{"vocabulary_size": 96, **SIZES, **STUDENT, **options}
    )
    return Translator(
        model, tokenizer, source_tokenizer=source, length_penalty="power", alpha=0.7, extra_length=5
    )


def contents(path):
    """The bytes of each tensor of a file, without the padding after them; those in 8 bits."""
    found, in_8_bits = {}, set()
    with open_marian_binary(path) as file:
        data = path.read_bytes()
        for name, item in file._tensors.items():
            size = item.span * np.dtype(item.dtype).itemsize + 4 * (item.scale is not None)
            found[name] = data[item.start : item.start + size]
            assert item.start % 256 == len(data) % 256 == 0  # Marian maps it into memory
            if item.scale is not None:
                in_8_bits.add(name)
    return found, in_8_bits


def scale_of(content):
    """What a tensor of one number stands for, in 8 bits or in float32."""
    if len(content) == 4:
        return np.frombuffer(content, "<f4")[0]
    return np.frombuffer(content[:1], "int8")[0] / np.frombuffer(content[1:], "<f4")[0]


@pytest.mark.parametrize("form", FORMS)
def test_read_again_it_is_the_same_model(tokenizer, tmp_path, form):
    translator = translator_of(tokenizer, **FORMS[form])
    imported = import_bergamot(export_bergamot(translator, tmp_path / "ende"))
    found, expected = some_logits(imported.model, 0), some_logits(translator.models[0], 1)
    np.testing.assert_allclose(found, expected, atol=1e-4)
    assert imported.source_tokenizer.encode(ENGLISH) == translator.source_tokenizer.encode(ENGLISH)
    assert (imported.search["beam_size"], imported.search["alpha"]) == (4, 0.7)


@pytest.mark.parametrize("form", ["student", "two vocabularies", "alignment head"])
def test_in_8_bits_matrices_are_rounded_once(tokenizer, tmp_path, form):
    """Each weight is within half a step, and an import's export has the same bytes."""
    translator = translator_of(tokenizer, **FORMS[form])
    options = {"precision": "int8", "calibration": ENGLISH}
    export_bergamot(translator, tmp_path / "float" / "ende")
    path = export_bergamot(translator, tmp_path / "ende", **options) / INT8
    exact, _ = contents(tmp_path / "float" / "ende" / "model.ende.bin")
    found, in_8_bits = contents(path)
    matrices = {name for name in in_8_bits if not name.endswith("_QuantMultA")}
    assert found.keys() - exact.keys() == {
        f"{name}_QuantMultA" for name in matrices if name != "encoder_Wemb"
    } | {"none_QuantMultA"}
    with (
        open_marian_binary(path) as rounded,
        open_marian_binary(tmp_path / "float" / "ende" / "model.ende.bin") as plain,
    ):
        weights = {*plain.names} - {"special:model.yml"}
        assert matrices == {name for name in weights if min(plain.shape(name)) > 1}
        for name in plain.names:
            value = plain.read(name)
            step = np.abs(value).max() / 127 if name in matrices else 0
            np.testing.assert_allclose(rounded.read(name), value, atol=0.501 * step, rtol=0)
    imported = import_bergamot(tmp_path / "ende")
    again = translator_from(imported)
    once_more, _ = contents(export_bergamot(again, tmp_path / "2" / "ende", **options) / INT8)
    for name in exact.keys() - {"special:model.yml"}:
        size = -4 if name in matrices else None  # of the scale, which a division rounds
        assert once_more[name][:size] == found[name][:size]


def test_scales_are_those_of_what_matrices_are_multiplied_by(tokenizer, tmp_path):
    """Of the first products of each side, whose inputs are vectors of tokens."""
    translator = translator_of(tokenizer)
    path = export_bergamot(translator, tmp_path / "ende", precision="int8", calibration=ENGLISH)
    found, _ = contents(path / INT8)
    order = hidden_order(64)
    table = np.asarray(translator.models[0].target_embedding.token_embedding.matrix)

    def vectors(rows):
        return [
            (np.array([[t] for t in row]) != 1) * table[row] * 8
            + sinusoids(len(row), 64, is_native=True)[:, order]
            for row in rows
        ]

    sources = vectors([[*ids, 2] for ids in tokenizer.encode(ENGLISH)])
    largest = max(np.abs(rows).max() for rows in sources)  # one batch, so no deviation
    for letter in "qkv":
        scale = scale_of(found[f"encoder_l1_self_W{letter}_QuantMultA"])
        np.testing.assert_allclose(scale, 127 / largest, rtol=1e-5)
    outputs = translator.with_search(beam_size=1).translate(ENGLISH)
    targets = vectors([[1, *ids] for ids in tokenizer.encode(outputs)])
    steps = [
        max(np.abs(rows[step]).max() for rows in targets if step < len(rows))
        for step in range(max(map(len, targets)))
    ]
    expected = 127 / (np.mean(steps) + 1.1 * np.std(steps))
    assert np.std(steps) > 0
    for name in ("decoder_l1_rnn_W", "decoder_l1_rnn_Wf"):
        np.testing.assert_allclose(scale_of(found[f"{name}_QuantMultA"]), expected, rtol=1e-5)
    np.testing.assert_allclose(
        scale_of(found["none_QuantMultA"]), scale_of(found["Wemb_QuantMultA"]), rtol=1e-6
    )


@pytest.mark.commands
def test_the_command_writes_it(tokenizer, tmp_path, capsys):
    translator_of(tokenizer).save_to_preset(tmp_path / "run")
    (tmp_path / "some.en").write_text("\n".join(ENGLISH) + "\n", "utf-8")
    path = tmp_path / "ende"
    command = ["export", "bergamot", str(tmp_path / "run"), str(path), "--precision", "int8"]
    assert cli.main([*command, "--calibration", str(tmp_path / "some.en")]) == 0
    assert capsys.readouterr().out == f"{path}\n"
    names = {"vocab.ende.spm", "config.intgemm8bitalpha.yml", INT8, "SHA256SUMS"}
    assert {file.name for file in path.iterdir()} == names
    config = yaml.safe_load((path / "config.intgemm8bitalpha.yml").read_text("utf-8"))
    assert config["models"] == [INT8]
    assert config["vocabs"] == ["vocab.ende.spm"] * 2
    assert (config["relative-paths"], config["gemm-precision"]) == (True, "int8shiftAlphaAll")
    command[3] = str(tmp_path / "other")
    assert cli.main(command) != 0
    assert (
        "`calibration` (`--calibration FILE`) must be sentences for int8" in capsys.readouterr().err
    )


@pytest.mark.parametrize(
    ("options", "calibration", "message"),
    [
        ({"zero_id": None}, ENGLISH, "no counterpart of `zero_id=None`: it must be 1"),
        ({"hidden_dim": 32}, ENGLISH, "int8 needs a `hidden_dim` that is a multiple of 64"),
        ({"intermediate_dim": 96}, ENGLISH, "int8 needs a `intermediate_dim` that is a multiple"),
        ({"tie_weights": False}, ENGLISH, "int8 needs `tie_weights=True`"),
        ({}, None, "must be sentences for int8, and None for float32"),
        ({}, ["", " "], "`calibration` must contain a sentence"),
    ],
)
def test_what_8_bits_lack_is_refused(tokenizer, tmp_path, options, calibration, message):
    translator = translator_of(tokenizer, **options)
    with pytest.raises(UserInputError, match=message):
        export_bergamot(translator, tmp_path / "ende", precision="int8", calibration=calibration)
    assert not (tmp_path / "ende").exists()


def test_a_vocabulary_that_8_does_not_divide_is_refused(tmp_path):
    tokenizer = SentencePieceTokenizer.train(ENGLISH + GERMAN, vocabulary_size=95)
    translator = translator_of(tokenizer, vocabulary_size=95)
    with pytest.raises(UserInputError, match="Received: vocabulary_size=95"):
        export_bergamot(translator, tmp_path / "a", precision="int8", calibration=ENGLISH)
    with pytest.raises(UserInputError, match="and None for float32"):
        export_bergamot(translator, tmp_path / "a", calibration=ENGLISH)
    assert export_bergamot(translator, tmp_path / "a").is_dir()
