"""Marian's own architectures: where they normalize, tied layers; what it ignores or we refuse."""

import numpy as np
import pytest

from keras_transformer import Translator
from keras_transformer.export import export_marian
from keras_transformer.formats.marian.reader import import_marian
from keras_transformer.toolkit import cli
from tests.interop import numpy_marian
from tests.interop.marian_folders import (
    BIAS,
    ENGLISH,
    GERMAN,
    make_config,
    make_tensors,
    message_of,
    native_arrays,
    native_config,
    write_bin,
    write_npz,
)
from tests.interop.test_bergamot_import import BOTH, CHANGES, SSRU, assert_logits

PRE_NORM = {"transformer-preprocess": "n", "transformer-postprocess": "da"}
TOP = {"transformer-postprocess-top": "n"}
# The configuration of NumPy's model, and Marian's.
FORMS = {
    "post-norm": ({}, {}),
    "post-norm with a top": ({"add_final_layer_norm": True}, TOP),
    "pre-norm": ({"normalize_before": True, "add_final_layer_norm": True}, PRE_NORM | TOP),
    "pre-norm without a top": ({"normalize_before": True}, PRE_NORM),
    "pre-norm with SSRUs": (
        {"normalize_before": True, "add_final_layer_norm": True, "decoder_unit": "ssru"},
        PRE_NORM | TOP | SSRU,
    ),
    "tied layers": (
        {"tied_layers": [0, 1, 1, 0]},
        {"dec-depth": 4, "transformer-tied-layers": [1, 2, 2, 1]},
    ),
    "without a bias of the logits": ({}, {"output-omit-bias": True}),
    "dropout everywhere": (
        {},
        {
            "transformer-preprocess": "d",
            "transformer-postprocess-emb": "",
            "transformer-postprocess-top": "d",
        },
    ),
    "an option of learned positions": ({}, {"transformer-train-position-embeddings": True}),
}


def write_folder(path, form="post-norm", write=write_npz, tensors=None, **changes):
    """A folder with a vocabulary of SentencePiece's; returns NumPy's configuration and tensors."""
    path.mkdir(parents=True, exist_ok=True)
    theirs, own = FORMS[form]
    config = make_config(**CHANGES | {"decoder_unit": "attention"} | theirs)
    tensors = tensors or make_tensors(config)
    own = own | {name.replace("_", "-"): value for name, value in changes.items()}
    if own.get("output-omit-bias"):
        del tensors[BIAS]
    own = native_config(tensors) | {"transformer-ffn-activation": "relu"} | own
    own = {key: value for key, value in own.items() if value is not None}
    name = "model.npz" if write is write_npz else "model.bin"
    write(path / name, native_arrays(tensors, config["normalize_before"]), own)
    (path / "vocab.spm").write_bytes(BOTH)
    return config, tensors


def write_ensemble(path, decoder=""):
    """A folder with two models; returns NumPy's configuration and the tensors of both."""
    found = []
    for number in (1, 2):
        config = make_config(**CHANGES | {"decoder_unit": "attention"})
        config, tensors = write_folder(path, tensors=make_tensors(config, seed=number))
        (path / "model.npz").rename(path / f"model{number}.npz")
        found.append(tensors)
    models = "models: [/x/model1.npz, /x/model2.npz]\nvocabs: [/x/vocab.spm, /x/vocab.spm]\n"
    (path / "decoder.yml").write_text(models + decoder)
    return config, found


@pytest.mark.parametrize("form", FORMS)
def test_logits_are_those_of_the_formula(form, tmp_path):
    config, tensors = write_folder(tmp_path, form)
    assert_logits(import_marian(tmp_path), config, tensors)


def test_binary_files_are_the_same(tmp_path):
    config, tensors = write_folder(tmp_path, "pre-norm", write_bin)
    assert_logits(import_marian(tmp_path), config, tensors)


