"""`keras-transformer plot`: its file, and what it refuses."""

import sys

import pytest

from tests.cli.refusals import refusal
from tests.evaluation.cost.recorded_runs import write_run
from tests.figures.logged_run import write_logged_run


@pytest.fixture(autouse=True)
def runs(tmp_path, monkeypatch):
    """The runs `a` and `b`, in the current folder."""
    monkeypatch.chdir(tmp_path)
    for name in "ab":
        write_logged_run(tmp_path / name)


def test_runs_become_one_vector_figure(call, tmp_path):
    pytest.importorskip("matplotlib")
    assert call("plot", "a", "b") == (0, "plot.svg\n", "")
    drawn = (tmp_path / "plot.svg").read_text("utf-8")
    for text in ("training loss (nats per target token)", "dev perplexity", "dev BLEU", "b"):
        assert f"<!-- {text}" in drawn


def test_a_metric_over_minutes_as_png_is_opened(call, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    opened = []
    monkeypatch.setattr("webbrowser.open", lambda address: opened.append(address) or True)
    monkeypatch.setenv("BROWSER", "some")
    flags = ["--metric", "learning_rate", "--x", "minutes", "--output", "rate.png", "--open"]
    assert call("plot", "a", *flags) == (0, "rate.png\n", "")
    assert (tmp_path / "rate.png").read_bytes().startswith(b"\x89PNG")
    assert opened == [(tmp_path / "rate.png").as_uri()]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["nowhere"], "There is no run directory nowhere."),
        (["."], "The directory . is not a run of keras_transformer."),
        (["a", "empty"], "The run empty has no metrics.csv with values: it was trained elsewhere"),
        (["a", "--output", "plot.gif"], "`--output` must end in one of .png, .pdf, .svg. Received"),
        (["a", "--output", "no/plot.svg"], "`--output` must be in an existing folder."),
    ],
)
def test_a_mistake_is_one_line(call, tmp_path, arguments, says):
    write_run(tmp_path / "empty", metrics=False)
    assert refusal(call("plot", *arguments)).startswith(f"error: {says}")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b", "empty"]


def test_without_matplotlib_it_says_what_to_install(call, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert refusal(call("plot", "a")).startswith("error: A figure needs matplotlib: pip install ")
