"""`keras-transformer train --guided-alignment` and `--alignment-only`."""

import json
import os
import pathlib
import shutil
import sys

import numpy as np
import pytest

from keras_transformer import Translator
from keras_transformer.toolkit import cli
from keras_transformer.training.translation import word_aligner
from tests.translation_training.number_text import SMALL, train_pairs, write_pairs
from tests.written_files import one_line

pytestmark = pytest.mark.tensorflow

# Aligns word i with word i, and the words of every third pair in one direction only.
STAND_IN = f"""#!{sys.executable}
import sys
flags = dict(zip(sys.argv[1::2], sys.argv[2::2]))
source, target = (open(flags[flag], encoding="utf-8").read().splitlines() for flag in ("-s", "-t"))
assert all(line == line.casefold() for line in source)
for flag in ("-f", "-r"):
    with open(flags[flag], "w") as file:
        for number, pair in enumerate(zip(source, target)):
            words = min(len(line.split()) for line in pair)
            links = [f"{{i}}-{{i}}" for i in range(words)]
            print(*links if number % 3 or flag == "-f" else links[:1], file=file)
"""
FEW = {"steps": 180, "save_every": 90, "bleu_every": 0}
NEW = {**SMALL, "bleu_every": 0}


@pytest.fixture
def aligner(tmp_path, monkeypatch):
    """A program in place of eflomal's."""
    folder = tmp_path / "programs"
    folder.mkdir()
    path = folder / word_aligner.ALIGNER
    path.write_text(STAND_IN, encoding="utf-8")
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return path


def error_rate(run, sources, targets):
    """Share of wrong links where word i is the translation of word i."""
    found = Translator.load(run).align(sources, targets)
    wrong = [source != target for alignment in found for source, target in alignment.word_pairs()]
    return np.mean(wrong)


def read_lines(path):
    return pathlib.Path(path).read_text(encoding="utf-8").splitlines()


def test_the_head_of_a_trained_model_learns_and_translations_stay(
    trained_run, tmp_path, aligner, capsys
):
    flags = ("--from", trained_run, "--alignment-only")
    code, run = train_pairs(tmp_path, tmp_path / "guided", *flags, **FEW)
    assert code == 0
    pairs = zip(*map(read_lines, write_pairs(tmp_path, "test")), strict=True)
    # Between equal words, a head on a frozen model chooses by their positions, which is harder.
    clear = [pair for pair in pairs if len(set(pair[0].split())) == len(pair[0].split())]
    sources, targets = zip(*clear, strict=True)
    assert error_rate(run.path, sources[:80], targets[:80]) < 0.05
    before, after = (Translator.load(each).models[0] for each in (trained_run, run.path))
    assert after.options.alignment_layer == 1
    for layer in before.layers:
        same = after.get_layer(layer.name)
        for one, other in zip(layer.get_weights(), same.get_weights(), strict=True):
            np.testing.assert_array_equal(one, other)
    both = [
        Translator.load(each).translate_nbest(sources[:40], 2) for each in (trained_run, run.path)
    ]
    assert both[0] == both[1]

    # The alignments are computed once.
    shutil.rmtree(aligner.parent)
    aligned = "Aligning the words of"
    assert aligned in capsys.readouterr().err


def test_a_model_and_its_head_train_together_from_a_file(trained_run, tmp_path):
    source, target = write_pairs(tmp_path, "train")
    lines = tmp_path / "links"
    lines.write_text("0-0 1-1 2-2 3-3\n" * len(read_lines(source)), encoding="utf-8")
    flags = ("--guided-alignment", "--alignments", lines)
    settings = {**FEW, "alignment_weight": 1.0}
    start = ("--from", trained_run, *flags)
    code, run = train_pairs(tmp_path, tmp_path / "run", *start, **settings)
    assert code == 0
    assert run.settings()["guided_alignment"]
    sources, targets = read_lines(source)[:80], read_lines(target)[:80]
    assert error_rate(run.path, sources, targets) < 0.05
    before, after = (Translator.load(each).models[0] for each in (trained_run, run.path))
    layers = [model.get_layer("decoder_layer_1").get_weights() for model in (before, after)]
    assert any((one != other).any() for one, other in zip(*layers, strict=True))

    # Resumed training keeps the head.
    code, run = train_pairs(tmp_path, run.path, "--resume", *flags, **{**settings, "steps": 182})
    assert code == 0
    assert error_rate(run.path, sources, targets) < 0.05


