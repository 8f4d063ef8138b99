"""Table 3 in small: a table of three rows, what each row is, and what is refused."""

import argparse
import csv
import dataclasses
import json
import re
import signal
import sys

import pytest

from keras_transformer.errors import UserInputError
from keras_transformer.models import PRESETS
from keras_transformer.runs.run_directory import RunDirectory
from keras_transformer.search_options import SearchOptions
from keras_transformer.toolkit.cli import run_command
from keras_transformer.training.translation import training_start
from recipes.table3 import report, train
from recipes.table3.figure import write_figure
from recipes.table3.row_result import RowResult
from recipes.table3.rows import ROWS
from recipes.table3.settings import Table3Settings
from tests.training.equal_runs import rows
from tests.training.small_training import At, interrupt
from tests.translation_training.number_text import SMALL, flags, write_pairs
from tests.written_files import one_line

SETTINGS = {
    **{name: value for name, value in SMALL.items() if name not in ("preset", "bleu_sentences")},
    "num_heads": 8,
    "dropout": 0.1,
    "label_smoothing": 0.1,
    "steps": 6,
    "save_every": 3,
    "probe": False,
    "choose_average": False,
}
RESULT = RowResult(
    row="base",
    encoder_layers=3,
    decoder_layers=3,
    hidden_dim=128,
    intermediate_dim=512,
    num_heads=8,
    key_dim=16,
    value_dim=16,
    dropout=0.1,
    label_smoothing=0.1,
    steps=1400,
    perplexity=12.345,
    bleu=20.125,
    signature="tok:none",
    parameters=1_896_192,
    seconds=300.0,
    settings={},
    minutes=None,
    data=[],
)
B1 = dataclasses.replace(RESULT, row="B1", key_dim=4, perplexity=13.58, bleu=19.0)


def write_data(folder, dev="dev"):
    folder.mkdir()
    write_pairs(folder, "train", length=4)
    write_pairs(folder, dev, length=2)
    return folder


def call(data, runs, *arguments, **settings):
    given = ["--data", str(data), "--runs", str(runs), *flags(**{**SETTINGS, **settings})]
    return run_command(lambda: train.main([*given, *arguments]))


def interrupt_at(step, row):
    """A stand-in for `bleu_validators` that sends SIGINT during a row's step."""

    return lambda settings, batches, model, run: (
        [At(step, interrupt)] if run.directory.path.name == row else []
    )


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """A table of two rows, broken off in the second and gone on with: the folder of its runs."""
    base = tmp_path_factory.mktemp("table3")
    data, runs, rows = write_data(base / "data"), base / "runs", ["--rows", "base,A1"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training_start, "bleu_validators", interrupt_at(4, "A1"))
        assert call(data, runs, *rows) == 128 + signal.SIGINT
    assert RowResult.read(runs / "base").steps == 6
    assert RowResult.read(runs / "A1") is None
    before = (runs / "base" / "scores.json").stat().st_mtime_ns
    assert call(data, runs, *rows) == 0
    assert (runs / "base" / "scores.json").stat().st_mtime_ns == before
    return runs


@pytest.mark.slow
@pytest.mark.tensorflow
def test_a_broken_off_table_goes_on(table):
    steps = [row["step"] for row in rows(table / "A1" / "metrics.csv")]
    assert steps == [str(step) for step in range(1, 7)]
    assert [RowResult.read(table / name).steps for name in ("base", "A1")] == [6, 6]


@pytest.mark.tensorflow
def test_rows_share_all_but_what_the_paper_changes(table):
    runs = {name: RunDirectory(table / name) for name in ("base", "A1")}
    assert len({run.record().tokenizer_fingerprint for run in runs.values()}) == 1
    base, row = (run.settings() for run in runs.values())
    changes = {name: value for name, value in row.items() if value != base[name]}
    assert changes == {"num_heads": 1, "tokenizer": str(table / "base" / "tokenizer.model")}


@pytest.mark.tensorflow
def test_the_table_has_what_the_runs_say(table):
    lines = (table / "table3.txt").read_text().splitlines()
    assert [line.split()[0] for line in lines[1:4]] == ["row", "base", "A1"]
    written = {row["row"]: row for row in rows(table / "table3.csv")}
    assert list(written) == ["base", "A1"]
    for name, row in written.items():
        *_, last = rows(table / name / "validation.csv")
        assert float(row["PPL"]) == pytest.approx(float(last["val_perplexity"]), rel=1e-4)
        scores = json.loads((table / name / "scores.json").read_text())
        assert float(row["BLEU"]) == scores["bleu"]
        assert scores["evaluated_on"] == {"name": "dev", "text": "dev", "sentences": 25}
        assert scores["averaged_checkpoints"] == 1
        model = RunDirectory(table / name).load_architecture()
        assert int(row["params"]) == sum(weight.size for weight in model.get_weights())
    assert [written["A1"][size] for size in ("h", "d_k", "d_v", "steps")] == ["1", "32", "32", "6"]


