"""The attention page in a real Chromium: what is drawn, and how it answers."""

import functools
import http.server
import json
import pathlib
import shutil
import threading

import numpy as np
import pytest

from keras_transformer import inference
from keras_transformer.interpretation import AttentionMaps, attention_page
from tests.browser import violations
from tests.interpretation.test_attention_page import HOSTILE, hostile_maps

OF_READING = ["willReadFrequently"]  # advice about canvases that only tests read


@pytest.fixture
def open_maps(visit, tmp_path):
    """Open the page of some maps; arguments are those of `visit`."""

    def open_page(maps, title="A pair", **options):
        path = tmp_path / "page.html"
        path.write_text(attention_page(maps, title), "utf-8")
        return visit(path, **options)

    return open_page


def state(page, name):
    return page.locator(".kt-attention").get_attribute(f"data-{name}")


def lines(page):
    """The lines that are drawn, as sorted `(head, row, column)` from 1."""
    found = []
    for path in page.locator(".kt-lines path").all():
        head = int(path.get_attribute("data-head"))
        for part in path.get_attribute("d").split("M")[1:]:
            ends = [float(end.split(" ")[1]) for end in part.split("L")]
            found.append((head, *(int(end // 28) + 1 for end in ends)))
    assert len(found) == int(state(page, "lines"))
    return sorted(found)


def token(page, side, number):
    return page.locator(f".kt-{side} .kt-token").nth(number - 1)


def cells(page):
    """The rows of the table beside the picture."""
    rows = page.locator(".kt-details tbody tr").all()
    return [row.locator("th, td").all_inner_texts() for row in rows]


def alphas(page, selector):
    """The opacities of a canvas, row by row."""
    script = """canvas => [...canvas.getContext("2d").getImageData(0, 0, canvas.width,
        canvas.height).data].filter((_, index) => index % 4 === 3)"""
    return page.locator(selector).first.evaluate(script)


def test_it_shows_both_sentences_and_every_line(open_maps, maps):
    page = open_maps(maps, "the red house")
    assert page.title() == page.locator("h1").inner_text() == "the red house"
    texts = page.locator(".kt-query .kt-token .kt-text").all_inner_texts()
    assert texts == ["·das", "·rote", "·Haus", "</s>"]
    assert page.locator(".kt-key .kt-token .kt-text").all_inner_texts()[0] == "·the"
    assert [state(page, name) for name in ("kind", "layer", "heads")] == ["cross", "1", "1 2"]
    assert lines(page) == [
        (1, 1, 1), (1, 2, 2), (1, 3, 3), (1, 4, 4),
        (2, 1, 1), (2, 1, 4), (2, 2, 1), (2, 2, 4), (2, 3, 2), (2, 3, 4), (2, 4, 3), (2, 4, 4),
    ]  # fmt: skip
    assert cells(page) == [["1", "0.00", "0.0"], ["2", "0.50", "1.4"]]


def test_stronger_weights_are_stronger_lines(open_maps, maps):
    page = open_maps(maps)
    script = "path => ['stroke-opacity', 'stroke-width'].map(name => +path.getAttribute(name))"
    paths = page.locator('.kt-lines path[data-head="2"]').all()
    weak, strong = sorted(path.evaluate(script) for path in paths)
    assert weak[0] < 0.6 < strong[0]
    assert weak[1] < strong[1]
    colors = page.locator(".kt-lines path").evaluate_all(
        "paths => [...new Set(paths.map(path => getComputedStyle(path).stroke))]"
    )
    assert len(colors) == 2


def test_pointing_at_a_token_shows_where_it_looks(open_maps, maps):
    page = open_maps(maps)
    token(page, "query", 2).hover()
    assert state(page, "focus") == "query 2"
    assert lines(page) == [(1, 2, 2), (2, 2, 1), (2, 2, 4)]
    assert cells(page) == [
        ["2\nred", "50 %", "1 (100 %)"],
        ["4\n</s>", "40 %", "2 (80 %)"],
        ["1\nthe", "10 %", "2 (20 %)"],
    ]
    assert page.locator(".kt-details .kt-title").inner_text() == "“rote” looks at"
    assert "has read “das” and is to predict “rote”" in page.locator(".kt-details").inner_text()
    badges = page.locator(".kt-key .kt-badges").all_inner_texts()
    assert badges == ["", "1", "", "2"]
    token(page, "key", 4).hover()
    assert lines(page) == [(1, 4, 4), *((2, row, 4) for row in (1, 2, 3, 4))]
    page.mouse.move(5, 5)
    assert state(page, "focus") == ""
    assert len(lines(page)) == 12


def test_a_click_keeps_a_token_and_a_second_one_lets_it_go(open_maps, maps):
    page = open_maps(maps)
    token(page, "query", 3).click()
    page.mouse.move(5, 5)
    assert state(page, "focus") == "query 3"
    token(page, "query", 1).hover()  # a look aside
    assert state(page, "focus") == "query 1"
    page.mouse.move(5, 5)
    assert state(page, "focus") == "query 3"
    page.locator(".kt-details .kt-go").nth(1).click()  # the end, the second strongest
    assert state(page, "focus") == "key 4"
    token(page, "query", 1).click()
    token(page, "query", 1).click()
    page.mouse.move(5, 5)
    assert state(page, "focus") == ""


def test_the_keyboard_reaches_every_token(open_maps, maps):
    page = open_maps(maps)
    page.get_by_role("button", name="No head").focus()
    page.keyboard.press("Tab")
    assert state(page, "focus") == "query 1"
    for key, focus in (
        ("ArrowDown", "query 2"),
        ("End", "query 4"),
        ("ArrowDown", "query 4"),
        ("ArrowRight", "key 4"),
        ("PageUp", "key 1"),
        ("ArrowLeft", "query 1"),
        ("Escape", ""),
    ):
        page.keyboard.press(key)
        assert state(page, "focus") == focus
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowDown")
    assert state(page, "focus") == "key 2"
    assert lines(page) == [(1, 2, 2), (2, 3, 2)]
    option = page.locator(":focus")
    assert option.get_attribute("role") == "option"
    assert option.get_attribute("aria-label") == "2: red"
    assert option.get_attribute("aria-selected") == "true"
    assert option.evaluate("option => getComputedStyle(option).outlineStyle") == "solid"


def test_a_tap_on_a_phone_shows_where_a_token_looks(open_maps, maps):
    page = open_maps(maps, phone=True)
    token(page, "query", 2).tap()
    assert lines(page) == [(1, 2, 2), (2, 2, 1), (2, 2, 4)]
    page.locator("h1").tap()
    assert state(page, "focus") == "query 2"
    token(page, "query", 2).tap()
    assert state(page, "focus") == ""
    for view in ("Matrix", "Lines"):
        page.get_by_role("radio", name=view).check()
        assert page.evaluate("document.documentElement.scrollWidth") == 390


def test_heads_and_layers_are_chosen(open_maps, maps):
    page = open_maps(maps)
    page.get_by_role("button", name="Head 2", exact=True).click()
    assert {head for head, _, _ in lines(page)} == {1}
    page.get_by_role("button", name="No head").click()
    assert lines(page) == []
    assert "No head is shown" in page.locator(".kt-details").inner_text()
    page.get_by_role("button", name="All heads").click()
    page.get_by_role("radio", name="2", exact=True).check()
    assert (state(page, "layer"), len(lines(page))) == ("2", 32)
    page.get_by_role("button", name="Layer 1, head 2: entropy 0.50, mean distance 1.4").click()
    assert (state(page, "layer"), state(page, "heads")) == ("1", "2")
    assert page.locator('.kt-thumbnail[aria-pressed="true"]').count() == 1


def test_the_keyboard_chooses_among_all_heads(open_maps, maps):
    page = open_maps(maps)
    page.get_by_role("button", name="Layer 1, head 1").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")  # there is no further one
    page.keyboard.press("Enter")
    assert (state(page, "layer"), state(page, "heads")) == ("2", "2")
    assert (
        page.locator('.kt-thumbnail[tabindex="0"]')
        .get_attribute("aria-label")
        .startswith("Layer 2, head 2: ")
    )


def test_kinds_have_their_own_sentences(open_maps, maps):
    page = open_maps(maps)
    names = page.locator(".kt-heading")
    page.get_by_role("radio", name="Encoder").check()
    assert names.all_inner_texts() == ["Queries\nSource", "", "Keys\nSource"]
    assert not page.get_by_role("radio", name="Predicted").is_visible()
    page.get_by_role("radio", name="Decoder").check()
    assert names.all_inner_texts() == ["Queries\nOutput, predicted", "", "Keys\nOutput, read"]
    assert token(page, "query", 1).inner_text().startswith("1\n·das")
    page.get_by_role("radio", name="Read").check()
    assert token(page, "query", 1).inner_text().startswith("1\n<s>")
    token(page, "query", 2).hover()
    assert {(row, column) for _, row, column in lines(page)} == {(2, 1), (2, 2)}


def test_thumbnails_and_the_matrix_are_the_weights(open_maps, maps):
    page = open_maps(maps, allow=OF_READING)
    roots = np.rint(255 * np.sqrt(maps.cross))
    np.testing.assert_array_equal(alphas(page, ".kt-thumbnail canvas"), roots[0, 0].ravel())
    page.get_by_role("radio", name="Matrix").check()
    mean = 255 * np.sqrt(maps.cross[0].mean(axis=0)).ravel()
    np.testing.assert_allclose(alphas(page, ".kt-weights"), mean, atol=1)
    page.get_by_role("button", name="Head 1", exact=True).click()
    np.testing.assert_array_equal(alphas(page, ".kt-weights"), roots[0, 1].ravel())


def test_the_matrix_answers_to_pointer_and_keyboard(open_maps, maps):
    page = open_maps(maps)
    page.get_by_role("radio", name="Matrix").check()
    page.locator(".kt-field").hover(position={"x": 32 * 3 + 5, "y": 32 * 1 + 5})
    assert (state(page, "focus"), state(page, "cell")) == ("query 2", "4")
    assert "Cell: “</s>” 40 %" in page.locator(".kt-details").inner_text()
    page.mouse.move(5, 5)
    token(page, "query", 1).focus()
    for key, focus, cell in (
        ("ArrowDown", "query 2", ""),
        ("ArrowRight", "query 2", "1"),
        ("ArrowRight", "query 2", "2"),
        ("ArrowDown", "query 3", "2"),
        ("ArrowLeft", "query 3", "1"),
    ):
        page.keyboard.press(key)
        assert (state(page, "focus"), state(page, "cell")) == (focus, cell)
    token(page, "key", 4).hover()
    assert state(page, "focus") == "key 4"
    assert cells(page)[0] == ["4\n</s>", "90 %", "1 (100 %)"]


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize(
    "phone", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["desktop", "phone"]
)
def test_axe_finds_nothing_serious(open_maps, maps, dark, phone):
    page = open_maps(maps, dark=dark, phone=phone)
    assert violations(page) == []
    for view in ("Lines", "Matrix"):
        page.get_by_role("radio", name=view).check()
        token(page, "query", 2).click()
        assert violations(page) == []


def test_axe_would_find_faint_text(visit, tmp_path):
    path = tmp_path / "faint.html"
    path.write_text(
        '<!DOCTYPE html><html lang="en"><title>t</title><main><style>p { color: '
        "light-dark(#999, #fff); background: #fff }</style><p>faint</p><button></button></main>"
    )
    found = violations(visit(path))
    assert {line.split(" ")[0] for line in found} == {"color-contrast", "button-name"}


def test_it_turns_dark_and_light(open_maps, maps):
    page = open_maps(maps, allow=OF_READING)
    color = "element => getComputedStyle(element).backgroundColor"
    pixel = """canvas => [...canvas.getContext("2d").getImageData(0, 0, 1, 1).data].join()"""
    thumbnail = page.locator(".kt-thumbnail canvas").first
    seen = []
    for name in ("Dark colors", "Light colors"):
        seen.append((page.locator("body").evaluate(color), thumbnail.evaluate(pixel)))
        page.get_by_role("button", name=name).click()
    seen.append((page.locator("body").evaluate(color), thumbnail.evaluate(pixel)))
    assert seen[0] == seen[2] == ("rgb(255, 255, 255)", "29,102,208,255")
    assert seen[1] == ("rgb(23, 26, 33)", "110,168,255,255")
    dark = open_maps(maps, dark=True, allow=OF_READING)
    assert dark.locator("body").evaluate(color) == "rgb(23, 26, 33)"
    dark.emulate_media(color_scheme="light")
    while dark.locator(".kt-thumbnail canvas").first.evaluate(pixel) != seen[0][1]:
        dark.wait_for_timeout(20)


def test_hostile_text_stays_text(open_maps):
    page = open_maps(hostile_maps(), title=HOSTILE[0])
    shown = page.locator(".kt-key .kt-token .kt-text").evaluate_all(
        "texts => texts.map(text => text.textContent)"
    )
    assert shown == [text.replace("▁", "·") for text in HOSTILE]
    for view in ("Lines", "Matrix"):
        page.get_by_role("radio", name=view).check()
        for number in range(1, len(HOSTILE) + 1):
            token(page, "query", number).hover()
    assert page.locator("img, script:not(body > script)").count() == 0
    assert page.locator("h1").inner_text() == HOSTILE[0]


class _Strict(http.server.SimpleHTTPRequestHandler):
    """Files under a policy without exceptions."""

    def end_headers(self):
        policy = "default-src 'none'; script-src 'self'; style-src 'self'"
        self.send_header("Content-Security-Policy", policy)
        super().end_headers()

    def log_message(self, *arguments):
        """No lines on stderr."""


@pytest.fixture
def served(maps, tmp_path):
    """The address of a page with two mounts; the component is in files, as a server sends it."""
    folder = pathlib.Path(inference.__file__).with_name("page")
    for name in ("attention.js", "attention.css"):
        shutil.copy(folder / name, tmp_path)
    (tmp_path / "index.html").write_text(
        '<!DOCTYPE html><html lang="en"><meta charset="utf-8"><title>Two</title>'
        '<link rel="stylesheet" href="/attention.css"><main><div id="a"></div><div id="b"></div>'
        '</main><script src="/attention.js"></script><script src="/two.js"></script>'
    )
    (tmp_path / "two.js").write_text(
        f"const data = {json.dumps(maps.to_json())}; window.mounts = ['a', 'b'].map(id => "
        "KerasTransformerAttention.mount(document.getElementById(id), data));"
    )
    handler = functools.partial(_Strict, directory=tmp_path)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


def test_two_mounts_live_beside_each_other_under_a_strict_policy(visit, served):
    page = visit(served, allow=["favicon.ico"])
    first, second = page.locator("#a"), page.locator("#b")
    first.get_by_role("radio", name="Encoder").check()
    first.locator(".kt-query .kt-token").first.hover()
    states = [root.get_attribute("data-kind") for root in page.locator(".kt-attention").all()]
    assert states == ["encoder", "cross"]
    assert second.locator(".kt-token").first.evaluate("e => getComputedStyle(e).height") == "28px"
    bar = first.locator(".kt-key .kt-bar").first
    assert bar.evaluate("bar => bar.getBoundingClientRect().width") > 5
    page.evaluate("mounts[0].destroy()")
    assert (first.inner_html(), second.locator(".kt-token").count()) == ("", 8)
    page.emulate_media(color_scheme="dark")  # nothing is left that would answer
    page.evaluate("mounts[1].destroy()")
    assert page.locator(".kt-attention").count() == 0


def long_maps(length=200):
    """Maps of six layers and eight heads."""
    generator = np.random.default_rng(0)

    def some(is_causal=False):
        logits = 3 * generator.normal(size=(6, 8, length, length)).astype("float32")
        if is_causal:
            logits = np.where(np.tri(length, dtype=bool), logits, -np.inf)
        powers = np.exp(logits)
        return powers / powers.sum(axis=-1, keepdims=True)

    words = [f"▁word{number}" for number in range(length - 1)]
    return AttentionMaps(
        [*words, "</s>"], ["<s>", *words], [*words, "</s>"], some(), some(True), some()
    )


@pytest.mark.slow
@pytest.mark.parametrize("phone", [False, True], ids=["desktop", "phone"])
def test_two_hundred_tokens_are_usable(open_maps, phone):
    page = open_maps(long_maps(), phone=phone)
    assert len(lines(page)) <= 1500
    assert page.locator("*").count() < 5000
    assert page.locator(".kt-thumbnail").count() == 48
    for kind in ("Encoder", "Decoder", "Cross"):
        page.get_by_role("radio", name=kind).check()
        for view in ("Lines", "Matrix"):
            page.get_by_role("radio", name=view).check()
            last = token(page, "query", 200)
            (last.tap if phone else last.click)()
            assert state(page, "focus") == "query 200"
            page.keyboard.press("Home")
            assert state(page, "focus") == "query 1"
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    # Read at once: the browser's own pointer may leave the page at any moment.
    focus = page.evaluate(
        """() => {
            document.querySelectorAll(".kt-query .kt-token").forEach((option, clientX) =>
                option.dispatchEvent(new PointerEvent("pointerover", {bubbles: true, clientX})));
            return document.querySelector(".kt-attention").dataset.focus;
        }"""
    )
    assert focus == "query 200"
    assert violations(page) == []
