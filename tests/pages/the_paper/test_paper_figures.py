"""The figures of docs/the_paper.md: what they show is the package's, on light and dark pages."""

import functools
import pathlib
import re

import numpy as np
import pytest

from docs.tools import paper_figures, paper_steps, svg_figures, toy_search

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
    expected -= {pathlib.Path(f"the_paper/{name}.html") for name in paper_steps.FIGURES}
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


@pytest.mark.parametrize("name", paper_figures.FIGURES)
def test_its_text_has_contrast_in_both_themes(name):
    """Text on the figure's background; numbers in the cells of heat maps have their own colors."""
    svg = (paper_figures.IMAGES / f"{name}.svg").read_text("utf-8")
    colors = set(re.findall(r"<text[^>]*fill: (#[0-9a-f]{6})", svg)) - {"#101010", "#f5f5f5"}
    assert colors
    dark_paper = svg_figures.DARK[svg_figures.PAPER]
    for color in colors:
        assert contrast(color, svg_figures.PAPER) >= 4.5
        dark = svg_figures.DARK.get(color, color)
        assert f'[style*="fill: {color}"]{{fill:{dark} !important}}' in svg
        assert contrast(dark, dark_paper) >= 4.5


def contrast(one, other):
    """The contrast ratio of two colors, as WCAG 2.2 defines it."""
    luminances = []
    for color in (one, other):
        channels = np.array([int(color[place : place + 2], 16) for place in (1, 3, 5)]) / 255
        linear = np.where(
            channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4
        )
        luminances.append(linear @ [0.2126, 0.7152, 0.0722])
    return (max(luminances) + 0.05) / (min(luminances) + 0.05)


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
