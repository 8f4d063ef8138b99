import gzip

import pytest

from keras_transformer.toolkit.cli import named_models
from tests.cli.fake_translator import FakeTranslator
from tests.cli.refusals import refusal


@pytest.fixture
def files(tmp_path):
    """`--source` and `--target` of three pairs, the target compressed."""
    (tmp_path / "source").write_text("a b\nc\n\n")
    with gzip.open(tmp_path / "target.gz", "wt") as file:
        file.write("x\nyy z\nw\n")
    return [f"--source={tmp_path / 'source'}", f"--target={tmp_path / 'target.gz'}"]


def test_score_prints_one_number_a_line(command, files):
    assert command("score", "run", *files) == (0, b"-1.000000\n-4.000000\n-1.000000\n", b"")
    assert command("score", "run", *files, "--normalize")[1] == b"-0.500000\n-2.000000\n-0.500000\n"


def test_align_prints_the_word_pairs(command, files):
    assert command("align", "run", *files) == (0, b"0-0\n0-0 0-1\n\n", b"")


@pytest.mark.parametrize("verb", ["score", "align"])
def test_pairs_are_read_in_pieces(command, files, monkeypatch, verb):
    monkeypatch.setattr(named_models, "BATCHES_A_PIECE", 2)
    command(verb, "run", "other", *files, "--batch-size=1", "--checkpoint=best")
    assert FakeTranslator.calls == [
        (verb, ["a b", "c"], ["x", "yy z"]),
        (verb, [""], ["w"]),
    ]
    assert FakeTranslator.loaded == {
        "runs": ["run", "other"],
        "checkpoint": ["best"],
        "batch_size": 1,
        "engine": "own",
    }


@pytest.mark.parametrize("verb", ["score", "align"])
def test_unequal_files_are_one_line_before_any_output(command, files, tmp_path, verb):
    (tmp_path / "source").write_text("a\nb\n")
    assert "must have the same number of lines" in refusal(command(verb, "run", *files))
