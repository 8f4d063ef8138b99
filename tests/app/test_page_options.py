"""Terms, parts to keep, and markup: what the page sends, and how it shows documents."""

import json

import pytest

from keras_transformer.toolkit.app import AppLimits
from tests.app.fake_run import FakeParser, FakeRun
from tests.app.page_parts import SENTENCE, field
from tests.browser import violations

HOSTILE = """<!doctype html><meta http-equiv="refresh" content="0;url=http://evil.example/refresh">
<base href="http://evil.example/">
<link rel="stylesheet" href="http://evil.example/a.css"><style>p { color: red }</style>
<p>A house</p>
<script>parent.postMessage("ran", "*"); document.body.append("RAN"); top.document.title = "RAN";
top.location = "http://evil.example/top"</script>
<script src="http://evil.example/a.js"></script><script src="/page/main.js"></script>
<img src="x" onerror="document.body.append('RAN')"><img src="http://evil.example/pixel.png">
<svg onload="document.body.append('RAN')"></svg><body onload="document.body.append('RAN')">
<iframe src="javascript:parent.document.body.append('RAN')"></iframe>
<iframe srcdoc="<script>parent.document.body.append('RAN')</script>"></iframe>
<object data="http://evil.example/o"></object><embed src="http://evil.example/e">
<video src="http://evil.example/v" autoplay></video>
<form action="http://evil.example/form"><button>Send</button></form>
<a href="javascript:document.body.append('RAN')">Script</a>
<a href="http://evil.example/link">Away</a>
<a href="http://evil.example/top" target="_top">Top</a>"""
# What Chromium says when it refuses something in the frame.
REFUSED = ("Content Security Policy", "sandboxed", "ERR_BLOCKED_BY_RESPONSE")


@pytest.fixture
def form(visit, start):
    """Open an app of some runs with the options shown; gives the page and the requests."""

    def form(*runs, **options):
        page = visit(str(start(*runs).base_url), **options)
        asked = []
        page.on("request", lambda request: asked.append((request.url, request.post_data)))
        page.get_by_text("More", exact=True).click()
        return page, asked

    return form


def bodies(asked, path):
    return [json.loads(data) for url, data in asked if url.endswith(path)]


@pytest.mark.slow
def test_terms_and_parts_to_keep_are_sent(form, expect):
    page, asked = form(FakeRun())
    page.get_by_label("Terms").fill(
        "river\tFluss\n\n house = Haus | Häuser \nhouse=Heim\n__proto__ = a = b"
    )
    page.get_by_label("Keep unchanged").select_option("numbers")
    field(page).fill("one")
    expect(page.locator(SENTENCE)).to_have_text(["ONE"])
    body = bodies(asked, "/translate/stream")[-1]
    assert body["keep"] == "numbers"
    assert body["glossary"] == {
        "river": ["Fluss"],
        "house": ["Haus", "Häuser", "Heim"],
        "__proto__": ["a = b"],
    }
    page.get_by_role("button", name="Reset").click()
    field(page).fill("two")
    expect(page.locator(SENTENCE)).to_have_text(["TWO"])
    assert bodies(asked, "/translate/stream")[-1].keys().isdisjoint({"keep", "glossary", "markup"})


@pytest.mark.slow
@pytest.mark.parametrize("line", ["house", "= Haus", "house =", "a = b | ", "a\tb\ti"])
def test_a_line_that_is_no_term_is_told(form, expect, line):
    page, asked = form(FakeRun())
    page.get_by_label("Terms").fill(f"a = b\n{line}")
    field(page).fill("one")
    fault = "Terms: Line 2 must have the form “source = target”."
    expect(page.locator(".column .fault")).to_have_text(fault)
    assert bodies(asked, "/translate/stream") == []
    page.get_by_label("Terms").fill("a = b")
    page.get_by_label("Terms").blur()
    expect(page.locator(SENTENCE)).to_have_text(["ONE"])


@pytest.mark.slow
def test_a_refusal_of_the_app_is_shown(visit, start, expect):
    page = visit(str(start(FakeRun(), limits=AppLimits(terms=1)).base_url), allow=["413"])
    page.get_by_text("More", exact=True).click()
    page.get_by_label("Terms").fill("a = b\nc = d")
    field(page).fill("one")
    fault = "A request may have at most 1 terms. Received: 2"
    expect(page.locator(".column .fault")).to_have_text(fault)


@pytest.mark.slow
def test_runs_without_terms_have_no_fields_for_them(form, expect):
    run = FakeRun()
    run.takes_terms = False
    page, _ = form(run, FakeParser("trees"))
    expect(page.get_by_label("Beam size")).to_be_visible()
    for label in ("Terms", "Keep unchanged", "Markup of the text"):
        expect(page.get_by_label(label)).to_have_count(0)


@pytest.mark.slow
def test_html_is_shown_without_running_or_loading_anything(form, expect):
    page, asked = form(FakeRun(), allow=REFUSED)
    messages = []
    page.expose_function("told", lambda message: messages.append(message))
    page.evaluate("addEventListener('message', (event) => told(event.data))")
    page.get_by_label("Markup of the text").select_option("HTML")
    title, address = page.title(), page.url
    field(page).fill(HOSTILE)
    frame = page.frame_locator("iframe.preview")
    expect(frame.locator("p")).to_have_text("A HOUSE")
    expect(page.locator(".document")).to_have_text(HOSTILE.replace("house", "HOUSE"))
    for clicked in ("Script", "Away", "Top", "Send"):
        frame.get_by_text(clicked, exact=True).click()
        page.wait_for_timeout(200)
    expect(frame.locator("p")).to_have_text("A HOUSE")  # still the same page
    assert "RAN" not in frame.locator("body").evaluate("(body) => body.innerText")
    assert messages == []
    assert (page.title(), page.url, len(page.context.pages)) == (title, address, 1)
    assert page.locator("iframe.preview").get_attribute("sandbox") == ""
    (body,) = bodies(asked, "/api/translate")
    assert body == {"text": HOSTILE, "run": "fake", "n_best": 1, "search": {}, "markup": "html"}


@pytest.mark.slow
def test_markdown_is_shown_as_text_and_plain_text_again_as_sentences(form, expect):
    page, _ = form(FakeRun())
    page.get_by_label("Markup of the text").select_option("Markdown")
    field(page).fill("# A *house*\n\nA tree.")
    expect(page.locator(".document")).to_have_text("# A *HOUSE*\n\nA tree.")
    expect(page.locator("iframe")).to_have_count(0)
    expect(page.locator(".column .muted").last).to_have_text("1 document")
    page.get_by_label("Markup of the text").select_option("none")
    expect(page.locator(SENTENCE)).to_have_text(["# A *HOUSE*", "A TREE."])
    expect(page.locator(".document")).to_have_count(0)


@pytest.mark.slow
@pytest.mark.parametrize("looks", [{}, {"dark": True}, {"phone": True}], ids=str)
def test_a_document_is_readable_light_dark_and_on_a_phone(form, expect, looks):
    page, _ = form(FakeRun(), **looks)
    page.get_by_label("Terms").fill("house = Haus")
    page.get_by_label("Markup of the text").select_option("HTML")
    field(page).fill("<h1>A house</h1>\n<p>A tree and a <b>house</b>.</p>")
    expect(page.frame_locator("iframe.preview").locator("h1")).to_have_text("A HOUSE")
    if looks.get("phone"):
        page.set_viewport_size({"width": 320, "height": 700})
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert violations(page) == []
