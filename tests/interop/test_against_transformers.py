"""Imported models beside `transformers.MarianMTModel`: logits and outputs of beam search."""

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest

from keras_transformer.decoding.sequence_generator import SequenceGenerator
from keras_transformer.errors import UserInputError
from keras_transformer.export import export_marian
from keras_transformer.formats.marian.reader import import_marian
from keras_transformer.search_options import SearchOptions
from tests.interop.marian_folders import (
    ENGLISH,
    make_config,
    vocabulary,
    write_hugging_face,
    write_json,
    write_texts,
)
from tests.interop.random_models import assert_same_weights
from tests.interop.test_marian_exports import ours
from tests.interop.test_marian_import import difference, random_rows

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
PEERS = ROOT / ".venv-peers" / "bin" / "python"
EXTRA_LENGTH = 12


@pytest.fixture(scope="module")
def peers():
    """The Python that has PyTorch and Transformers."""
    if not PEERS.exists():
        pytest.skip("the peers' environment is missing: make .venv-peers/installed")
    probe = subprocess.run([PEERS, "-c", "import torch, transformers"], capture_output=True)
    if probe.returncode:
        pytest.skip("the peers' environment lacks PyTorch or Transformers")
    return PEERS


def reference(peers, path, *, size=None, scale=1.5, end_bias=3.0, shift=0.0, rows=(), **changes):
    """Let Transformers make a model in `path` and answer; returns its logits and searches."""
    pad = len(vocabulary(size)) - 1
    ids = {"vocab_size": pad + 1, "pad_token_id": pad, "decoder_start_token_id": pad}
    ids |= {"decoder_vocab_size": pad + 1, "bad_words_ids": [[pad]]}
    model, old = path / "model", path / "old"
    for folder in (model, old):
        write_texts(folder, size)
        write_json(folder / "config.json", make_config(**ids | changes))
    source, target, lengths = random_rows(pad=pad)
    np.savez(path / "inputs.npz", source=source, target=target)
    request = {
        "folder": str(model),
        "bin_folder": "" if size else str(old),
        "inputs": str(path / "inputs.npz"),
        "outputs": str(path / "outputs.npz"),
        "searches": str(path / "searches.json"),
        "scale": scale,
        "end_bias": end_bias,
        "shift": shift,
        "rows": rows,
        "extra_length": EXTRA_LENGTH,
    }
    write_json(path / "request.json", request)
    script = Path(__file__).with_name("transformers_reference.py")
    run = subprocess.run(
        [peers, script, path / "request.json"], capture_output=True, text=True, timeout=600
    )
    assert run.returncode == 0, run.stderr[-3000:]
    return np.load(path / "outputs.npz")["logits"], (source, target, lengths)


TINY = {"d_model": 32, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"activation_function": "gelu"},
        {"activation_function": "relu"},
        {"share_encoder_decoder_embeddings": False},
        {"share_encoder_decoder_embeddings": False, "tie_word_embeddings": False},
        {"tie_word_embeddings": False},
    ],
    ids=lambda changes: ", ".join(changes) or "swish",
)
def test_logits_of_tiny_models(changes, peers, tmp_path):
    expected, pairs = reference(peers, tmp_path, **TINY | changes)
    for form in ("model", "old"):
        assert difference(import_marian(tmp_path / form), expected, *pairs) < 1e-4


def test_logits_of_a_model_of_the_size_of_opus_mt(peers, tmp_path):
    sizes = {"d_model": 512}
    for side in ("encoder", "decoder"):
        sizes |= {f"{side}_layers": 6, f"{side}_attention_heads": 8, f"{side}_ffn_dim": 2048}
    expected, pairs = reference(peers, tmp_path, size=58_101, scale=1.0, **sizes)
    assert expected.shape[-1] == 58_101
    assert difference(import_marian(tmp_path / "model"), expected, *pairs) < 1e-4


def search(imported, rows, **options):
    """Our best output of each row, its end included; rows of one length at once."""
    options = {**imported.search, **options}
    assert (options["beam_size"], options["alpha"]) == (4, 1.0)
    options = SearchOptions(**options, extra_length=EXTRA_LENGTH, num_results=1)
    special = imported.tokenizer.special_tokens
    generator = SequenceGenerator(imported.model, special, imported.tokenizer.vocabulary_size)
    found = [None] * len(rows)
    for length in sorted({len(row) for row in rows}):
        places = [place for place, row in enumerate(rows) if len(row) == length]
        ids, _ = generator.search([rows[place] for place in places], options=options)
        for place, output in zip(places, np.asarray(ids)[:, 0].tolist(), strict=True):
            found[place] = [token for token in output if token != special.pad]
    return found


