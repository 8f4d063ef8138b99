"""The page in a real browser with long texts and with sentences that are too long."""

import pytest

from tests.app.fake_run import FakeParser, FakeRun
from tests.app.page_parts import SENTENCE, field
from tests.browser import violations

LINES = [f"{'first' if n < 30 else 'later'} sentence {n}" for n in range(60)]
LONGEST = 4 * 29  # pixels of a translation's lines
# Scrolls an area to a part of its way. Gives how far the sentence that is then at this part of the
# area's height is from its translation, in pixels.
SCROLL = """async ([name, part]) => {
    const area = document.querySelector(name);
    area.scrollTop = part * (area.scrollHeight - area.clientHeight);
    await new Promise((done) => setTimeout(done, 300));
    const tops = (selector) => [...document.querySelectorAll(selector)].map(
        (one) => one.getClientRects()[0].top
    );
    const [source, target] = [tops("#backdrop span"), tops(".column .sentence")];
    const line = area.getBoundingClientRect().top + part * area.clientHeight;
    const at = (name === ".editor" ? source : target).findLastIndex((top) => top <= line);
    return Math.abs(source[at] - target[at]);
}"""


class UnevenRun(FakeRun):
    """The first sentences have long translations, the later ones short ones."""

    def compute(self, work, items):
        if work.task == "align":
            return super().compute(work, items)
        return [[(" ".join([item] * (12 if "first" in item else 1)), -1.0)] for item in items]


def translated(page, expect, columns=1):
    field(page).fill("\n".join(LINES))
    expect(page.locator(SENTENCE)).to_have_count(60 * columns)
    return page


def rest(page, selector):
    """How much of an area is below what is shown, in pixels."""
    area = page.locator(selector)
    return area.evaluate("area => area.scrollHeight - area.clientHeight - area.scrollTop")


def height(page, selector):
    return page.locator(selector).first.bounding_box()["height"]


@pytest.mark.slow
def test_a_text_and_its_translation_scroll_together_sentence_by_sentence(visit, start, expect):
    page = translated(visit(str(start(UnevenRun()).base_url)), expect)
    for area in (".editor", ".column .text"):
        for part in (0.25, 0.5, 0.75):
            assert page.evaluate(SCROLL, [area, part]) < LONGEST, (area, part)
    page.evaluate(SCROLL, [".column .text", 1])
    assert rest(page, ".editor") < 2
    page.evaluate(SCROLL, [".column .text", 0])
    assert page.locator(".editor").evaluate("area => area.scrollTop") == 0


@pytest.mark.slow
def test_a_text_that_has_changed_scrolls_in_proportion(visit, start, expect):
    page = translated(visit(str(start(UnevenRun()).base_url)), expect)
    page.get_by_label("While typing").uncheck()
    field(page).press_sequentially("x")
    area = page.locator(".column .text")
    for part in (0.25, 0.75):
        page.locator(".editor").evaluate(
            "(area, part) => (area.scrollTop = part * (area.scrollHeight - area.clientHeight))",
            part,
        )
        page.wait_for_timeout(300)
        share = area.evaluate("area => area.scrollTop / (area.scrollHeight - area.clientHeight)")
        assert share == pytest.approx(part, abs=0.02)


@pytest.mark.slow
def test_neither_half_is_blank(visit, start, expect):
    page = translated(visit(str(start(UnevenRun()).base_url)), expect)
    window = page.viewport_size["height"]
    assert height(page, ".source") == height(page, ".column") < 0.8 * window
    for panel, area in ((".source", ".editor"), (".column", ".column .text")):
        assert height(page, panel) - height(page, area) < 130  # a head and a foot
    assert violations(page) == []


@pytest.mark.slow
def test_on_a_phone_the_translation_scrolls_with_the_page(visit, start, expect):
    page = translated(visit(str(start(UnevenRun()).base_url), phone=True), expect)
    window = page.viewport_size["height"]
    assert height(page, ".editor") <= 0.5 * window
    assert height(page, ".column .text") > 2 * window


@pytest.mark.slow
def test_several_translations_scroll_with_the_text(visit, start, expect):
    page = visit(str(start(UnevenRun("one"), FakeRun("two")).base_url))
    translated(page, expect, columns=2)
    page.evaluate(SCROLL, [".editor", 1])
    for number in (1, 2):
        area = f".column:nth-child({number}) .text"
        assert rest(page, area) < 2
        assert page.locator(area).evaluate("area => area.scrollTop") > 0


@pytest.mark.slow
def test_a_sentence_that_is_too_long_is_marked_and_the_rest_is_translated(typed, expect):
    page = typed("one\nLONG one\ntwo", ["ONE", "TWO"], FakeRun(), FakeParser("trees"))
    expect(page.locator("#backdrop .skipped")).to_have_text("LONG one")
    reason = "Sentence 2 has more than 256 tokens"
    expect(page.locator(".column .text .skipped")).to_have_text(
        [f"Not translated. {reason}", f"No tree. {reason}"]
    )
    expect(page.locator("#skipped")).to_have_text(f"{reason} Shorten or split it.")
    expect(page.locator(".column").first).to_contain_text("3 sentences, 1 too long")
    expect(page.locator(".tree svg")).to_have_count(2)
    assert "skipped" in field(page).get_attribute("aria-describedby")
    assert violations(page) == []

    page.locator(SENTENCE).first.click()
    page.get_by_role("button", name="Next sentence").click()
    expect(page.locator("#sentence-runs")).to_contain_text(f"Not translated. {reason}")
    field(page).fill("one\ntwo")
    expect(page.locator(".column .text .skipped")).to_have_count(0)
    expect(page.locator("#skipped")).to_be_hidden()


@pytest.mark.slow
def test_a_copy_has_the_sentence_that_is_too_long_as_it_is(typed, expect):
    page = typed(
        "one\nLONG one\ntwo",
        ["ONE", "TWO"],
        FakeRun(),
        permissions=["clipboard-read", "clipboard-write"],
    )
    page.get_by_role("button", name="Copy the translation").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == "ONE\nLONG one\nTWO"


@pytest.mark.slow
@pytest.mark.parametrize("phone", [False, True])
def test_the_button_keeps_the_distance_of_the_text(visit, start, phone):
    page = visit(str(start(FakeRun()).base_url), phone=phone)
    panel, button = (page.locator(selector).bounding_box() for selector in (".source", "#go"))
    padding = page.locator("#text").evaluate("text => getComputedStyle(text).paddingRight")
    distance = panel["x"] + panel["width"] - button["x"] - button["width"]
    assert distance == pytest.approx(float(padding.removesuffix("px")), abs=2)
