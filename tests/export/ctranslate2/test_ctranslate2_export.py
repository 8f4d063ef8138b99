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
from tests.export.ctranslate2.ctranslate2_models import opened, translations_of
from tests.python_programs import run_python
from tests.random_translation import build
from tests.translation_training.number_text import pairs


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


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"positions": "own"}, "inside attention.*: positions='own'$"),
        ({"key_dim": 4, "value_dim": 8}, "Received: key_dim=4, value_dim=8$"),
        ({"attention_window": 5}, "`attention_window=5`: it must be None"),
        ({"residual_connection": "b2t"}, "Received: residual_connection='b2t'$"),
        ({"activation": "leaky_relu"}, "Received: activation='leaky_relu'$"),
    ],
)
def test_what_ctranslate2_has_no_counterpart_of_is_refused(
    tokenizer, options, message, tmp_path, monkeypatch
):
    own = type("OwnPositions", (PositionsInAttention,), {"name": "own"})
    monkeypatch.setitem(POSITIONS, "own", own)
    with pytest.raises(UserInputError, match=message):
        export_ctranslate2(Translator(build(tokenizer, **options), tokenizer), tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def test_positions_of_tokens_ensembles_and_a_missing_package_are_refused(
    tokenizer, tmp_path, monkeypatch
):
    model, size = build(tokenizer), tokenizer.vocabulary_size
    starts = {"source_word_starts": tokenizer.word_starts, "target_word_starts": (1,)}
    words = build(tokenizer, source_vocabulary_size=size, positions="words", **starts)
    for models, message in (
        ([words], "depend on the tokens.*: positions='words'$"),
        ([model, build(tokenizer, seed=1)], "no ensembles.* Received: 2 models$"),
    ):
        with pytest.raises(UserInputError, match=message):
            export_ctranslate2(Translator(models, tokenizer), tmp_path / "model")
    monkeypatch.delitem(sys.modules, "keras_transformer.formats.ctranslate2.spec", raising=False)
    for name in ("ctranslate2", "ctranslate2.specs", "ctranslate2.specs.transformer_spec"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(UserInputError, match=re.escape(pip_install("ctranslate2"))):
        export_ctranslate2(Translator(model, tokenizer), tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def test_a_link_to_an_empty_directory_is_filled(tokenizer, tmp_path):
    translator = Translator(build(tokenizer), tokenizer)
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
