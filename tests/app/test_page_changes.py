"""The page in a real browser while a text or an option changes: what is old, and what is wrong."""

import re

import pytest

from tests.app.fake_run import FakeRun
from tests.app.page_parts import SENTENCE, field


@pytest.mark.slow
def test_a_sentence_that_is_awaited_offers_no_old_translations(visit, start, expect):
    run = FakeRun(turns=1)
    page = visit(str(start(run).base_url))
    field(page).fill("a\nb")
    expect(page.locator(SENTENCE)).to_have_text(["A", "B"])
    page.locator(SENTENCE).first.click()
    expect(page.get_by_role("radio")).to_have_count(3)
    last = page.get_by_role("radio").last.element_handle()
    field(page).fill("c\nb")
    expect(page.locator(".column")).to_contain_text("0 of 2")
    expect(page.locator("#sentence-runs")).to_have_text("Not translated yet.")
    last.evaluate("radio => radio.dispatchEvent(new Event('change'))")  # a click just before
    run.turns.release(100)
    expect(page.locator(SENTENCE)).to_have_text(["C", "B"])
    expect(page.get_by_role("radio").first).to_be_checked()


@pytest.mark.slow
def test_a_wrong_option_is_told_and_gets_the_focus_only_where_it_is_asked_for(visit, start, expect):
    page = visit(str(start(FakeRun()).base_url))
    field(page).fill("a")
    expect(page.locator(SENTENCE)).to_have_text(["A"])
    options, beam_size = page.locator("details.options"), page.get_by_label("Beam size")
    alert = page.locator(".column").get_by_role("alert")
    page.get_by_text("More", exact=True).click()
    beam_size.fill("99")
    beam_size.press("Tab")
    expect(beam_size).to_be_focused()
    expect(alert).to_have_text(re.compile("^Beam size: .*32"))

    options.evaluate("details => details.open = false")
    alert.evaluate("alert => alert.replaceChildren()")  # told again when the text is sent
    field(page).fill("a b")
    expect(alert).to_have_text(re.compile("^Beam size: .*32"))
    expect(field(page)).to_be_focused()
    expect(options).not_to_have_attribute("open", "")

    page.get_by_role("button", name="Translate").click()
    expect(options).to_have_attribute("open", "")
    expect(beam_size).to_be_focused()
    beam_size.fill("2")
    beam_size.press("Tab")
    expect(page.locator(SENTENCE)).to_have_text(["A B"])
    expect(alert).to_be_hidden()
