"""Models that Marian trains in seconds, imported; and ours exported, decoded and trained by it.

Marian's decoder does not compute pre-norm decoders with self-attention as its training and its
scorer do: it leaves keys and values of earlier tokens without normalization. Only scores of such
models are compared.
"""

import subprocess

import numpy as np
import pytest

from benchmarks.marian.program import INSTALL, PYTHON, costs, marian, scores, translations
from keras_transformer import Translator
from keras_transformer.export import export_bergamot, export_marian
from keras_transformer.interop import import_marian, import_marian_runs
from keras_transformer.toolkit import cli
from tests.interop.random_models import translator_from
from tests.interop.test_native_export import FOR_MARIAN
from tests.translation_training.number_text import SMALL, flags, pairs, write_pairs

pytestmark = [pytest.mark.slow, pytest.mark.tensorflow]

SEARCH = {"alpha": 1.0, "length_penalty": "power", "ending": "marian"}
PRE_NORM = {"transformer_preprocess": "n", "transformer_postprocess": "da"}
TOP = {"transformer_postprocess_top": "n"}
FORMS = {
    "post-norm": {},
    "two vocabularies": {
        "vocabs": ["source.spm", "target.spm"],
        "dim_vocabs": [17, 17],
        "tied_embeddings_all": None,
        "tied_embeddings": True,
    },
    "an option of learned positions": {"transformer_train_position_embeddings": True},
    "pre-norm": PRE_NORM | TOP,
    "pre-norm without a top": PRE_NORM,
    "pre-norm with SSRUs": {
        **PRE_NORM,
        **TOP,
        "transformer_decoder_autoreg": "rnn",
        "dec_cell": "ssru",
    },
    "right to left": {"right_left": True},
    "tied layers": {"dec_depth": 3, "transformer_tied_layers": [1, 2, 1]},
}
SIZES = {"dim_emb": 32, "transformer_dim_ffn": 64, "transformer_heads": 2}
SIZES |= {"enc_depth": 2, "dec_depth": 2, "dim_vocabs": [22, 22]}


@pytest.fixture(scope="module", autouse=True)
def _marian():
    """Skip all where Marian is not there."""
    if not PYTHON.exists():
        pytest.skip(f"Marian's environment is missing: {INSTALL}")
    if subprocess.run([PYTHON, "-c", "import _pymarian"], capture_output=True).returncode:
        pytest.skip("Marian's environment lacks pymarian")


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    """Two files with pairs, as strings."""
    return write_pairs(tmp_path_factory.mktemp("texts"), "train")


def trained(path, texts, vocabularies, **options):
    """Let Marian train a model into a folder; returns its vocabularies."""
    path.mkdir(exist_ok=True)
    options = SIZES | {"tied_embeddings_all": True, "after_batches": 250, "seed": 1} | options
    marian(
        "train",
        type="transformer",
        model=path / "model.npz",
        train_sets=texts,
        vocabs=vocabularies,
        mini_batch=32,
        learn_rate=0.003,
        workspace=256,
        **{name: value for name, value in options.items() if value is not None},
    )
    return vocabularies


def assert_same_outputs(imported, models, vocabularies, tmp_path):
    """Of greedy search and beam 4, for some sentences, most of which Marian translates well."""
    translator = translator_from(imported, **SEARCH)
    sources, targets = (side[::7] for side in pairs())
    (tmp_path / "sources").write_text("\n".join(sources) + "\n")
    options = imported.model.options
    if options.normalize_first and options.decoder_unit == "attention":
        targets = translator.translate(sources)
    else:
        for beam_size in (1, 4):
            expected = translations(models, vocabularies, tmp_path / "sources", beam_size)
            assert len({*expected}) > 20
            found = translator.with_search(beam_size=beam_size).translate(sources)
            assert found == [" ".join(text.split()) for text in expected]
    (tmp_path / "targets").write_text("\n".join(targets) + "\n", "utf-8")
    expected = scores(models[0], vocabularies, tmp_path / "sources", tmp_path / "targets")
    np.testing.assert_allclose(translator.score(sources, targets), expected, atol=1e-4)


