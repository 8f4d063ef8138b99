"""The card that lies in every export."""

import json
import shutil

from keras_transformer.formats.model_card import write_model_card
from keras_transformer.inference.translator import Translator
from keras_transformer.runs.run_directory import RunDirectory
from tests.random_translation import build


def card_of(translator, path, options=None):
    """The card as JSON and its page, of an export in this directory."""
    write_model_card(path, translator, kind="LiteRT", options=options or {}, precision="int8")
    page = (path / "model_card.md").read_text("utf-8")
    return json.loads((path / "model_card.json").read_text("utf-8")), page


def test_it_tells_settings_scores_vocabulary_and_versions(trained_run, tmp_path):
    translator = Translator.load(trained_run)
    card, page = card_of(translator, tmp_path, {"beam_size": 4})
    assert card["options"] == {"beam_size": 4}
    assert card["target_vocabulary"]["sha256"] == translator.tokenizer.fingerprint
    assert card["parameters"] == translator.models[0].count_params()
    assert card["versions"]["keras"] == card["models"][0]["trained_with"]["keras"]
    (model,) = card["models"]
    assert model["settings"] == json.loads((trained_run / "settings.json").read_text("utf-8"))
    scores = (trained_run / "scores.json").read_text("utf-8")
    scores = json.loads(scores.replace(f"{trained_run.parent}/", ""))  # nobody's folders
    assert model["scores"] == scores
    assert model["weights"] == "model.weights.h5"
    bleu, signature = f"{scores['bleu']:.4g}", scores["signature"].replace("|", "\\|")
    for value in (bleu, signature, card["exported"], "beam_size", model["weights_sha256"]):
        assert value in page


def test_other_weights_of_the_run_have_no_scores(trained_run, tmp_path):
    translator = Translator.load(trained_run, checkpoint=["step-00000080", "step-00000160"])
    models = card_of(translator, tmp_path)[0]["models"]
    assert [model["scores"] for model in models] == [None, None]
    assert [model["weights"] for model in models] == [
        "step-00000080.weights.h5",
        "step-00000160.weights.h5",
    ]
    assert len({model["weights_sha256"] for model in models}) == 2


def test_the_scores_are_shown_with_their_own_search(trained_run, tmp_path):
    run = RunDirectory(shutil.copytree(trained_run, tmp_path / "run"))
    scores = json.loads(run.scores_path.read_text("utf-8"))
    run.checksums.write_json(run.scores_path, {**scores, "beam_size": 5, "alpha": 1.3})
    translator = Translator.load(run.path)
    _, page = card_of(translator, tmp_path)
    assert 'with the search {"beam_size": 5, "alpha": 1.3}; not of the export' in page


def test_a_compiled_export_says_what_it_costs(trained_run, tmp_path):
    translator = Translator.load(trained_run)
    for jit_compile in (False, True):
        _, page = card_of(translator, tmp_path, {"jit_compile": jit_compile})
        assert ("the first request with a new shape takes seconds longer" in page) == jit_compile


def test_damaged_scores_are_told_and_left_out(trained_run, tmp_path, capsys):
    run = RunDirectory(shutil.copytree(trained_run, tmp_path / "run"))
    bleu = str(json.loads(run.scores_path.read_text("utf-8"))["bleu"])
    run.scores_path.write_text(run.scores_path.read_text("utf-8").replace(bleu, "99.5"), "utf-8")
    translator = Translator.load(run.path)
    (model,) = card_of(translator, tmp_path)[0]["models"]
    assert model["scores"] is None
    assert "scores.json is damaged" in capsys.readouterr().err


def test_a_published_card_tells_no_directories(trained_run, tmp_path):
    run = RunDirectory(shutil.copytree(trained_run, tmp_path / "run"))
    command = f"train --source {tmp_path}/train.en '--run={run.path}' --data data/here"
    scores = json.loads(run.scores_path.read_text("utf-8")) | {"command": command}
    run.checksums.write_json(run.scores_path, scores)
    translator = Translator.load(run.path)
    card, page = card_of(translator, tmp_path)
    for text in (json.dumps(card), page):
        assert "train --source train.en '--run=run' --data data/here" in text
        assert str(tmp_path.parent) not in text


def test_a_preset_tells_no_directories(trained_run, tmp_path):
    run = RunDirectory(shutil.copytree(trained_run, tmp_path / "run"))
    settings = run.settings() | {"tokenizer": f"{tmp_path}/teacher/tokenizer.model"}
    run.checksums.write_json(run.settings_path, settings)
    path = Translator.load(run.path).save_to_preset(tmp_path / "preset")
    assert RunDirectory(path).settings() == run.settings() | {"tokenizer": "tokenizer.model"}


def test_a_model_without_a_run_and_an_ensemble_have_cards(tokenizer, tmp_path):
    models = [build(tokenizer, seed=seed) for seed in (1, 2)]
    translator = Translator(models, tokenizer)
    card, page = card_of(translator, tmp_path)
    assert card["models"] == []
    assert card["parameters"] == 2 * models[0].count_params()
    assert "## Model" not in page
