"""The figure of several runs: a line for each, the best one in the titles."""

import os

import pytest

from keras_transformer.errors import UserInputError
from keras_transformer.figures import RunCurves, figure_file, run_figure
from tests.figures.logged_run import METRICS, write_logged_run

pytest.importorskip("matplotlib")


@pytest.fixture
def runs(tmp_path):
    """Two runs; the second has no validations, and loses less at its end."""
    better = METRICS.replace("22,2.0", "22,1.0")
    return [
        RunCurves.read(write_logged_run(tmp_path / "first")),
        RunCurves.read(write_logged_run(tmp_path / "$second_1", better, None)),
    ]


def test_every_metric_has_a_panel_whose_title_is_its_finding(runs):
    figure = run_figure(runs)
    assert [axes.get_title(loc="left") for axes in figure.axes] == [
        "Lowest final training loss: 1.000 ($second_1)",
        "Lowest final dev perplexity: 30.00 (first)",
        "Highest final dev BLEU: 20.0 (first)",
        "Highest learning rate: 0.002 (first)",
    ]
    assert [axes.get_xlabel() for axes in figure.axes] == ["updates"] * 4
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["first", "$second_1"]
    colors = [line.get_color() for line in legend.get_lines()]
    assert len({*colors}) == 2
    for axes in figure.axes:  # a run keeps its color, even where another one lacks the metric
        drawn = [line for line in axes.lines if line.get_alpha() is None]
        assert [line.get_color() for line in drawn] == colors


@pytest.mark.parametrize(
    ("axis", "label", "expected"),
    [
        ("step", "updates", [2, 12]),
        ("minutes", "training time with validations (minutes)", [1, 3]),
        ("tokens", "target tokens (millions)", [400, 2400]),
    ],
)
def test_a_metric_is_drawn_over_what_is_asked(runs, axis, label, expected):
    (axes,) = run_figure(runs, ["perplexity"], axis=axis).axes
    assert axes.get_xlabel() == label
    assert axes.get_ylabel() == "dev perplexity (per subword)"
    assert axes.lines[0].get_xdata().tolist() == expected
    assert axes.lines[0].get_ydata().tolist() == [90, 30]


def test_one_run_needs_no_legend(runs):
    figure = run_figure(runs[:1])
    assert figure.legends == []
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert (titles[0], titles[-1]) == ("Final training loss: 2.000", "Peak learning rate: 0.002")


def test_what_no_run_has_measured_is_one_line(runs):
    with pytest.raises(UserInputError, match=r"No run has measured bleu. Received: .*second_1"):
        run_figure(runs[1:], ["bleu"])


def test_numbers_too_large_to_draw_are_left_out(tmp_path):
    metrics = METRICS.replace("1,8.0,", "1,1e308,").replace("2,6.0,", "2,-1e308,")
    figure = run_figure([RunCurves.read(write_logged_run(tmp_path / "run", metrics, None))])
    assert figure.axes[0].lines[0].get_xdata().tolist() == [12, 22]
    assert figure_file(figure, "png")


def test_a_log_that_is_a_pipe_is_one_line(tmp_path):
    run = write_logged_run(tmp_path / "run", validation=None)
    os.mkfifo(tmp_path / "run" / "validation.csv")
    with pytest.raises(UserInputError, match=r"validation.csv: it is not a regular file"):
        RunCurves.read(run)


def test_a_png_has_300_dots_an_inch_and_fewer_where_it_is_large(runs):
    def width(figure):
        return int.from_bytes(figure_file(figure, "png")[16:20], "big")

    figure = run_figure(runs, ["loss"])
    assert width(figure) == pytest.approx(300 * figure.get_figwidth(), rel=0.1)
    figure.set_size_inches(60, 5)
    assert width(figure) < 9200
