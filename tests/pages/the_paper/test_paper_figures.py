"""The figures of docs/the_paper.md: what they show is the package's, on light and dark pages."""

import functools
import re

import numpy as np
import pytest

from docs.tools import paper_figures
from docs.tools.svg_figures import svg_of

TRAINED = "the_paper/attention_heads"


def title_of(svg):
    """The words that are written largest, which a long title has on several lines."""
    texts = re.findall(r"<text style=\"font-size: ([\d.]+)px[^>]*>([^<]+)</text>", svg)
    largest = max(float(size) for size, _ in texts)
    return " ".join(text for size, text in texts if float(size) == largest)


@pytest.mark.slow
@pytest.mark.parametrize("name", paper_figures.FIGURES)
def test_the_figures_are_what_the_script_makes(name, monkeypatch):
    monkeypatch.setattr(
        paper_figures, "example", functools.partial(paper_figures.example, epochs=1)
    )
    made, kept = (
        svg_of(paper_figures.FIGURES[name]),
        (paper_figures.IMAGES / f"{name}.svg").read_text("utf-8"),
    )
    assert "prefers-color-scheme: dark" in made
    assert re.findall(r"<text(?![^>]*fill: #)[^>]*>", made) == []  # black on dark pages
    if name != TRAINED:
        assert title_of(made) == title_of(kept)


def test_the_beam_search_is_the_packages():
    results, steps = paper_figures.search_results(), paper_figures.searched()
    (beam, by_beam), (greedy, by_greedy) = results["beam"], results["greedy"]
    assert (beam, greedy) == ("the dog barks", "a dog barks")
    np.testing.assert_allclose(np.exp(by_beam), 0.45 * 0.9 * 0.8, rtol=1e-5)
    np.testing.assert_allclose(np.exp(by_greedy), 0.55 * 0.4 * 0.8, rtol=1e-5)
    finished = [one for step in steps for one in step if one.score is not None]
    best = max(finished, key=lambda one: one.score)
    np.testing.assert_allclose(best.score, by_beam / (9 / 6) ** 0.6, rtol=1e-5)
    np.testing.assert_allclose(best.log_prob, by_beam, rtol=1e-5)


def test_the_smoothed_target_is_the_formulas():
    targets = paper_figures.smoothed_targets(size=5, label=1, smoothing=0.2)
    np.testing.assert_allclose(targets, [0.05, 0.8, 0.05, 0.05, 0.05], atol=1e-6)
