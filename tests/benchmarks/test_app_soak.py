"""The soak of the web app, for seconds instead of hours."""

import csv

import pytest

from benchmarks.app_soak import main

pytestmark = [pytest.mark.commands, pytest.mark.slow]


def test_clients_come_and_go_and_memory_is_written_down(trained_run, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("benchmarks.app_soak._SECONDS_BETWEEN_ROWS", 1)
    (tmp_path / "text.en").write_text("one two\nthree\n")
    table = tmp_path / "soak.csv"
    source = ["--source", str(tmp_path / "text.en")]
    options = ["--minutes", "0.1", "--rate", "20", "--csv", str(table)]
    assert main([str(trained_run), *source, *options]) == 0
    with table.open(encoding="utf-8") as file:
        rows = [*csv.DictReader(file)]
    assert int(rows[-1]["answers"]) > 0
    assert all(float(row["megabytes"]) > 50 and int(row["files"]) > 5 for row in rows)
    assert "0 refusals, 0 failures" in capsys.readouterr().out
