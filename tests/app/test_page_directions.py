"""The page in a real browser with runs that translate in opposite directions."""

import pytest

from tests.app.fake_run import FakeRun
from tests.app.page_parts import SENTENCE, field
from tests.browser import violations


def make_run(source, target, name=None):
    run = FakeRun(name or f"{source}_{target}")
    run.source_language, run.target_language = source, target
    return run


def shown(page):
    return page.locator(".column h2").all_text_contents()


@pytest.mark.slow
def test_a_swap_translates_the_translation_back(visit, start, expect):
    runs = [make_run("en", "de"), make_run("de", "en"), make_run("en", "de", "other")]
    page = visit(str(start(*runs).base_url))
    field(page).fill("a house")
    expect(page.locator(SENTENCE)).to_have_text(["A HOUSE"] * 2)
    assert shown(page) == ["en_de", "other"]
    page.get_by_role("button", name="Swap languages").click()
    expect(field(page)).to_have_value("A HOUSE")
    expect(page.locator(SENTENCE)).to_have_text(["A HOUSE"])
    assert shown(page) == ["de_en"]
    expect(page.locator("#source-language")).to_have_text("German")
    expect(page.locator(".column .panel-head")).to_contain_text("German to English")
    expect(field(page)).to_have_attribute("lang", "de")
    expect(page.get_by_role("button", name="Swap languages")).to_be_focused()
    texts = [items for work, items in runs[1].batches if work.task == "translate"]
    assert texts == [["A HOUSE"]]
    assert violations(page) == []
    page.locator(SENTENCE).click()
    expect(page.locator(".candidates")).to_have_count(1)

    page.reload()  # the text is German
    expect(page.locator(SENTENCE)).to_have_text(["A HOUSE"])
    assert shown(page) == ["de_en"]
    page.get_by_text("History", exact=True).click()
    expect(page.locator(".entry")).to_have_count(2)
    page.locator(".entry").last.click()  # in English
    expect(page.locator(SENTENCE)).to_have_text(["A HOUSE"] * 2)
    assert shown(page) == ["en_de", "other"]


@pytest.mark.slow
def test_runs_without_an_opposite_stand_side_by_side(visit, start, expect):
    runs = [make_run("en", "de"), make_run("de", "en"), make_run("fr", "en"), make_run(None, None)]
    page = visit(str(start(*runs).base_url))
    expect(page.locator(".column h2")).to_have_text(["en_de", "fr_en", "None_None"])
    page.get_by_role("button", name="Swap languages").click()
    expect(page.locator(".column h2")).to_have_text(["de_en", "fr_en", "None_None"])


@pytest.mark.slow
@pytest.mark.parametrize("others", [[("en", "de")], [("fr", "en")], [(None, None)], []])
def test_there_is_no_swap_without_opposite_runs(visit, start, expect, others):
    runs = [make_run("en", "de"), *(make_run(*one, f"other {one}") for one in others)]
    page = visit(str(start(*runs).base_url))
    expect(page.locator(".column")).to_have_count(len(runs))
    expect(page.get_by_role("button", name="Swap languages")).to_be_hidden()
