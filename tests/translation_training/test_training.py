"""Whole trainings by `keras-transformer train`, seconds long."""

import json

import numpy as np
import pytest

from keras_transformer import Translator, training
from keras_transformer.data import ParallelCorpus
from keras_transformer.errors import LongSentenceWarning
from keras_transformer.runs.run_directory import RunDirectory
from keras_transformer.search_options import SearchOptions
from keras_transformer.toolkit import cli
from keras_transformer.training import probe, training_models, training_run
from keras_transformer.training.translation.training import _middle_sentence
from tests.training.equal_runs import rows
from tests.translation_training.number_text import (
    ENGLISH,
    GERMAN,
    SMALL,
    flags,
    train_pairs,
    write_pairs,
)
from tests.written_files import one_line

pytestmark = pytest.mark.tensorflow

FEW = {**SMALL, "choose_average": False}


def train(tmp_path, *arguments, run="run", **settings):
    """Train on numbers of four digits; return the exit code and the run."""
    return train_pairs(tmp_path, tmp_path / "runs" / run, *arguments, **{**FEW, **settings})


def tuned(tmp_path, origin, **settings):
    """Start from a run; return the exit code and the new run."""
    return train_pairs(tmp_path, tmp_path / "run", "--from", origin.path, **settings)


@pytest.fixture
def learned(trained_run):
    """A run that `keras-transformer train` made."""
    return RunDirectory(trained_run)


def test_two_text_files_become_a_translator(learned):
    run = learned
    translations = Translator.load(run.path).translate(["one two three five", "five five four one"])
    assert translations == ["eins zwei drei fünf", "fünf fünf vier eins"]
    scores = json.loads(run.scores_path.read_text())
    assert scores["bleu"] > 90
    assert scores["evaluated_on"]["name"] == "dev"
    assert scores["command"].startswith("keras-transformer train --source ")
    assert scores["training_pairs"] == 625 - 20
    assert scores["in_training_text"]["dev"]["pairs"] == 0


def test_bleu_of_the_dev_text_is_measured_while_training(learned):
    validations = rows(learned.validation_path)
    assert [int(row["step"]) for row in validations] == [80, 160, 240, 320, 400]
    bleu = [float(row["val_bleu"]) for row in validations]
    assert bleu[0] < bleu[-1] == pytest.approx(100)


def test_the_web_app_gets_examples_of_the_dev_text(learned):
    examples = learned.record().examples
    assert 1 <= len(examples) <= 4
    assert all(12 <= len(sentence) <= 80 for sentence in examples)


def test_the_sentence_to_try_needs_no_escapes():
    sources = ["don't", "a small house", "it's", "", "an old tree stands"]
    assert _middle_sentence(sources) == "an old tree stands"
    assert _middle_sentence(["don't"]) == "don't"
    assert _middle_sentence([" "]) == ""


def test_a_shortlist_is_made_of_the_training_text(learned, tmp_path):
    few = {"steps": 1, "warmup_steps": 100, "bleu_every": 0}
    code, run = tuned(tmp_path, learned, shortlist=True, **few)
    assert code == 0
    translator = Translator.load(run.path, shortlist=True)
    sentence = "one two three five"
    assert translator.translate([sentence]) == ["eins zwei drei fünf"]
    (row,) = translator.encode_pairs([sentence], ["eins"])[0]
    found = translator.shortlist.candidates([[*row, 2]])
    needed = translator.tokenizer.encode(["eins zwei drei fünf"])[0]
    assert set(needed) < set(found.ravel().tolist())
    assert "  shortlist.npz\n" in run.checksums.path.read_text()

    few["shortlist"] = False
    assert train_pairs(tmp_path, tmp_path / "next", "--from", run.path, **few)[0] == 0
    kept = Translator.load(tmp_path / "next", shortlist=True).shortlist
    np.testing.assert_array_equal(kept.translations, translator.shortlist.translations)


