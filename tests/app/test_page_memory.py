"""The page in a real browser: what it keeps for the next visit, and what it offers to a new one."""

import json

import pytest

from tests.app.fake_run import FakeParser, FakeRun
from tests.app.page_parts import SENTENCE, field
from tests.browser import violations

PREFIX = "keras_transformer."
SET_ITEM = "([name, value]) => localStorage.setItem(name, value)"
NO_STORAGE = """Object.defineProperty(window, "localStorage", {
    get() { throw new DOMException("denied", "SecurityError"); }
});"""


def translate(page, expect, text):
    field(page).fill(text)
    expect(page.locator(SENTENCE)).to_have_text([text.upper()])


def entries(page):
    return [button.locator("span").all_text_contents() for button in page.locator(".entry").all()]


@pytest.fixture
def page(visit, start):
    return visit(str(start(FakeRun()).base_url))


@pytest.mark.slow
def test_the_text_and_the_colors_survive_a_reload(page, expect):
    translate(page, expect, "a house")
    page.get_by_role("button", name="Dark colors").click()
    page.reload()
    expect(field(page)).to_have_value("a house")
    expect(page.locator(SENTENCE)).to_have_text(["A HOUSE"])
    expect(page.get_by_role("button", name="Light colors")).to_be_visible()
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    page.get_by_role("button", name="Clear", exact=True).click()
    page.reload()
    expect(page.get_by_role("group", name="Examples")).to_be_visible()
    expect(field(page)).to_have_value("")


@pytest.mark.slow
def test_what_is_typed_while_the_page_loads_is_translated(page, expect):
    translate(page, expect, "a house")
    waiting = []
    page.route("**/api/runs", lambda route: waiting.append(route))
    with page.expect_request("**/api/runs"):
        page.reload(wait_until="commit")
    field(page).fill("a tree")
    assert page.locator(".column").count() == 0
    waiting[0].continue_()
    expect(page.locator(SENTENCE)).to_have_text(["A TREE"])


@pytest.mark.slow
def test_a_very_long_text_is_not_kept(page, expect):
    translate(page, expect, "a house")
    field(page).fill("a" * 100_001)
    page.reload()
    expect(page.get_by_role("group", name="Examples")).to_be_visible()
    expect(field(page)).to_have_value("")


@pytest.mark.slow
def test_without_storage_the_page_works(page, expect):
    page.add_init_script(NO_STORAGE)
    page.reload()
    page.get_by_role("button", name="Dark colors").click()
    translate(page, expect, "a house")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"


@pytest.mark.slow
@pytest.mark.parametrize("kept", ["{", "1", '{"text": 1}', '[{"text": 1}, null]'])
def test_what_something_else_has_kept_is_passed_over(page, expect, kept):
    for name in ("theme", "text", "history"):
        page.evaluate(SET_ITEM, [PREFIX + name, kept])
    page.reload()
    translate(page, expect, "a house")
    page.get_by_text("History", exact=True).click()
    assert entries(page) == [["a house", "A HOUSE"]]


@pytest.mark.slow
def test_the_last_translations_can_be_taken_again_and_forgotten(page, expect):
    for text in ("a house", "a hou", "a house is old", "a tree"):
        translate(page, expect, text)
    page.reload()
    expect(page.locator(SENTENCE)).to_have_text(["A TREE"])
    page.get_by_text("History", exact=True).click()
    assert entries(page) == [["a tree", "A TREE"], ["a house is old", "A HOUSE IS OLD"]]
    assert violations(page) == []
    page.get_by_role("button", name="a house is old").click()
    expect(field(page)).to_have_value("a house is old")
    expect(field(page)).to_be_focused()
    expect(page.locator(SENTENCE)).to_have_text(["A HOUSE IS OLD"])
    page.get_by_role("button", name="Clear history").click()
    expect(page.get_by_text("Your recent translations appear here.")).to_be_visible()
    expect(page.get_by_role("status")).to_have_text("The history is empty.")
    assert page.evaluate("name => localStorage.getItem(name)", PREFIX + "history") is None
    page.reload()
    expect(page.locator(SENTENCE)).to_have_text(["A HOUSE IS OLD"])
    assert entries(page) == [["a house is old", "A HOUSE IS OLD"]]  # only what is on the page


@pytest.mark.slow
def test_the_history_has_an_end(page, expect):
    old = [{"text": f"old {n}", "translation": "x", "source": None} for n in range(20)]
    page.evaluate(SET_ITEM, [PREFIX + "history", json.dumps(old)])
    page.reload()
    translate(page, expect, "a house")
    expect(page.locator(".entry")).to_have_count(20)
    assert entries(page)[0] == ["a house", "A HOUSE"]
    assert entries(page)[-1][0] == "old 18"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("language", "parses", "example"),
    [
        ("de-AT", False, "Die Kinder spielen im Garten."),
        (None, False, "The children are playing in the garden."),
        ("en", True, "The children are playing in the garden ."),
    ],
)
def test_examples_are_in_the_language_that_the_run_reads(
    visit, start, expect, language, parses, example
):
    run = FakeParser("trees") if parses else FakeRun()
    run.source_language = language
    page = visit(str(start(run).base_url))
    expect(page.locator(".example")).to_have_count(3)
    assert violations(page) == []
    page.get_by_role("button", name=example).click()
    expect(field(page)).to_have_value(example)
    expect(field(page)).to_be_focused()
    expect(page.locator(".example").first).to_be_hidden()
    expect(page.locator(".column")).to_contain_text("1 sentence")


@pytest.mark.slow
def test_a_run_may_name_its_own_examples(visit, start, expect):
    run = FakeRun()
    run.examples = ["twenty-one", "zero"]
    page = visit(str(start(run).base_url))
    expect(page.locator(".example")).to_have_text(["twenty-one", "zero"])