def scores(imported, rows, outputs):
    """The log-probability of each output divided by its length."""
    special = imported.tokenizer.special_tokens
    generator = SequenceGenerator(imported.model, special)
    found = []
    for row, output in zip(rows, outputs, strict=True):
        start = [special.bos, *output[:-1]]
        total = generator.score(np.array([row]), np.array([start]), np.array([output]), True)
        found.append(float(np.asarray(total)[0]) / len(output))
    return np.array(found)


@pytest.mark.parametrize(
    ("scale", "end_bias", "shift"), [(4.0, 5.0, 0.0), (4.0, 9.0, -12.0), (3.0, 7.0, 0.0)]
)
def test_outputs_of_beam_search(scale, end_bias, shift, peers, tmp_path):
    generator = np.random.default_rng(1)
    pad = len(vocabulary()) - 1
    rows = [[*generator.integers(2, pad, generator.integers(2, 9)).tolist(), 0] for _ in range(200)]
    changes = {"scale": scale, "end_bias": end_bias, "shift": shift, **TINY}
    reference(peers, tmp_path, rows=rows, **changes)
    imported = import_marian(tmp_path / "model")
    theirs = json.loads((tmp_path / "searches.json").read_text())

    ours = search(imported, rows)
    own_scores = scores(imported, rows, ours)
    assert len(set(map(tuple, ours))) > 40
    assert len(set(map(len, ours))) > 4
    assert sum(output != other for output, other in zip(theirs["plain"], ours, strict=True)) <= 4

    # Ours with every end equals Transformers' so changed, and is never the less probable.
    every = search(imported, rows, ending="any")
    every_scores = scores(imported, rows, every)
    assert sum(output != other for output, other in zip(theirs["any_end"], every, strict=True)) <= 4
    assert np.abs(every_scores - scores(imported, rows, theirs["any_end"])).max() < 1e-4
    assert (every_scores - own_scores).min() > -1e-4


@pytest.mark.parametrize("separate", [False, True], ids=["shared", "separate"])
def test_a_model_of_ours_in_transformers(separate, peers, tmp_path):
    """Its tokens, its logits and its translations are ours."""
    translator = ours(separate=separate, use_bias=True, activation="swish", extra_length=4)
    export_marian(translator, tmp_path / "out")
    write_json(tmp_path / "sentences.json", ENGLISH[:8])
    script = Path(__file__).with_name("transformers_translator.py")
    files = [tmp_path / name for name in ("out", "sentences.json", "answers.json")]
    run = subprocess.run([peers, script, *files], capture_output=True, text=True, timeout=600)
    assert run.returncode == 0, run.stderr[-3000:]
    answers = json.loads(files[-1].read_text())
    rows = translator.source_tokenizer.encode(ENGLISH[:8])
    eos = translator.source_tokenizer.special_tokens.eos
    for row, ids, logits in zip(rows, answers["ids"], answers["logits"], strict=True):
        assert ids["source"] == [*row, eos]
        inputs = {"source_ids": [ids["source"]], "target_ids": [ids["target"]]}
        found = translator.models[0]({name: np.array(value) for name, value in inputs.items()})
        np.testing.assert_allclose(np.asarray(found)[0], logits, atol=1e-4)
    special = translator.tokenizer.special_tokens
    generator = SequenceGenerator(translator.models[0], special)
    for ids in answers["ids"]:
        found, _ = generator.search([ids["source"]], options=translator.search_options)
        output = [token for token in np.asarray(found)[0, 0].tolist() if token != special.pad]
        assert [special.bos, *output] == ids["target"]
    assert len(set(answers["texts"])) > 2


TORCH_FILE = """
import sys, safetensors.torch, torch
tensors = safetensors.torch.load_file(sys.argv[1])
tensors["model.encoder.embed_tokens.weight"] = tensors["model.shared.weight"]
name = "model.encoder.layers.0.fc1.weight"
tensors[name] = tensors[name].T.contiguous().T
torch.save(tensors, sys.argv[2])
torch.save(tensors, sys.argv[3], _use_new_zipfile_serialization=False)
tensors = torch.load(sys.argv[3], weights_only=True)  # as our error tells
torch.save(tensors, sys.argv[4])
"""


def test_what_pytorch_saves_and_converts(peers, tmp_path):
    paths = [tmp_path / name for name in ("safetensors", "saved", "old", "converted")]
    for path in paths:
        write_hugging_face(path)
    for path in paths[1:]:
        (path / "model.safetensors").unlink()
    files = [paths[0] / "model.safetensors", *(path / "pytorch_model.bin" for path in paths[1:])]
    run = subprocess.run([peers, "-c", TORCH_FILE, *files], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr[-3000:]
    with pytest.raises(UserInputError, match="PyTorch before 1.6"):
        import_marian(paths[2])
    expected = import_marian(paths[0]).model
    for path in (paths[1], paths[3]):
        assert_same_weights(import_marian(path).model, expected)