def test_text_that_lacks_lengths_is_warned_of(tmp_path, capsys):
    random = np.random.default_rng(1)
    for stem, lengths in (("train", range(3, 9)), ("dev", [40])):
        digits = [random.integers(5, size=length) for length in lengths for _ in range(200)]
        for side, words in (("en", ENGLISH), ("de", GERMAN)):
            lines = "".join(f"{' '.join(words[digit] for digit in row)}\n" for row in digits)
            (tmp_path / f"{stem}.{side}").write_text(lines, "utf-8")
    files = [f"--{part}={tmp_path / name}" for part, name in (
        ("source", "train.en"), ("target", "train.de"),
        ("dev-source", "dev.en"), ("dev-target", "dev.de"),
    )]  # fmt: skip
    few = {**SMALL, "steps": 1, "bleu_every": 0, "choose_average": False, "probe": False}
    assert cli.main(["train", *files, f"--run={tmp_path / 'run'}", *flags(**few)]) == 0
    out = capsys.readouterr().out
    assert f"warning: {tmp_path / 'train.en'} is sorted by length. " in out
    assert "warning: 100% of the dev sentences are longer than 99% of the training text. " in out


@pytest.mark.slow
def test_long_lines_of_the_dev_text_end_no_training(learned, tmp_path, monkeypatch):
    monkeypatch.setitem(SearchOptions.__init__.__kwdefaults__, "max_source_length", 3)
    with pytest.warns(LongSentenceWarning, match="its end is cut off"):
        assert tuned(tmp_path, learned, steps=2)[0] == 0


@pytest.fixture
def probed(monkeypatch):
    """What the probe of each training is told."""
    told = []

    def recorded(*arguments, **options):
        told.append(options)
        return probe(*arguments, **options)

    monkeypatch.setattr(training_run, "probe", recorded)
    return told


def test_a_training_from_a_run_goes_on_and_frozen_parts_stay(learned, tmp_path, probed):
    few = {"steps": 4, "freeze": "encoder decoder_layer_1", "bleu_every": 0}
    few["choose_average"] = False
    code, run = tuned(tmp_path, learned, **few)
    assert code == 0
    assert probed == [{"device_tokens": None, "fixed": ("precision",)}]
    assert run.record().origin == str(learned.path)
    assert run.record().tokenizer_fingerprint == learned.record().tokenizer_fingerprint
    assert run.settings() == {**learned.settings(), **few}
    old, new = learned.load_model(), run.load_model("step-00000004")
    for layer in old.layers:
        for before, after in zip(
            layer.get_weights(), new.get_layer(layer.name).get_weights(), strict=True
        ):
            if layer.name in ("encoder_layer_1", "decoder_layer_1"):
                np.testing.assert_array_equal(before, after)
            elif layer.name == "embedding":
                assert np.abs(before - after).max() > 0
    assert all(layer.trainable for layer in new.layers)  # the next training freezes its own


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"precision": "mixed_bfloat16"}, "`precision` must be 'float32'"),
        ({"num_layers": 3}, "`num_layers` must be 2"),
        ({"symbols": "<X>"}, "`symbols` must be '<BT>'"),
    ],
)
def test_a_training_from_a_run_has_its_model_and_tokenizers(
    learned, tmp_path, capsys, settings, message
):
    assert tuned(tmp_path, learned, **settings)[0] == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_separate_vocabularies_padded_to_a_multiple_of_8(tmp_path):
    code, run = train(
        tmp_path, separate_vocabularies=True, vocabulary_size=35, subword_sampling=0.2, ema=True
    )
    assert code == 0
    source_tokenizer, tokenizer = run.load_tokenizers()
    assert source_tokenizer.fingerprint != tokenizer.fingerprint
    assert tokenizer.vocabulary_size == 35
    assert run.load_model().output_shape[-1] == 40
    assert len(Translator.load(run.path).translate(["one two"])) == 1


