"""The directory that an export writes, and what cannot be exported."""

import json
import re
import sys

import ctranslate2
import pytest

from keras_transformer.errors import UserInputError
from keras_transformer.formats.ctranslate2.writer import export_ctranslate2
from keras_transformer.inference.translator import Translator
from keras_transformer.installation import pip_install
from keras_transformer.layers.positions import POSITIONS, PositionsInAttention
from keras_transformer.text import SentencePieceTokenizer
from tests.export.ctranslate2.ctranslate2_models import opened, translations_of
from tests.python_programs import run_python
from tests.random_translation import build, sentences
from tests.translation_training.number_text import pairs


@pytest.fixture(scope="module")
def tokenizer():
    return SentencePieceTokenizer.train(sentences(50), vocabulary_size=42)


def test_positions_end_after_2048_tokens_or_the_learned_ones(tokenizer, tmp_path):
    sinusoidal = opened(Translator(build(tokenizer), tokenizer), tmp_path / "sinusoidal")
    learned = build(tokenizer, positions="learned", max_length=32)
    learned = opened(Translator(learned, tokenizer), tmp_path / "learned")
    limits = {"max_input_length": 0, "max_decoding_length": 1}
    for name, model, most in (("sinusoidal", sinusoidal, 2048), ("learned", learned, 32)):
        card = json.loads((tmp_path / name / "model_card.json").read_text("utf-8"))
        assert card["options"] == {"max_positions": most}
        assert len(model.translate_batch([["o"] * (most - 1)], **limits)) == 1  # and EOS
        with pytest.raises(RuntimeError, match="No position encodings"):
            model.translate_batch([["o"] * most], **limits)
    limits = {"max_input_length": 32, "max_decoding_length": 32}
    never_ends = {"suppress_sequences": [["</s>"]], "beam_size": 1}
    (result,) = learned.translate_batch([["o"] * 500], **limits, **never_ends)
    assert len(result.hypotheses[0]) == 32


def test_what_ctranslate2_has_no_counterpart_of_is_refused(tokenizer, tmp_path, monkeypatch):
    words = build(
        tokenizer,
        source_vocabulary_size=tokenizer.vocabulary_size,
        positions="words",
        source_word_starts=tokenizer.word_starts,
        target_word_starts=(1,),
    )
    with pytest.raises(UserInputError, match="depend on the tokens.*: positions='words'$"):
        export_ctranslate2(Translator([words], tokenizer), tmp_path / "words")
    own = type("OwnPositions", (PositionsInAttention,), {"name": "own"})
    monkeypatch.setitem(POSITIONS, "own", own)
    with pytest.raises(UserInputError, match="inside attention.*: positions='own'$"):
        export_ctranslate2(Translator([build(tokenizer, positions="own")], tokenizer), tmp_path)
    rows_b = build(tokenizer, key_dim=4, value_dim=8)
    with pytest.raises(UserInputError, match="Received: key_dim=4, value_dim=8$"):
        export_ctranslate2(Translator(rows_b, tokenizer), tmp_path / "model")
    restricted = build(tokenizer, attention_window=5)
    with pytest.raises(UserInputError, match="`attention_window=5`: it must be None"):
        export_ctranslate2(Translator(restricted, tokenizer), tmp_path / "model")
    b2t = build(tokenizer, residual_connection="b2t")
    with pytest.raises(UserInputError, match="Received: residual_connection='b2t'$"):
        export_ctranslate2(Translator(b2t, tokenizer), tmp_path / "model")
    leaky = build(tokenizer, activation="leaky_relu")
    with pytest.raises(UserInputError, match="Received: activation='leaky_relu'$"):
        export_ctranslate2(Translator(leaky, tokenizer), tmp_path / "model")
    ensemble = Translator([build(tokenizer), build(tokenizer, seed=1)], tokenizer)
    with pytest.raises(UserInputError, match="no ensembles.* Received: 2 models$"):
        export_ctranslate2(ensemble, tmp_path / "model")
    translator = Translator(build(tokenizer), tokenizer)
    with pytest.raises(ValueError, match="Received: precision='int4'$"):
        export_ctranslate2(translator, tmp_path / "model", precision="int4")
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    with pytest.raises(UserInputError, match=re.escape(pip_install("ctranslate2"))):
        export_ctranslate2(translator, tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def test_a_directory_with_anything_in_it_stays_as_it_is(tokenizer, tmp_path):
    translator = Translator(build(tokenizer), tokenizer)
    (tmp_path / "file").write_text("mine")
    with pytest.raises(UserInputError, match="holds files already"):
        export_ctranslate2(translator, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "empty")
    path = export_ctranslate2(translator, tmp_path / "link")
    assert path == tmp_path / "link"
    assert sorted(path.name for path in (tmp_path / "empty").iterdir()) == [
        "SHA256SUMS",
        "config.json",
        "model.bin",
        "model_card.json",
        "model_card.md",
        "shared_vocabulary.json",
        "tokenizer.model",
    ]


# What `python -c` runs: a JAX process, to which neither TensorFlow nor PyTorch can be imported.
JAX_PROGRAM = """
import sys

sys.modules["tensorflow"] = sys.modules["torch"] = None

import keras
from keras_transformer import Translator
from keras_transformer.formats.ctranslate2.writer import export_ctranslate2

assert keras.backend.backend() == "jax"
for precision in ("float32", "int8"):
    export_ctranslate2(Translator.load(sys.argv[1]), precision, precision=precision)
"""


@pytest.mark.slow
def test_it_is_written_on_jax_without_tensorflow_and_torch(trained_run, tmp_path):
    pytest.importorskip("jax")
    translator = Translator.load(trained_run, beam_size=1, alpha=0.0)
    run_python("-c", JAX_PROGRAM, trained_run, cwd=tmp_path, KERAS_BACKEND="jax")
    sources = pairs()[0][::40]
    for precision in ("float32", "int8"):
        exported = ctranslate2.Translator(str(tmp_path / precision), intra_threads=1)
        assert exported.compute_type.startswith(precision)
        found = translations_of(exported, translator, sources, beam_size=1)
        assert found == translator.translate(sources)
