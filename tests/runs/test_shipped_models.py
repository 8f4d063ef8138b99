"""Models that come with the package: their list, and names that stand for them."""

import json
import shutil
import subprocess

import pytest

from docs.tools.models_table import PLACE, table
from keras_transformer import RunDirectory, Translator, presets
from keras_transformer.errors import UserInputError
from keras_transformer.formats.registry import check_export
from keras_transformer.runs import shipped_models
from keras_transformer.runs.shipped_models import LIST, found_run
from keras_transformer.text import SentencePieceTokenizer
from keras_transformer.toolkit import cli
from tests.pages.page import ROOT, Page
from tests.random_translation import build, sentences

HEAD = (ROOT / "saved_models" / LIST).read_text("utf-8").splitlines()[0]
ROW = "{},en,de,13.5,39.4,Tatoeba dev,150,CC BY 2.0 FR,Short sentences"


def write_list(folder, *names):
    folder.mkdir(exist_ok=True)
    (folder / LIST).write_text("\n".join([HEAD, *map(ROW.format, names), ""]), "utf-8")


@pytest.fixture(scope="module")
def preset(tmp_path_factory):
    tokenizer = SentencePieceTokenizer.train(sentences(200), vocabulary_size=64)
    translator = Translator(build(tokenizer), tokenizer, beam_size=1, extra_length=3)
    path = tmp_path_factory.mktemp("preset") / "model"
    translator.save_to_preset(path, precision="int8")
    (path / "checkpoints").rmdir()  # Git has no empty folders
    return path


@pytest.fixture
def clone(tmp_path, monkeypatch, preset):
    """The `saved_models` of a clone, with the model en_de; tests run in an empty folder."""
    folder = tmp_path / "saved_models"
    write_list(folder, "en_de", "absent")
    shutil.copytree(preset, folder / "en_de")
    monkeypatch.setattr(shipped_models, "_CLONE", folder)
    shipped_models._note_once.cache_clear()
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return folder


def test_the_list_has_the_models_that_are_there(clone):
    (model,) = presets()
    assert (model.name, model.path) == ("en_de", clone / "en_de")
    assert (model.bleu, model.bleu_text, model.megabytes) == (39.4, "Tatoeba dev", 13.5)


def test_a_second_distribution_adds_models_and_a_clone_comes_first(clone, monkeypatch, tmp_path):
    folder = tmp_path / "site" / "keras_transformer_models"
    folder.parent.mkdir()
    write_list(folder, "en_de", "de_en")
    for name in ("en_de", "de_en"):
        shutil.copytree(clone / "en_de", folder / name)
    monkeypatch.syspath_prepend(str(folder.parent))
    assert [model.path for model in presets()] == [clone / "en_de", folder / "de_en"]
    shutil.rmtree(clone)
    assert [model.path for model in presets()] == [folder / "en_de", folder / "de_en"]
    assert RunDirectory.open("de_en").path == folder / "de_en"


@pytest.mark.parametrize(
    "text",
    [
        HEAD.replace("bleu,", "blue,") + "\n" + ROW.format("en_de"),
        HEAD + "\n" + ROW.format("../en_de"),
        HEAD + "\n" + ROW.format("en_de").replace("39.4", "many"),
        HEAD + "\n" + ROW.format("en_de").replace("13.5", "-1"),
        HEAD + "\n" + ROW.format("en_de").rpartition(",")[0],
        HEAD + "\n" + ROW.format("en_de") + ",more",
        HEAD + "\n" + ROW.format("en_de") + "x" * 200_000,
        HEAD + "\n" + ROW.format("en_de") + "\udcff",
    ],
)
def test_a_damaged_list_is_one_line_and_no_obstacle_to_runs_of_ones_own(clone, text, preset):
    (clone / LIST).write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(UserInputError, match=r"models.csv is damaged: [^\n]+$"):
        presets()
    shutil.copytree(preset, "own")
    assert RunDirectory.open("own").search_defaults()["beam_size"] == 1
    with pytest.raises(UserInputError, match="damaged"):
        RunDirectory.open("en_de")


def test_a_name_stands_for_a_shipped_model_and_says_so_once(clone, capfd):
    named = Translator.from_preset("en_de")
    loaded = Translator.load("en_de")
    assert loaded.origins[0][0].path == clone / "en_de"
    assert named.translate(sentences(2)) == loaded.translate(sentences(2))
    assert capfd.readouterr().err == f"en_de: the shipped model in {clone / 'en_de'}\n"


