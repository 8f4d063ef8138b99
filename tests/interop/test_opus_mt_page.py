"""What docs/opus_mt.md shows is what the program does, with small models of all toolkits."""

import pathlib

import pytest

from keras_transformer.runs.run_directory import RunDirectory
from keras_transformer.toolkit import cli
from tests.interop.marian_folders import write_hugging_face
from tests.interop.test_bergamot_import import write_folder as write_bergamot
from tests.interop.test_marian_architectures import write_ensemble
from tests.interop.test_marian_architectures import write_folder as write_marian
from tests.interop.test_presets import fake_hub
from tests.pages.page import Page

PAGE = Page("docs/opus_mt.md")


@pytest.fixture
def page_commands(tmp_path, monkeypatch):
    """The commands of the page, whose models are small ones of the same names."""
    pytest.importorskip("ctranslate2")
    from tests.interop.test_ctranslate2_import import write_argos

    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "hub"
    write_hugging_face(folder)
    fake_hub(monkeypatch, folder, [], name="Helsinki-NLP/opus-mt-en-de")
    sizes = dict.fromkeys(("d_model", "encoder_ffn_dim", "decoder_ffn_dim"), 64)
    write_bergamot(pathlib.Path("firefox/enpt"), **sizes)
    write_marian(pathlib.Path("marian/trained"))
    write_ensemble(pathlib.Path("marian/ensemble"))
    write_argos(pathlib.Path("translate-en_de-1_0.argosmodel"))
    return PAGE.commands()


@pytest.mark.commands
def test_the_code_runs_from_top_to_bottom(page_commands, capsys):
    command = next(words for words in page_commands if words[0] == "import")
    for run in (command[-1], "runs/opus_en_roa"):
        assert cli.main([*command[:-1], run]) == 0
    names = PAGE.run_code()
    assert capsys.readouterr().out.splitlines()[-1].startswith("['")
    assert names["translator"].length_penalty == "power"
    assert pathlib.Path("presets/opus_en_de/model.weights.h5").is_file()


@pytest.mark.slow
@pytest.mark.commands
def test_the_model_is_trained_further(page_commands, capsys):
    for side, words in (
        ("en", ("house", "tree")),
        ("de", ("Haus", "Baum")),
        ("pt", ("casa", "árvore")),
    ):
        lines = [f"{word} {number}\n" for number in range(20) for word in words]
        pathlib.Path(f"mine.{side}").write_text("".join(lines))
    commands = [words for words in page_commands if words[0] in ("import", "train")]
    small = ["--steps", "2", "--save-every", "1", "--batch-tokens", "256", "--bleu-every", "0"]
    for words in commands:
        assert cli.main(words + (small if words[0] == "train" else [])) == 0
    capsys.readouterr()
    assert cli.main(["translate", "runs/mine", "--input", "mine.en", "--output", "out"]) == 0
    assert len(pathlib.Path("out").read_text().splitlines()) == 40
    (command,) = (words for words in page_commands if words[:2] == ["export", "bergamot"])
    assert cli.main(command) == 0
    assert pathlib.Path("firefox_mine/enpt/model.enpt.intgemm.alphas.bin").is_file()
    (command,) = (words for words in page_commands if words[:2] == ["export", "page"])
    command.remove("--shortlist")  # the small model has none
    assert cli.main(command) == 0
    assert pathlib.Path("translate.html").is_file()
    search = {"length_penalty": "power", "ending": "transformers"}
    assert RunDirectory("runs/mine").search_defaults().items() >= search.items()


@pytest.mark.slow
@pytest.mark.tensorflow
def test_the_exports(page_commands):
    exports = [
        words for words in page_commands if words[0] == "export" and "runs/en_de" not in words
    ]
    exports = [words for words in exports if words[1] != "page"]
    exports = [words for words in exports if not words[2].endswith("_mine")]
    assert [words[1] for words in exports] == ["saved-model", "litert", "ctranslate2"]
    for words in (page_commands[0], *exports):
        assert cli.main(words) == 0
        assert any(pathlib.Path(words[3]).iterdir())