@pytest.mark.parametrize("form", FORMS)
def test_what_marian_trained_translates_as_marian(form, texts, tmp_path):
    path = tmp_path / "marian"
    names = FORMS[form].get("vocabs", ["vocab.spm"] * 2)
    options = {name: value for name, value in FORMS[form].items() if name != "vocabs"}
    vocabularies = trained(path, texts, [path / name for name in names], **options)
    (path / "decoder.yml").write_text(f"models: [model.npz]\nvocabs: {names}\nbeam-size: 4\n")
    imported = import_marian(path)
    assert_same_outputs(imported, [path / "model.npz"], vocabularies, tmp_path)


def test_an_ensemble_translates_almost_as_marians(texts, tmp_path):
    """Marian multiplies probabilities where we average them."""
    path = tmp_path / "marian"
    vocabularies = [path / "vocab.spm"] * 2
    for number in (1, 2):
        trained(path, texts, vocabularies, seed=number)
        (path / "model.npz").rename(path / f"model{number}.npz")
        for rest in path.glob("model.npz.*"):
            rest.unlink()
    models = [path / f"model{number}.npz" for number in (1, 2)]
    (path / "decoder.yml").write_text(
        "models: [model1.npz, model2.npz]\nvocabs: [vocab.spm, vocab.spm]\n"
    )
    runs = import_marian_runs(path, tmp_path / "runs")
    sources = pairs()[0][::3]
    (tmp_path / "sources").write_text("\n".join(sources) + "\n")
    found = Translator.load([run.path for run in runs], **SEARCH).translate(sources)
    alone = Translator.load(runs[0].path, **SEARCH).translate(sources)
    expected = translations(models, vocabularies, tmp_path / "sources", 4)
    expected = [" ".join(text.split()) for text in expected]

    def equal(lines):
        return sum(one == other for one, other in zip(lines, expected, strict=True))

    assert equal(found) >= 0.9 * len(sources)
    assert equal(found) > equal(alone)


@pytest.fixture(scope="module")
def run(texts, tmp_path_factory):
    """A function that trains a run of ours with more flags for some seconds."""

    def train(**options):
        path = tmp_path_factory.mktemp("runs") / "run"
        settings = {**SMALL, **FOR_MARIAN, **options, "bleu_every": 0}
        settings |= {"steps": 300, "warmup_steps": 80, "save_every": 150}
        source, target = texts
        command = ["train", "--source", source, "--target", target, "--run", str(path)]
        assert cli.main([*command, *flags(**settings)]) == 0
        return path

    return train


@pytest.mark.parametrize(
    "options",
    [{}, {"decoder_unit": "ssru"}, {"tie_weights": False}, {"normalize_first": True}],
    ids=lambda options: ", ".join(options) or "plain",
)
def test_what_we_trained_marian_translates_and_trains_further(options, run, texts, tmp_path):
    translator = Translator.load(run(**options), **SEARCH)
    path = export_marian(translator, tmp_path / "marian", native=True)
    model, vocabularies = path / "model.npz", [path / "vocab.spm"] * 2
    assert_same_outputs(import_marian(path), [model], vocabularies, tmp_path)
    binary = export_bergamot(translator, tmp_path / "ab")
    found = [
        translations([model], [vocabulary] * 2, tmp_path / "sources", 4)
        for model, vocabulary in (
            (path / "model.npz", path / "vocab.spm"),
            (binary / "model.ab.bin", binary / "vocab.ab.spm"),
        )
    ]
    assert found[0] == found[1]
    # One batch, whose cost Marian reports before it learns from it.
    batch = [side[:64] for side in pairs()]
    for name, lines in zip(("source", "target"), batch, strict=True):
        (tmp_path / f"batch.{name}").write_text("\n".join(lines) + "\n", "utf-8")
    found = costs(
        marian(
            "train",
            model=model,
            train_sets=[tmp_path / f"batch.{name}" for name in ("source", "target")],
            vocabs=vocabularies,
            mini_batch=64,
            maxi_batch=1,
            disp_freq=1,
            after_batches=20,
            learn_rate=0.001,
            workspace=256,
        )
    )
    tokens = sum(len(ids) + 1 for ids in translator.tokenizer.encode(batch[1]))
    assert found[0] == pytest.approx(-sum(translator.score(*batch)) / tokens, abs=1e-4)
    assert found[-1] < found[0]