def test_training_without_links_leaves_the_head_as_it_is(trained_run, tmp_path, aligner):
    flags = ("--from", trained_run, "--alignment-only")
    code, guided = train_pairs(tmp_path, tmp_path / "guided", *flags, **{**FEW, "steps": 2})
    assert code == 0
    few = {"steps": 2, "save_every": 2, "bleu_every": 0}
    code, tuned = train_pairs(tmp_path, tmp_path / "tuned", "--from", guided.path, **few)
    assert code == 0
    heads, others = (
        [run.load_model().get_layer(name).get_weights() for run in (guided, tuned)]
        for name in ("alignment_head", "decoder_layer_1")
    )
    for before, after in zip(*heads, strict=True):
        np.testing.assert_array_equal(before, after)
    assert any((before != after).any() for before, after in zip(*others, strict=True))


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--guided-alignment", "--subword-sampling", "0.1"], "`subword_sampling` must be off"),
        (["--guided-alignment", "--packing", "on"], "`packing` must be off"),
        (["--alignment-only"], "--from"),
        (["--alignment-weight", "1"], "`alignment_weight` belongs to the alignment head"),
        (["--guided-alignment", "--alignment-layer", "2"], "`alignment_layer` must be at most 1"),
        (["--guided-alignment", "--alignments", "missing"], "missing"),
        (["--alignments", __file__], "`alignments` needs `guided_alignment` or `alignment_only`"),
    ],
)
def test_settings_that_do_not_fit_are_refused(tmp_path, capsys, aligner, flags, message):
    code, _ = train_pairs(tmp_path, tmp_path / "run", *flags, **NEW)
    assert code == 2
    assert message in one_line(capsys)


def test_a_file_with_another_number_of_lines_is_refused(tmp_path, capsys):
    (tmp_path / "links").write_text("0-0\n", encoding="utf-8")
    flags = ("--guided-alignment", "--alignments", tmp_path / "links")
    code, _ = train_pairs(tmp_path, tmp_path / "run", *flags, **NEW)
    assert code == 2
    assert "must have a line for each training pair. Received: 1 lines, 625 pairs" in one_line(
        capsys
    )


def test_a_missing_aligner_is_reported_before_the_text_is_prepared(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    code, _ = train_pairs(tmp_path, tmp_path / "run", "--guided-alignment", **NEW)
    assert code == 2
    line = one_line(capsys)
    assert "Guided alignment needs eflomal" in line
    assert "[alignment]" in line
    assert not (tmp_path / "prepared").exists()


def test_a_failing_aligner_is_reported_in_one_line(tmp_path, capsys, aligner):
    aligner.write_text("#!/bin/sh\necho one >&2\necho no memory >&2\nexit 3\n", encoding="utf-8")
    code, _ = train_pairs(tmp_path, tmp_path / "run", "--guided-alignment", **NEW)
    assert code == 2
    assert "eflomal-align has failed (exit code 3): no memory" in one_line(capsys)
    assert not list((tmp_path / "prepared").glob("alignments-*"))


def test_align_symmetrizes_with_the_opposite_run(trained_run, tmp_path, capsys):
    source, target = write_pairs(tmp_path, "few", stop=5)
    arguments = ["align", str(trained_run), "--source", source, "--target", target]
    assert cli.main(arguments) == 0
    forward = capsys.readouterr().out.splitlines()
    # The same model in place of an opposite one: its links of the swapped texts, turned round.
    assert cli.main([*arguments, "--symmetrize", str(trained_run)]) == 0
    both = capsys.readouterr().out.splitlines()
    assert len(both) == len(forward) == 5
    swapped = Translator.load(trained_run).align(read_lines(target), read_lines(source))
    for line, one, other in zip(both, forward, swapped, strict=True):
        links = {tuple(map(int, pair.split("-"))) for pair in line.split()}
        ahead = {tuple(map(int, pair.split("-"))) for pair in one.split()}
        back = {(i, j) for j, i in other.word_pairs()}
        assert ahead & back <= links <= ahead | back


def test_evaluate_prints_the_alignment_error_rate(trained_run, tmp_path, capsys):
    source, target = write_pairs(tmp_path, "few", stop=5)
    gold = tmp_path / "gold"
    gold.write_text("0-0 1-1 2-2 3?3\n" * 5, encoding="utf-8")
    arguments = ["evaluate", str(trained_run), "--source", source, "--reference", target]
    assert cli.main([*arguments, "--alignments", str(gold), "--json"]) == 0
    card = json.loads(capsys.readouterr().out)
    rate = card["systems"]["averaged"]["alignment_error_rate"]
    assert 0 <= rate < 1
    assert cli.main([*arguments, "--alignments", str(gold)]) == 0
    assert "AER" in capsys.readouterr().out
    gold.write_text("0-0\n", encoding="utf-8")
    assert cli.main([*arguments, "--alignments", str(gold)]) == 2
    assert "must have the same number of lines" in one_line(capsys)
