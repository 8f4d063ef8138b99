"""docs/tutorials/language_pair.md, with a small training on invented text in Tatoeba's form."""

import contextlib

import pytest

from keras_transformer import Translator
from tests.pages.page import Page, run_code
from tests.pages.shell import SMALL_PROGRAM, install, start
from tests.small_trained_run import SETTINGS
from tests.translation_training.number_text import flags, pairs

PAGE = Page("docs/tutorials/language_pair.md")
NETWORK, *HERE = [block for block in PAGE.blocks("sh") if "app " not in block]


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    """A folder in which a reader has typed everything but the download and the web app."""
    folder = tmp_path_factory.mktemp("language_pair")
    english, german = pairs(5)
    lines = [f"{pair[0]}\t{pair[1]}\tCC-BY" for pair in zip(english, german, strict=True)]
    lines += [f"{english[0]}\tnull\tCC-BY"]  # a second translation
    (folder / "deu.txt").write_text("".join(f"{line}\n" for line in lines), "utf-8")
    # Its steps end the training long before the minutes of the page.
    environment = install(folder / "bin", SMALL_PROGRAM, small=flags(**SETTINGS))
    process = start("\n".join(HERE), environment, folder)
    output, errors = process.communicate(timeout=900)
    assert process.returncode == 0, errors
    return folder, output


def lines_of(path):
    return path.read_text("utf-8").splitlines()


@pytest.mark.slow
@pytest.mark.tensorflow
def test_no_sentence_of_the_test_is_in_the_training(reader):
    folder, _ = reader
    sides = {
        name: lines_of(folder / name) for name in ("train.en", "train.de", "test.en", "test.de")
    }
    assert [len(lines) for lines in sides.values()] == [2125, 2125, 1000, 1000]
    assert not set(sides["train.en"]) & set(sides["test.en"])
    of = dict(zip(*pairs(5), strict=True))
    known = zip(sides["test.en"], sides["test.de"], strict=True)
    assert sum(of[source] == target for source, target in known) >= 999


@pytest.mark.slow
@pytest.mark.tensorflow
def test_the_translator_has_learned(reader, capsys):
    folder, output = reader
    scores = next(line.split() for line in output.splitlines() if line.startswith("averaged"))
    assert float(scores[1]) > 50
    assert len(lines_of(folder / "test.out")) == 1000
    assert (folder / "exports" / "en_de" / "1" / "saved_model.pb").is_file()
    # The widths of the columns depend on the scores.
    header = next(line.split() for line in output.splitlines() if line.startswith("system"))
    assert header in map(str.split, PAGE.text.splitlines())
    (code,) = PAGE.blocks("python")
    with contextlib.chdir(folder):
        names = run_code([code], PAGE.path.name)
        assert isinstance(names["translator"], Translator)
    assert capsys.readouterr().out.strip()
