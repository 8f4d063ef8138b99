"""The WMT recipes on a small data set that TFDS's own writer put on disk, from invented text."""

import json
import pathlib
import re
import shlex

import pytest

from keras_transformer import Translator
from keras_transformer.data import ParallelCorpus
from keras_transformer.runs.run_directory import RunDirectory
from keras_transformer.toolkit import cli
from keras_transformer.toolkit.cli.program import run_command
from recipes.wmt14_en_de import train as wmt14_en_de
from recipes.wmt14_en_de.settings import WMT14EnDeSettings
from recipes.wmt14_en_fr import train as wmt14_en_fr
from recipes.wmt14_en_fr.settings import WMT14EnFrSettings
from tests.tfds_wmt import write_wmt14
from tests.translation_training.number_text import ENGLISH, GERMAN, SMALL, flags, pairs

pytestmark = pytest.mark.tensorflow
README = pathlib.Path(wmt14_en_de.__file__).with_name("README.md")
RECIPES = {"de": wmt14_en_de, "fr": wmt14_en_fr}


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    """A TFDS folder with both data sets; the foreign language comes first in them."""
    directory = tmp_path_factory.mktemp("tfds")
    english, foreign = (sentences[:216] for sentences in pairs())
    examples = list(zip(foreign, english, strict=True))
    splits = {"train": examples[:180], "validation": examples[180:200], "test": examples[200:]}
    for language in RECIPES:
        write_wmt14(directory, f"{language}-en", splits)
    return directory


def train(language, data_dir, run, *arguments, **settings):
    small = {**SMALL, "choose_average": False, "average": 2, **settings}
    command = ["--data-dir", str(data_dir), "--no-download", "--run", str(run), *arguments]
    return run_command(lambda: RECIPES[language].main([*command, *flags(**small)]))


@pytest.mark.parametrize("language", ["de", pytest.param("fr", marks=pytest.mark.slow)])
def test_a_recipe_runs_from_tfds_to_scores(language, data_dir, tmp_path, capsys):
    run = RunDirectory(tmp_path / "run")
    assert train(language, data_dir, run.path) == 0
    assert capsys.readouterr().out.rstrip().endswith(str(run.path))
    scores = json.loads(run.scores_path.read_text())
    assert scores["training_pairs"] == 180
    assert scores["averaged_checkpoints"] == 2
    assert ("tokenized_compound_split_bleu" in scores) == (language == "de")
    assert scores["evaluated_on"] == {
        "name": "test",
        "text": f"wmt14_translate/{language}-en test",
        "sentences": 16,
    }
    assert scores["command"].startswith(f"python -m recipes.wmt14_en_{language}.train --data-dir ")
    assert len(run.samples_path.read_text().splitlines()) == 16
    assert len(Translator.load(run.path).translate(["one two three"])) == 1


@pytest.mark.slow
def test_the_readmes_evaluation_gives_the_scores_of_the_training(data_dir, tmp_path, capsys):
    run = RunDirectory(tmp_path / "run")
    assert train("de", data_dir, run.path, steps=1, save_every=1, average=1, beam_size=4) == 0
    capsys.readouterr()
    (command,) = re.findall("^keras-transformer (evaluate .*)", README.read_text(), re.MULTILINE)
    command = command.replace("runs/wmt14_en_de/base", str(run.path))
    assert cli.main([*shlex.split(command), "--json"]) == 0
    card = json.loads(capsys.readouterr().out)
    scores = json.loads(run.scores_path.read_text())
    assert (card["sentences"], card["language"]) == (16, "de")
    for name in ("bleu", "chrf", "tokenized_compound_split_bleu"):
        assert card["systems"]["averaged"][name] == scores[name]
    for name, sentences in (("newstest2013", 20), ("newstest2014", 16)):
        sides = ((run.path / f"{name}.{language}").read_text() for language in ("en", "de"))
        pairs = list(zip(*(text.splitlines() for text in sides), strict=True))
        assert len(pairs) == sentences
        assert all(len(source.split()) == len(target.split()) == 4 for source, target in pairs)


@pytest.mark.slow
def test_english_is_the_source_and_text_is_prepared_once(data_dir, tmp_path):
    assert train("de", data_dir, tmp_path / "run", steps=1, save_every=1) == 0
    source_tokenizer, tokenizer = RunDirectory(tmp_path / "run").load_tokenizers()
    prepared = [ParallelCorpus.open(path) for path in (tmp_path / "prepared").iterdir()]
    assert sorted(len(corpus) for corpus in prepared) == [20, 180]  # dev and train
    for corpus in prepared:
        (source,) = source_tokenizer.decode([corpus.source(0)])
        (target,) = tokenizer.decode([corpus.target(0)])
        assert [GERMAN[ENGLISH.index(word)] for word in source.split()] == target.split()


def test_a_data_set_that_is_not_there_is_one_line(tmp_path, capsys):
    assert train("de", tmp_path / "nothing", tmp_path / "run") == 2
    error = capsys.readouterr().err.strip()
    assert error.startswith("error: ")
    assert "wmt14_translate/de-en" in error
    assert "\n" not in error
    assert not (tmp_path / "run").exists()


def test_the_papers_numbers():
    papers = [("base", 100_000, 0.1, 5), ("big", 300_000, 0.3, 20), ("E-learned", 100_000, 0.1, 1)]
    for preset, steps, dropout, average in papers:
        settings = WMT14EnDeSettings(preset=preset)
        assert (settings.steps, settings.dropout, settings.average) == (steps, dropout, average)
        assert (settings.batch_tokens, settings.warmup_steps) == (25_000, 4000)
        assert (settings.vocabulary_size, settings.choose_average) == (37_000, False)
        assert (settings.beam_size, settings.alpha, settings.label_smoothing) == (4, 0.6, 0.1)
        assert settings.language == "de"
    french = WMT14EnFrSettings(preset="big")
    assert (french.dropout, french.vocabulary_size, french.steps) == (0.1, 32_000, 300_000)
    assert (french.language, WMT14EnFrSettings(preset="base").dropout) == (None, 0.1)
    assert WMT14EnFrSettings(preset="D-drop2").dropout == 0.2


@pytest.mark.parametrize("settings", [WMT14EnDeSettings, WMT14EnFrSettings])
def test_a_checkpoint_every_ten_minutes_of_the_papers(settings):
    assert settings(preset="base").save_every * 0.4 == pytest.approx(600)
    assert settings(preset="big").save_every * 1.0 == 600
    assert settings(preset="big", save_every=1500).save_every == 1500
    merged = settings.merge(settings(preset="base").to_dict(), {"preset": "big"})
    assert settings.from_dict(merged) == settings(preset="big")
