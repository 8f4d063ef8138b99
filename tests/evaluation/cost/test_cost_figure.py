"""The figure of BLEU over cost: every point of the paper and of the runs is where it belongs."""

import io
import itertools
import sys

import numpy as np
import pytest
from matplotlib.text import Text

from keras_transformer.errors import UserInputError
from keras_transformer.evaluation.training_cost import RunCost, cost_figure

COSTS = [
    RunCost("runs/both", bleu=25.0, counted_flops=1e18, paper_flops=3e18),
    RunCost("runs/cpu", bleu=24.0, counted_flops=2e13),
    RunCost("runs/$parser_1", counted_flops=5e14),
    RunCost("runs/opus", note="no cost"),
]


@pytest.fixture
def figure():
    pytest.importorskip("matplotlib")
    return cost_figure(COSTS)


def points(axes):
    """The points of each entry of the legend."""
    return {
        drawn.get_label(): sorted(map(tuple, np.asarray(drawn.get_offsets()).tolist()))
        for drawn in axes.collections
    }


def test_the_papers_points_are_at_what_it_prints(figure):
    above, below = figure.axes
    assert points(above) == {
        "the paper, EN-FR": sorted(
            [
                (1.0e20, 39.2), (1.4e20, 39.92), (1.5e20, 40.46), (1.2e20, 40.56), (8.0e20, 40.4),
                (1.1e21, 41.16), (1.2e21, 41.29), (3.3e18, 38.1), (2.3e19, 41.8),
            ]
        )
    }  # fmt: skip
    assert points(below)["the paper, EN-DE"] == sorted(
        [
            (2.3e19, 24.6), (9.6e18, 25.16), (2.0e19, 26.03), (1.8e20, 26.30), (7.7e19, 26.36),
            (3.3e18, 27.3), (2.3e19, 28.4),
        ]
    )  # fmt: skip
    assert [axes.get_xscale() for axes in figure.axes] == ["log", "log"]


def test_runs_are_drawn_by_both_ways_as_far_as_they_are_known(figure):
    found = points(figure.axes[1])
    assert found["runs on their own text, counted"] == [(2e13, 24.0), (1e18, 25.0)]
    assert found["runs on their own text, the paper's method"] == [(3e18, 25.0)]
    names = [text.get_text() for text in figure.axes[1].texts]
    assert names[-2:] == ["both", "cpu"]


def test_what_cannot_be_drawn_is_named(figure):
    label = figure.axes[1].get_xlabel().splitlines()
    assert label == [
        "training cost (FLOPs)",
        "without a cost in the paper: ByteNet (EN-DE 23.75)",
        "without cost or BLEU: $parser_1, opus",
    ]


@pytest.mark.parametrize("tokenizer", ["char", "zh", "flores200"])
def test_bleu_that_does_not_count_words_is_not_put_beside_the_papers(tokenizer):
    pytest.importorskip("matplotlib")
    signature = f"nrefs:1|case:mixed|eff:no|tok:{tokenizer}|smooth:exp|version:2.6.0"
    other = RunCost("runs/numbers", bleu=99.0, counted_flops=1e13, signature=signature)
    below = cost_figure([COSTS[1], other]).axes[1]
    assert points(below)["runs on their own text, counted"] == [(2e13, 24.0)]
    assert below.get_ylim()[1] < 35
    assert f"not drawn, BLEU of another tokenizer: numbers (tok:{tokenizer})" in below.get_xlabel()


def test_no_name_hides_another_or_a_point():
    pytest.importorskip("matplotlib")
    near = [RunCost(f"runs/near_{i}", bleu=24 + i / 50, counted_flops=2e13) for i in range(6)]
    figure = cost_figure([*COSTS, *near])
    figure.draw_without_rendering()
    for axes in figure.axes:
        boxes = [Text.get_window_extent(text) for text in axes.texts]
        hidden = [
            (one.get_text(), other.get_text())
            for (one, box), (other, second) in itertools.combinations(
                zip(axes.texts, boxes, strict=True), 2
            )
            if box.overlaps(second)
        ]
        assert hidden == []
        marks = [
            axes.transData.transform(place) for place in itertools.chain(*points(axes).values())
        ]
        assert not any(box.contains(*mark) for box in boxes for mark in marks)


@pytest.mark.parametrize(
    ("kind", "begins"), [("png", b"\x89PNG"), ("pdf", b"%PDF"), ("svg", b"<?xml")]
)
def test_it_is_written_in_every_format(kind, begins):
    pytest.importorskip("matplotlib")
    content = io.BytesIO()
    cost_figure([RunCost("runs/a_$b", bleu=25.0, counted_flops=1e18)]).savefig(content, format=kind)
    assert content.getvalue().startswith(begins)


def test_without_matplotlib_it_is_one_line(monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(UserInputError, match=r"needs matplotlib: pip install .*\[plots\]\'"):
        cost_figure(COSTS)
