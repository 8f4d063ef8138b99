"""The stepping figures of docs/the_paper.md: up to date, complete, and usable without a mouse."""

import re

import pytest

from docs.tools import paper_steps
from tests.browser import violations

NAMES = list(paper_steps.FIGURES)


def path_of(name):
    return paper_steps.IMAGES / f"{name}.html"


@pytest.fixture(scope="module")
def made():
    return paper_steps.made()


@pytest.mark.parametrize("name", NAMES)
def test_a_figure_is_up_to_date(name, made):
    assert path_of(name).read_text("utf-8") == made[name]


@pytest.mark.parametrize("name", NAMES)
def test_a_figure_is_small_and_loads_nothing(name, made):
    assert len(made[name]) < 100_000
    assert re.findall(r"""(?:src|href)=["'](?!data:)""", made[name]) == []
    assert "http" not in made[name]
    assert "url(" not in made[name]


def test_its_search_is_the_pages(toy):
    steps = paper_steps.traced_search(toy)
    expected = toy["beam_search"](toy["source"], beams=paper_steps.BEAMS, alpha=paper_steps.ALPHA)
    assert steps[-1].finished == expected
    assert [len(step.candidates) for step in steps] == [2 * paper_steps.BEAMS] * len(steps)
    for step in steps:
        assert sum(candidate.is_kept for candidate in step.candidates) == paper_steps.BEAMS
    assert steps[0].finished == []


def test_what_a_step_says_is_in_its_numbers(toy, made):
    """The second step from the end of the walk speaks of the second "one" after "hundert"."""
    _, _, cross = toy["decode"](toy["target"], toy["encode"](toy["source"])[0])
    after_hundred = [toy["words"][token] for token in toy["target"]].index("hundert")
    assert (cross[:, after_hundred].argmax(axis=-1) == 3).all()
    assert "both heads look at the second “one”" in made["translation_steps"]


@pytest.mark.parametrize("name", NAMES)
def test_steps_follow_buttons_and_keys(name, visit, made):
    page = visit(path_of(name), phone=True)
    count = made[name].count('class="kt-title"')
    shown = page.locator("ol.kt-list > li:visible")
    status = page.get_by_role("status")
    assert shown.count() == 1
    page.get_by_role("button", name="Next step").click()
    assert status.inner_text() == f"Step 2 of {count}"
    page.locator(".kt-steps").focus()
    page.keyboard.press("ArrowRight")
    assert status.inner_text() == f"Step 3 of {count}"
    page.keyboard.press("ArrowLeft")
    assert status.inner_text() == f"Step 2 of {count}"
    page.keyboard.press("End")
    assert page.get_by_role("button", name="Next step").is_disabled()
    page.locator(".kt-stages button").first.click()
    assert status.inner_text() == f"Step 1 of {count}"
    assert shown.count() == 1


@pytest.mark.parametrize("name", NAMES)
def test_without_a_script_all_steps_are_shown(name, visit, made):
    page = visit(path_of(name), java_script_enabled=False)
    assert page.locator("ol.kt-list > li:visible").count() == made[name].count('class="kt-title"')
    assert page.locator("button").count() == 0


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_every_step_fits_a_phone_and_is_accessible(name, dark, visit, made):
    page = visit(path_of(name), phone=True, dark=dark)
    for _ in range(made[name].count('class="kt-title"')):
        width = page.evaluate("document.documentElement.scrollWidth")
        assert width <= 390
        assert violations(page) == []
        page.keyboard.press("Tab")
        page.locator(".kt-steps").focus()
        page.keyboard.press("ArrowRight")
