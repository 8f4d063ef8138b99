"""The figures of docs/the_paper.md: what they show is the package's, on light and dark pages."""

import functools
import pathlib
import re

import numpy as np
import pytest

from docs.tools import paper_figures, toy_search

TRAINED = "the_paper/attention_heads"


def title_of(svg):
    """The words that are written largest, which a long title has on several lines."""
    texts = re.findall(r"<text style=\"font-size: ([\d.]+)px[^>]*>([^<]+)</text>", svg)
    largest = max(float(size) for size, _ in texts)
    return " ".join(text for size, text in texts if float(size) == largest)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The folder that the script writes into, with a model that has hardly learned anything."""
    folder = tmp_path_factory.mktemp("images")
    with pytest.MonkeyPatch.context() as patch:
        quick = functools.partial(paper_figures.example, epochs=1)
        patch.setattr(paper_figures, "example", quick)
        patch.setattr(paper_figures, "IMAGES", folder)
        patch.setattr(paper_figures, "ATTENTION_PAGE", folder / "the_paper" / "attention.html")
        paper_figures.main()
    return folder


@pytest.mark.slow
def test_the_script_makes_what_is_there(made):
    kept = paper_figures.IMAGES
    written = {path.relative_to(made) for path in made.rglob("*.*")}
    expected = {path.relative_to(kept) for path in (kept / "the_paper").iterdir()}
    assert written == expected | {pathlib.Path("figure_1.svg")}
    page = (made / "the_paper" / "attention.html").read_text("utf-8")
    assert "<h1>a small door is old → " in page


@pytest.mark.slow
@pytest.mark.parametrize("name", paper_figures.FIGURES)
def test_a_figure_is_readable_and_up_to_date(name, made):
    new, kept = (
        (folder / f"{name}.svg").read_text("utf-8") for folder in (made, paper_figures.IMAGES)
    )
    assert "prefers-color-scheme: dark" in new
    assert re.findall(r"<text(?![^>]*fill: #)[^>]*>", new) == []  # black on dark pages
    if name != TRAINED:
        assert title_of(new) == title_of(kept)


def test_the_beam_search_is_the_packages():
    results, steps = toy_search.search_results(), toy_search.searched()
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