def test_the_models_and_the_searchs_settings_are_flags(tmp_path, monkeypatch):
    r_drops, make = [], training.training_model

    def training_model(*args, **options):
        trainer = make(*args, **options)
        r_drops.append(trainer.r_drop)
        return trainer

    monkeypatch.setattr(training_models, "training_model", training_model)
    code, run = train(
        tmp_path,
        num_encoder_layers=2,
        key_dim=3,
        value_dim=5,
        use_bias=True,
        activation="gelu",
        layer_norm_epsilon=1e-4,
        final_norm=True,
        tie_weights=False,
        positions="words",
        separate_vocabularies=True,
        vocabulary_size=24,
        global_clipnorm=1e-3,
        word_dropout=0.1,
        r_drop=2.0,
        extra_length=1,
        steps=2,
        log_every=1,
        bleu_every=0,
    )
    assert code == 0
    model = run.load_model()
    names = [layer.name for layer in model.layers]
    assert [name for name in names if name.endswith("_2")] == ["encoder_layer_2"]
    attention = model.get_layer("decoder_layer_1").get_config()
    assert [attention[name] for name in ("key_dim", "value_dim", "use_bias")] == [3, 5, True]
    assert (attention["activation"], model.get_layer("decoder_norm").epsilon) == ("gelu", 1e-4)
    embedding = model.get_layer("target_embedding")
    assert (embedding.tie_weights, embedding.word_dropout, r_drops) == (False, 0.1, [2.0])
    norms = [float(row["gradient_norm"]) for row in rows(run.metrics_path)]
    assert min(norms) > 1e-3  # before it is clipped
    assert len(Translator.load(run.path).translate(["one two three five"])) == 1


@pytest.mark.slow
def test_a_sentence_needs_positions_that_are_learned(tmp_path, capsys):
    few = {"positions": "learned", "steps": 1, "save_every": 1, "bleu_every": 0}
    assert train(tmp_path, max_length=4, **few)[0] == 2
    assert "`max_length` must be at least " in capsys.readouterr().err
    code, run = train(tmp_path, max_length=9, **few)
    assert code == 0
    assert run.load_model().get_layer("embedding").max_length == 9


@pytest.mark.slow
def test_a_mixed_in_text_is_read_by_its_weight(tmp_path, capsys):
    more = write_pairs(tmp_path, "more", length=2)
    code, run = train(tmp_path, "--mix", *more, "3", drop_duplicates=False)
    assert code == 0
    scores = json.loads(run.scores_path.read_text())
    assert scores["training_pairs"] == 625 - 20 + 25
    assert "more.en: " in capsys.readouterr().err


def test_text_that_a_model_of_the_other_direction_translated_is_mixed_in(learned, tmp_path):
    mono = tmp_path / "mono.en"
    mono.write_text("one two three four\n\nfive four three two\n", encoding="utf-8")
    translated = tmp_path / "mono.bt.de"
    back = ["translate", str(learned.path), "--beam-size", "1", "--tag", "<BT>"]
    assert cli.main([*back, "--input", str(mono), "--output", str(translated)]) == 0
    lines = translated.read_text(encoding="utf-8").splitlines()
    assert lines == ["<BT> eins zwei drei vier", "", "<BT> fünf vier drei zwei"]

    english, german = write_pairs(tmp_path, "train")
    path = tmp_path / "runs" / "run"
    command = ["train", "--source", german, "--target", english, "--run", str(path)]
    mix = ["--mix", str(translated), str(mono), "0.5"]
    assert cli.main([*command, *mix, *flags(**{**FEW, "steps": 2, "bleu_every": 0})]) == 0
    run = RunDirectory(path)
    scores = json.loads(run.scores_path.read_text())
    assert scores["training_pairs"] == 625 - 20 + 2
    assert [text["empty"] for text in scores["dropped_pairs"]] == [0, 1]
    assert scores["dropped_pairs"][1]["text"] == str(translated)
    source_tokenizer, _ = run.load_tokenizers()
    (ids,) = source_tokenizer.encode(["<BT> eins"])
    assert source_tokenizer.pieces(ids)[:2] in (["▁", "<BT>"], ["<BT>", "▁eins"])


def test_a_run_is_not_overwritten_unasked(learned, tmp_path, capsys):
    before = learned.weights_path.read_bytes()
    assert train_pairs(tmp_path, learned.path)[0] == 2
    assert "--resume to continue the run in it, or --overwrite" in capsys.readouterr().err
    assert train_pairs(tmp_path, learned.path, "--overwrite", "--from", learned.path)[0] == 2
    assert "cannot start from the run that it replaces" in capsys.readouterr().err
    assert learned.weights_path.read_bytes() == before


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"vocabulary_size": 10}, "`vocabulary_size` is too small"),
        ({"batch_tokens": 2}, "`batch_tokens` must fit the longest pair"),
        ({"freeze": "attic"}, "attic"),
        ({"bleu_tokenize": "char13", "bleu_every": 0}, "char13"),
        ({"tokenizer": "none.model"}, "Cannot read none.model"),
        (
            {"tokenizer": "de.model", "separate_vocabularies": True, "positions": "words"},
            "`separate_vocabularies` with `tokenizer` needs `source_tokenizer`",
        ),
    ],
)
def test_what_a_user_can_mend_is_one_line(tmp_path, capsys, settings, message):
    code, run = train(tmp_path, **settings)
    assert code == 2
    assert message in one_line(capsys)
    assert not run.path.exists()


