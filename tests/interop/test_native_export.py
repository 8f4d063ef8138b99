"""Folders for Marian itself: read again they give the same model."""

import importlib.util

import numpy as np
import pytest
import yaml

from keras_transformer import Translator
from keras_transformer.errors import UserInputError
from keras_transformer.export import export_bergamot, export_ctranslate2, export_marian
from keras_transformer.interop import import_marian
from keras_transformer.models import build_transformer
from keras_transformer.text import SentencePieceTokenizer
from keras_transformer.toolkit import cli
from tests.interop.marian_folders import ENGLISH, GERMAN, write_hugging_face
from tests.interop.random_models import random_model, some_logits

SIZES = {"num_encoder_layers": 2, "num_decoder_layers": 2, "hidden_dim": 16, "num_heads": 2}
FOR_MARIAN = {"zero_id": 1, "positions": "sinusoidal_t2t"}
FORMS = {
    "attention": {},
    "ssru": {"decoder_unit": "ssru", "use_bias": True, "use_logits_bias": True},
    "untied": {"tie_weights": False},
    "two vocabularies": {"source_vocabulary_size": 90},
    "padded": {"vocabulary_size": 104},
    "deepnorm": {"residual_connection": "deepnorm"},
    "ssru in deepnorm": {"residual_connection": "deepnorm", "decoder_unit": "ssru"},
    "pre-norm": {"normalize_first": True},
    "post-norm with a top": {"final_norm": True},
}


@pytest.fixture(scope="module")
def tokenizer():
    return SentencePieceTokenizer.train(ENGLISH + GERMAN, vocabulary_size=100)


def translator_of(tokenizer, **options):
    model, source = random_model(
        tokenizer, **{"vocabulary_size": 100, **SIZES, **FOR_MARIAN, **options}
    )
    search = {"length_penalty": "power", "ending": "transformers", "extra_length": 5}
    return Translator(model, tokenizer, source_tokenizer=source, **search)


@pytest.mark.parametrize("form", FORMS)
def test_read_again_it_is_the_same_model(tokenizer, tmp_path, form):
    translator = translator_of(tokenizer, **FORMS[form])
    path = export_marian(translator, tmp_path / "marian", native=True)
    imported, model = import_marian(path), translator.models[0]
    assert imported.model.options.decoder_unit == model.options.decoder_unit
    np.testing.assert_allclose(some_logits(imported.model, 0), some_logits(model, 1), atol=1e-4)
    assert imported.source_tokenizer.encode(ENGLISH) == translator.source_tokenizer.encode(ENGLISH)


def test_its_files_say_what_marian_reads(tokenizer, tmp_path):
    translator = translator_of(tokenizer, decoder_unit="ssru").with_search(beam_size=3, alpha=0.7)
    path = export_marian(translator, tmp_path / "marian", native=True)
    decoder = yaml.safe_load((path / "decoder.yml").read_text("utf-8"))
    assert decoder["models"] == ["model.npz"]
    assert decoder["vocabs"] == ["vocab.spm", "vocab.spm"]
    assert (decoder["beam-size"], decoder["normalize"]) == (3, 0.7)
    assert (path / "vocab.spm").read_bytes() == tokenizer.model_bytes
    with np.load(path / "model.npz") as arrays:
        assert arrays["Wemb"].shape == (100, 16)
        assert arrays["decoder_l1_rnn_Wf"].shape == (16, 16)
        assert arrays["encoder_l2_self_bq"].shape == (1, 16)
        assert not arrays["encoder_l2_self_bq"].any()
        content = arrays["special:model.yml"].tobytes()
    config = yaml.safe_load(content.rstrip(b"\0"))
    assert (config["dec-cell"], config["transformer-decoder-autoreg"]) == ("ssru", "rnn")
    assert config["tied-embeddings-all"] is True


def test_what_marians_decoder_computes_otherwise_is_told(tokenizer, tmp_path, capsys):
    for number, options in enumerate(({}, {"decoder_unit": "ssru"}, {"final_norm": True})):
        pre_norm = number < 2
        translator = translator_of(tokenizer, normalize_first=pre_norm, **options)
        export_marian(translator, tmp_path / str(number), native=True)
        assert ("warning: Marian trains" in capsys.readouterr().err) == (number == 0)