@pytest.mark.tensorflow
def test_another_table_in_the_same_folder_is_refused(table, tmp_path, capsys):
    assert call(table.parent / "data", table, "--rows", "B1", warmup_steps=7) == 2
    assert "`warmup_steps` is 6. Received: 7" in capsys.readouterr().err
    data = write_data(tmp_path / "another")
    for name in ("dev.en", "dev.de"):
        (data / name).write_text("one two\n")
    assert call(data, table, "--rows", "B1") == 2
    assert "share their text" in capsys.readouterr().err
    assert not (table / "B1" / "run.json").exists()


@pytest.mark.tensorflow
def test_a_table_that_has_finished_is_only_shown(table, tmp_path, capsys):
    assert call(tmp_path / "no data any more", table, "--rows", "A1,base") == 0
    printed = capsys.readouterr().out
    assert (table / "table3.txt").read_text() in printed
    assert report.main([str(table)]) is None
    assert (table / "table3.txt").read_text() in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.tensorflow
def test_a_whole_table_grows_by_a_row_and_is_drawn(tmp_path):
    data, runs = write_data(tmp_path / "data", dev="val"), tmp_path / "runs"
    assert call(data, runs, "--rows", "D1,E") == 0
    assert call(data, runs, "--rows", "base,D1,E", steps=9) == 0
    assert [(row["row"], row["P_drop"], row["steps"]) for row in rows(runs / "table3.csv")] == [
        ("base", "0.1", "9"), ("D1", "0.0", "9"), ("E", "0.1", "9"),
    ]  # fmt: skip
    assert RunDirectory(runs / "E").settings()["positions"] == "learned"
    pytest.importorskip("matplotlib")
    assert (runs / "table3.svg").is_file()


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--rows", "base,A9"], "There is no row `A9`. Rows: base, A1, "),
        (["--rows", "A1", "--num-heads", "4"], "must be a whole number. Received for base: num_h"),
        (["--rows", "base", "--key-dim", "8"], "`key_dim` must be none"),
        (["--rows", "base", "--minutes-per-row", "0"], "must be a number above 0. Received: 0.0"),
        (["--rows", "base", "--languages", "en", "fr"], "Neither train.fr nor train.fr.gz"),
    ],
)
def test_what_cannot_be_a_table_is_refused_before_it_begins(tmp_path, capsys, arguments, says):
    data = write_data(tmp_path / "data")
    assert call(data, tmp_path / "runs", *arguments) == 2
    assert says in one_line(capsys)
    assert list(tmp_path.glob("runs/*/*")) == []


@pytest.mark.tensorflow
def test_a_dev_text_that_cannot_be_scored_is_refused_before_the_training(
    tmp_path, capsys, monkeypatch
):
    monkeypatch.setitem(SearchOptions.__init__.__kwdefaults__, "max_source_length", 2)
    assert call(write_data(tmp_path / "data"), tmp_path / "runs", "--rows", "base") == 2
    assert "Pair 1 of dev has more than 2 tokens" in one_line(capsys)
    assert list(tmp_path.glob("runs/*/run.json")) == []


def test_the_number_of_learned_positions_is_that_of_row_e():
    parser = argparse.ArgumentParser()
    Table3Settings.add_arguments(parser)
    settings = Table3Settings.from_arguments(parser.parse_args(["--max-length", "300"]))
    assert settings.row("E").architecture_options()["max_length"] == 300


def test_rows_of_the_papers_base_are_the_presets():
    names = ("num_encoder_layers", "num_decoder_layers", "hidden_dim", "intermediate_dim")
    names += ("num_heads", "key_dim", "value_dim", "dropout", "label_smoothing")
    for name, row in ROWS.items():
        settings = Table3Settings().row(name)
        expected = {field: getattr(PRESETS[row.preset], field) for field in names}
        assert {field: getattr(settings, field) for field in names} == expected, name
    assert Table3Settings().row("E").positions == "learned"
    assert {row.preset for row in ROWS.values()} == {*PRESETS} - {"tiny", "small"}