def test_a_folder_of_this_name_wins_and_is_told(clone, preset, capfd, tmp_path, monkeypatch):
    here = tmp_path / "here" / "en_de"
    here.mkdir()
    told = f"en_de: {here}, not the shipped model in {clone / 'en_de'}\n"
    with pytest.raises(UserInputError, match="en_de is not a run of keras_transformer"):
        RunDirectory.open("en_de")
    assert capfd.readouterr().err == told
    shutil.copytree(preset, here, dirs_exist_ok=True)
    assert str(RunDirectory.open("en_de").path) == "en_de"
    assert str(found_run("./en_de")) == "en_de"  # a path, as its separator shows
    capfd.readouterr()
    monkeypatch.chdir(clone)
    assert str(found_run("en_de")) == "en_de"
    assert capfd.readouterr().err == ""


def test_an_unknown_name_lists_the_shipped_ones(clone):
    for load in (Translator.load, Translator.from_preset):
        with pytest.raises(UserInputError, match=r"no .* en_fr.* Shipped models: en_de\.$"):
            load("en_fr")


def test_the_code_of_the_page_runs(clone, capsys):
    (code,) = Page("docs/models.md").blocks("python")
    exec(code, {})
    assert capsys.readouterr().out == "['en_de']\n"


def test_the_page_has_a_table(clone):
    lines = table().splitlines()
    assert lines[0].startswith("| name | languages | MB |")
    assert lines[2].startswith("| en_de | en → de | 13.5 | 39.4 | Tatoeba dev | 150 |")
    assert PLACE in Page("docs/models.md").text
    shutil.rmtree(clone)
    assert table() == "This version has no shipped models yet."


@pytest.mark.commands
def test_commands_take_names(clone, capfd, tmp_path):
    def call(*arguments):
        assert cli.main(list(arguments)) == 0
        return capfd.readouterr().out

    (listed,) = json.loads(call("models", "--json"))
    assert (listed["name"], listed["path"]) == ("en_de", str(clone / "en_de"))
    assert call("models").splitlines()[1].startswith("en_de  en → de")
    (tmp_path / "text").write_text("a small house\n")
    text = str(tmp_path / "text")
    assert call("score", "en_de", "--source", text, "--target", text).startswith("-")
    call("export", "preset", "en_de", "copy", "--precision", "int8")
    weights = [path / "model.safetensors" for path in (clone / "en_de", tmp_path / "here" / "copy")]
    assert weights[0].read_bytes() == weights[1].read_bytes()


@pytest.mark.commands
def test_without_shipped_models_the_app_needs_a_run(clone, capfd):
    shutil.rmtree(clone)
    assert cli.main(["app"]) == 2
    (told,) = capfd.readouterr().err.splitlines()
    assert told.startswith("error: No models are shipped with this installation: pass a RUN")
    assert cli.main(["models"]) == 0
    assert capfd.readouterr().out == "No models are shipped with this installation.\n"


@pytest.mark.commands
def test_without_a_run_the_app_loads_all_shipped_models(clone, capfd, monkeypatch):
    def stop(paths, limits):
        raise UserInputError(f"loads {[*map(str, paths)]}")

    monkeypatch.setattr("keras_transformer.toolkit.app.loaded_runs.loaded_runs", stop)
    assert cli.main(["app", "--port", "0"]) == 2
    assert capfd.readouterr().err.endswith(f"error: loads ['{clone / 'en_de'}']\n")


@pytest.mark.parametrize("model", presets(), ids=lambda model: model.name)
def test_a_model_of_this_clone_is_complete(model):
    """The files of the list, their checksums, and the graph of these weights."""
    run = RunDirectory.open(model.path)
    run.checksums.check_files()
    assert run.record().source_language == model.source_language
    assert run.record().target_language == model.target_language
    assert check_export(model.path / "litert") > 0
    card = json.loads((model.path / "litert" / "model_card.json").read_text("utf-8"))
    listed = (run.checksums.path).read_text("utf-8")
    assert f"{card['models'][0]['weights_sha256']}  {run.final_weights().name}\n" in listed
    assert card["precision"] == "int8"
    assert (model.path / "README.md").is_file()
    size = sum(path.stat().st_size for path in model.path.rglob("*") if path.is_file())
    assert model.megabytes == pytest.approx(size / 1e6, abs=0.1)
    ignored = subprocess.run(
        ["git", "check-ignore", "--quiet", "--no-index", run.record_path], cwd=ROOT, check=False
    )
    assert ignored.returncode == 1  # listed in .gitignore as `!saved_models/NAME/`