@pytest.mark.commands
def test_the_command_writes_it(tokenizer, tmp_path, capsys):
    translator_of(tokenizer).save_to_preset(tmp_path / "run")
    command = ["export", "marian", str(tmp_path / "run"), str(tmp_path / "marian"), "--native"]
    assert cli.main(command) == 0
    assert capsys.readouterr().out == f"{tmp_path / 'marian'}\n"
    names = {path.name for path in (tmp_path / "marian").iterdir()}
    assert names == {"model.npz", "vocab.spm", "decoder.yml", "SHA256SUMS"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"zero_id": None}, "no counterpart of `zero_id=None`: it must be 1"),
        ({"positions": "sinusoidal"}, "no counterpart of `positions='sinusoidal'`: it must be"),
        ({"layer_norm_epsilon": 1e-5}, "no counterpart of `layer_norm_epsilon=1e-05`: it must be"),
        ({"qk_norm": True}, "no counterpart of `qk_norm=True`"),
    ],
)
def test_what_marian_lacks_is_refused(tokenizer, tmp_path, options, message):
    with pytest.raises(UserInputError, match=message):
        export_marian(translator_of(tokenizer, **options), tmp_path / "marian", native=True)


def test_ids_of_ones_own_are_refused(tmp_path):
    write_hugging_face(tmp_path / "opus")
    imported = import_marian(tmp_path / "opus")
    options = {**imported.model.options.to_config(), **FOR_MARIAN, "layer_norm_epsilon": 1e-6}
    options["zero_id"] = imported.tokenizer.special_tokens.pad
    model = build_transformer("tiny", **options)
    translator = Translator(model, imported.tokenizer, source_tokenizer=imported.source_tokenizer)
    with pytest.raises(UserInputError, match="separate ids, like OPUS-MT models"):
        export_marian(translator, tmp_path / "marian", native=True)


def test_right_to_left(tokenizer, tmp_path):
    path = export_marian(translator_of(tokenizer), tmp_path / "marian", native=True)
    with np.load(path / "model.npz") as arrays:
        tensors = dict(arrays)
    config = tensors["special:model.yml"].tobytes()
    changed = config.replace(b"right-left: false", b"right-left: true")
    assert changed != config
    tensors["special:model.yml"] = np.frombuffer(changed, "int8")
    np.savez(path / "model.npz", **tensors)
    found = import_marian(path)
    imported = Translator(found.model, found.tokenizer, **found.search | {"extra_length": 5})
    assert imported.tokenizer.right_to_left
    turned = translator_of(tokenizer)
    ids = turned.tokenizer.encode(ENGLISH[:1])[0]
    assert imported.tokenizer.encode(ENGLISH[:1])[0] == ids[::-1]
    # The same weights read and write everything in the other direction.
    pieces = imported.tokenizer.pieces
    (found,) = imported.align(ENGLISH[:1], GERMAN[:1])
    assert found.source_pieces == [*pieces(ids[::-1])[::-1], "</s>"]
    assert found.target_pieces == turned.tokenizer.pieces(turned.tokenizer.encode(GERMAN[:1])[0])
    weights = dict(imported._generator.alignment(*imported.encode_pairs(ENGLISH[:1], GERMAN[:1])))[
        0
    ]
    np.testing.assert_allclose(found.weights[0, :-1], weights[-1, -2::-1])
    np.testing.assert_allclose(found.weights[:, -1], weights[::-1, -1])

    again = import_marian(export_marian(imported, tmp_path / "again", native=True))
    assert again.tokenizer.right_to_left
    others = [export_marian, export_bergamot]
    if importlib.util.find_spec("ctranslate2") is not None:  # PyTorch's environment has none
        others.append(export_ctranslate2)
    for export in others:
        with pytest.raises(UserInputError, match="does not support right-to-left models"):
            export(imported, tmp_path / "no")