def test_rows_of_a_small_base_keep_the_papers_ratio_to_it():
    small = Table3Settings(num_layers=3, hidden_dim=128, intermediate_dim=512, dropout=0.2)
    rows = {name: small.row(name) for name in ROWS}
    assert [rows[name].num_encoder_layers for name in ("C1", "C2", "C3")] == [1, 2, 4]
    assert [rows[name].num_decoder_layers for name in ("C1", "C2", "C3")] == [1, 2, 4]
    assert [rows[name].num_heads for name in ("A1", "A2", "A3", "A4")] == [1, 4, 16, 32]
    assert [rows[name].key_dim for name in ("base", "B1", "B2")] == [None, 4, 8]
    assert [rows[name].value_dim for name in ("base", "B1", "B2")] == [None, 16, 16]
    assert [rows[name].hidden_dim for name in ("C4", "C5", "big")] == [64, 256, 256]
    assert [rows[name].intermediate_dim for name in ("C6", "C7", "big")] == [256, 1024, 1024]
    assert [rows[name].dropout for name in ("base", "D1", "D2", "big")] == [0.2, 0.0, 0.2, 0.3]
    assert [rows[name].label_smoothing for name in ("base", "D3", "D4")] == [0.1, 0.0, 0.2]
    assert {row.steps for row in rows.values()} == {100_000}


def test_the_paper_is_quoted_in_every_form_of_the_table():
    assert report.text_table([RESULT, B1]) == (
        "Table 3 of Vaswani et al. (2017): the dev text of these runs, next to the paper's\n"
        "row   N  d_model  d_ff  h  d_k  d_v  P_drop  eps_ls  steps    PPL   BLEU  params"
        "  paper PPL  paper BLEU  paper params\n"
        "base  3      128   512  8   16   16     0.1     0.1   1400  12.35  20.12    1.90"
        "       4.92        25.8            65\n"
        "B1    3      128   512  8    4   16     0.1     0.1   1400  13.58  19.00    1.90"
        "       5.16        25.1            58\n"
        "PPL per subword, params in millions, BLEU tok:none; paper: newstest2013.\n"
    )
    assert (
        "| B1 | 3 | 128 | 512 | 8 | 4 | 16 | 0.1 | 0.1 | 1400 | 13.58 | 19.00 | 1.90 | 5.16 |"
        in (report.markdown_table([B1]))
    )
    (row,) = csv.DictReader(report.csv_table([B1]).splitlines())
    paper = {name[6:]: value for name, value in row.items() if name.startswith("paper ")}
    assert paper == {
        "N": "6", "d_model": "512", "d_ff": "2048", "h": "8", "d_k": "16", "d_v": "64",
        "P_drop": "0.1", "eps_ls": "0.1", "steps": "100000", "PPL": "5.16", "BLEU": "25.1",
        "params": "58000000",
    }  # fmt: skip


def test_stacks_of_two_depths_and_empty_cells_are_shown():
    row = dataclasses.replace(RESULT, row="A1", encoder_layers=6)
    line = report.text_table([row]).splitlines()[2]
    assert line.startswith("A1   6+3")
    assert line.endswith("24.9")


def test_the_figure_is_a_picture_of_the_rows_against_base(tmp_path):
    pytest.importorskip("matplotlib")
    path = tmp_path / "table3.svg"
    assert write_figure([RESULT, B1], path) == f"The figure is in {path}"
    drawn = path.read_text("utf-8")
    assert "<!-- Table 3: BLEU changes in the paper's direction in 1 of 1 rows" in drawn
    assert "Rows may differ from the paper" in drawn


DIVERGED = dataclasses.replace(B1, perplexity=float("inf"))


@pytest.mark.parametrize(
    "results", [[RESULT], [B1], [RESULT, DIVERGED]], ids=["base alone", "no base", "diverged"]
)
def test_without_rows_to_compare_there_is_no_figure(tmp_path, results):
    assert write_figure(results, tmp_path / "table3.svg").startswith("No figure: it compares rows")
    assert not (tmp_path / "table3.svg").exists()


def test_without_matplotlib_there_is_no_figure(tmp_path, monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    note = write_figure([RESULT, B1], tmp_path / "table3.svg")
    assert note == "No figure: matplotlib is missing (the `plots` extra installs it)."
    assert not (tmp_path / "table3.svg").exists()


def test_a_folder_without_finished_rows_has_no_table(tmp_path):
    with pytest.raises(
        UserInputError, match=re.escape(f"No row of Table 3 has finished in {tmp_path}")
    ):
        report.write_table(tmp_path)


def test_a_damaged_result_is_named(tmp_path):
    (tmp_path / "table3.json").write_text("{")
    with pytest.raises(UserInputError, match="table3.json is damaged"):
        RowResult.read(tmp_path)