def test_help_tells_every_setting_with_its_reason(capsys):
    with pytest.raises(SystemExit) as exit_:
        cli.main(["train", "--help-all"])
    assert exit_.value.code == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "--source FILE [FILE ...]" in text
    assert "--subword-sampling FLOAT" in text
    assert "the paper uses 37,000 for millions of pairs" in text


def test_a_run_goes_on_with_more_steps_and_with_its_own_settings_alone(tmp_path, capsys, probed):
    # The same command begins the run, and goes on with it.
    few = {"dropout": 0.1, "bleu_every": 0}
    code, run = train(tmp_path, "--resume", **few, device_tokens=512, tune_alpha=True)
    assert code == 0
    scores, search = json.loads(run.scores_path.read_text()), run.search_defaults()
    assert scores["tuned_on"]["sentences"] == 20
    assert (search["alpha"], search["beam_size"]) == (scores["alpha"], scores["beam_size"])
    code, _ = train(tmp_path, "--resume", **few, steps=14, accumulate=2, tune_alpha=False)
    assert code == 0
    assert json.loads(run.scores_path.read_text())["alpha"] == 0.6
    assert run.search_defaults() == {**search, "alpha": 0.6}
    assert probed == [
        {"device_tokens": 512, "fixed": ()},
        {"device_tokens": None, "fixed": ("batch_tokens", "precision")},
    ]
    assert [int(row["step"]) for row in rows(run.metrics_path)] == [*range(1, 11), 12, 14]
    names = ("steps", "accumulate", "device_tokens")
    assert [run.settings()[name] for name in names] == [14, 2, None]
    assert train(tmp_path, "--resume", "--from", str(run.path), **few)[0] == 2
    assert "started from no other run" in capsys.readouterr().err
    assert run.checkpoints.paths()[-1] == run.checkpoints.path_of(14)
    capsys.readouterr()
    assert train(tmp_path, "--resume", **few, batch_tokens=256)[0] == 2
    assert "`batch_tokens` was 512 and is 256" in capsys.readouterr().err
    source, target = write_pairs(tmp_path, "train", stop=600)  # other text
    again = ["train", "--source", source, "--target", target, "--run", str(run.path)]
    assert cli.main([*again, "--resume", "--steps", "20"]) == 2
    assert "with different text, tokenizers" in capsys.readouterr().err


@pytest.mark.slow
def test_a_run_broken_off_at_once_begins_as_it_did(learned, tmp_path):
    code, run = tuned(tmp_path, learned, steps=2, bleu_every=0, dropout=0.0)
    assert code == 0
    losses = run.metrics_path.read_text().splitlines()[1:]
    for path in [
        *run.checkpoints.paths(),
        *run.checkpoints.states()[1:],
        run.weights_path,
        run.metrics_path,
    ]:
        path.unlink()  # what a kill before the first checkpoint leaves
    assert train_pairs(tmp_path, run.path, "--resume")[0] == 0
    assert run.record().origin == str(learned.path)
    again = run.metrics_path.read_text().splitlines()[1:]
    assert [row.split(",")[:2] for row in again] == [row.split(",")[:2] for row in losses]


def test_noise_is_in_the_training_text_alone(tmp_path):
    code, run = train(
        tmp_path, inline_noise=0.5, byte_fallback=True, vocabulary_size=304, steps=2, bleu_every=0
    )
    assert code == 0
    tokenizer, _ = run.load_tokenizers()
    corpora = {
        len(corpus): set(tokenizer.pieces(corpus.target_ids.tolist()))
        for corpus in map(ParallelCorpus.open, (run.path.parent / "prepared").iterdir())
    }
    assert sorted(corpora) == [20, 605]
    assert "<0xE2>" in corpora[605]  # of symbols
    assert "<0xE2>" not in corpora[20]