@pytest.mark.parametrize("form", ["pre-norm with SSRUs", "tied layers"])
def test_exported_again_it_is_the_same_model(form, tmp_path):
    """Tied layers come back as copies."""
    write_folder(tmp_path / "marian", form)
    first = import_marian(tmp_path / "marian")
    translator = Translator(first.model, first.tokenizer, **first.search)
    second = import_marian(export_marian(translator, tmp_path / "again", native=True))
    scores = [
        Translator(each.model, each.tokenizer).score(ENGLISH, GERMAN) for each in (first, second)
    ]
    np.testing.assert_allclose(*scores, rtol=1e-6)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"transformer_preprocess": "n"},
            "`transformer-preprocess` must be 'n' with `transformer-postprocess` 'da', or '' with "
            "'dan'. Received: transformer-preprocess=\"'n' and 'an'\"",
        ),
        (
            {
                "transformer_preprocess": "n",
                "transformer_postprocess": "da",
                "transformer_postprocess_top": None,
            },
            "`version` must be 1.10 or newer with pre-norm. Received: version='v1.8.2",
        ),
        ({"transformer_postprocess": "dar"}, "Received: transformer-preprocess=\"'' and 'ar'\""),
        ({"transformer_postprocess_emb": "nd"}, "`transformer-postprocess-emb` must be 'd'"),
        ({"transformer_postprocess_top": "na"}, "-top` must be 'd' or 'dn'. Received: "),
        (
            {"transformer_decoder_autoreg": "rnn", "dec_cell": "gru"},
            "`dec-cell` must be 'ssru'. Received: dec-cell='gru'",
        ),
        ({"transformer_tied_layers": [1]}, "a number of a decoder layer for each, of at most 64"),
        ({"transformer_tied_layers": [1, 3]}, "Received: transformer-tied-layers=['1', '3']"),
        ({"transformer_tied_layers": [1, 0]}, "Received: transformer-tied-layers=['1', '0']"),
        ({"transformer_tied_layers": "1 2"}, "Received: transformer-tied-layers='1 2'"),
        ({"transformer_tied_layers": [1] * 65, "dec_depth": 65}, "of at most 64 layers"),
        ({"transformer_tied_layers": [[1], 2]}, "Received: transformer-tied-layers=[['1'], '2']"),
        ({"transformer_attention_mask": "alibi"}, "`transformer-attention-mask` must be 'default'"),
        ({"transformer_disable_position_embeddings": True}, "must be 'false'"),
        ({"transformer_no_affine": True}, "`transformer-no-affine` must be 'false'"),
    ],
)
def test_other_architectures_are_refused(changes, message, tmp_path):
    write_folder(tmp_path, **changes)
    message_of(tmp_path, "model.npz cannot be imported", message)


def test_learned_positions_are_refused(tmp_path):
    """A file that has some: Marian ignores its option, so its trainings have none."""
    _, tensors = write_folder(tmp_path)
    arrays = native_arrays(tensors) | {"Wpos": np.zeros((60, 16), "float32")}
    write_npz(tmp_path / "model.npz", arrays, native_config(tensors))
    message_of(tmp_path, "model.npz has a tensor that this model lacks: 'Wpos'")


@pytest.mark.parametrize(
    ("decoder", "is_read"),
    [("normalize: 1\n", True), ("normalize: 0.6\n", False), ("beam-size: 4\n", False)],
)
def test_a_word_penalty_that_changes_no_order_is_read(decoder, is_read, tmp_path):
    write_folder(tmp_path)
    (tmp_path / "decoder.yml").write_text(decoder + "word-penalty: 0.5\n")
    if is_read:
        assert import_marian(tmp_path).search["alpha"] == 1
    else:
        message_of(tmp_path, "decoder.yml", "`word-penalty` must be 0 unless `normalize` is 1")


@pytest.mark.commands
def test_an_ensemble_becomes_runs(tmp_path, capsys):
    config, tensors = write_ensemble(tmp_path / "marian", "weights: [0.5, 0.5]\nbeam-size: 3\n")
    run = tmp_path / "a run"
    assert cli.main(["import", "marian", str(tmp_path / "marian"), str(run)]) == 0
    printed = capsys.readouterr()
    assert printed.out == f"{run}/1\n{run}/2\n"
    assert printed.err == (
        f"An ensemble of 2 models: keras-transformer translate '{run}/1' '{run}/2'\n"
    )
    assert [path.name for path in sorted(run.iterdir())] == ["1", "2"]
    translator = Translator.load([run / "1", run / "2"])
    assert translator.beam_size == 3
    source, target = (translator.tokenizer.encode([side[0]])[0] for side in (ENGLISH, GERMAN))
    pad = config["pad_token_id"]
    probabilities = []
    for each in tensors:
        logits = numpy_marian.logits(each, config, [[*source, 0]], [[pad, *target]])[0]
        probabilities.append(np.exp(numpy_marian.log_probs(logits)))
    mean = numpy_marian.log_probs(np.log(np.mean(probabilities, axis=0))[:, :pad])
    expected = sum(mean[place, token] for place, token in enumerate([*target, 0]))
    assert translator.score(ENGLISH[:1], GERMAN[:1]) == pytest.approx([expected], abs=1e-4)


def test_an_ensemble_is_not_one_model(tmp_path):
    write_ensemble(tmp_path)
    message_of(tmp_path, "has an ensemble of 2 models: `import_marian_runs` or ")


def test_a_folder_that_marian_trained_in(tmp_path):
    config, tensors = write_folder(tmp_path)
    np.savez(tmp_path / "model.npz.optimizer.npz", adam_mt=np.zeros(3))
    decoder = "models: [/x/model.npz]\nvocabs: [/x/vocab.spm, /x/vocab.spm]\nbeam-size: 5\n"
    (tmp_path / "model.npz.decoder.yml").write_text(decoder)
    imported = import_marian(tmp_path)
    assert imported.search["beam_size"] == 5
    assert_logits(imported, config, tensors)
