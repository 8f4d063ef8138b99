"""The choice among n best translations."""

import random

import pytest

from keras_transformer.toolkit.cli import run_command
from recipes.distilled import choose

NBEST = """\
0 ||| ein Haus ||| -0.5
0 ||| ein kleines Haus am See ||| -1.25
0 ||| Haus ||| -2.0
1 |||  ||| -0.25
1 ||| a ||| b ||| -0.75
"""
REFERENCES = "ein kleines Haus am See\na ||| b\n"


@pytest.fixture
def command(tmp_path):
    """Run the command; returns its exit code."""

    def call(*flags, nbest=NBEST):
        (tmp_path / "nbest").write_text(nbest)
        (tmp_path / "references").write_text(REFERENCES)
        files = [tmp_path / "nbest", tmp_path / "output", "--reference", tmp_path / "references"]
        return run_command(lambda: choose.main([*map(str, files), *flags]))

    return call


@pytest.fixture
def chosen(command, tmp_path):
    """Run the command; returns the lines that it has written."""

    def call(*flags):
        assert command(*flags) == 0
        return (tmp_path / "output").read_text().splitlines()

    return call


def test_the_first_or_the_nearest(chosen):
    assert chosen() == ["ein Haus", ""]
    nearest = chosen("--by", "sentence-bleu", "--tokenize", "none")
    assert nearest == ["ein kleines Haus am See", "a ||| b"]


def test_any_by_the_seed(chosen):
    draw = random.Random(7)
    expected = [
        draw.choice(["ein Haus", "ein kleines Haus am See", "Haus"]),
        draw.choice(["", "a ||| b"]),
    ]
    assert chosen("--by", "random", "--seed", "7") == expected
    found = {tuple(chosen("--by", "random", "--seed", str(seed))) for seed in range(30)}
    assert len(found) == 6


@pytest.mark.parametrize(
    ("nbest", "message"),
    [
        ("0 ||| eins\n", "nbest, line 1 must be `index ||| text ||| score`"),
        ("0 ||| eins ||| -1\n2 ||| drei ||| -1\n", "nbest, line 2 must be"),
        ("0 ||| eins ||| high\n", "nbest, line 1 must be"),
        ("0 ||| eins ||| -1\n", "nbest contains translations of 1 sentences, "),
    ],
)
def test_a_file_of_another_form_is_one_line(command, tmp_path, capsys, nbest, message):
    assert command(nbest=nbest) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line
    assert not (tmp_path / "output").exists()


def test_an_unknown_tokenizer_is_one_line(command, capsys):
    assert command("--by", "sentence-bleu", "--tokenize", "words") == 2
    assert "`tokenize` must be one of none" in capsys.readouterr().err
