"""The text of the page; tests/interpretation/test_page_in_browser.py looks at it."""

import base64
import hashlib
import html.parser
import json
import re

import numpy as np
import pytest

from keras_transformer.errors import UserInputError
from keras_transformer.interpretation import AttentionMaps, attention_page

HOSTILE = [
    "</script><img src=x onerror=alert(1)>",
    "<!--<script>",
    "]]>&amp;&lt;",
    "\"'`${1}",
    "▁שלום",
    "🎉",
    "\u2028\u2029",
    "\ud800",
    "{policy}{title}",
]


def hostile_maps():
    """Maps whose tokens would like to be something else than text."""
    number = len(HOSTILE)
    weights = np.full((1, 1, number, number), 1 / number, "float32")
    return AttentionMaps(HOSTILE, HOSTILE, HOSTILE, weights, weights, weights)


class Elements(html.parser.HTMLParser):
    """The elements of a page with their attributes, and the text at the begin of each."""

    def __init__(self, page):
        super().__init__()
        self.found = []
        self.is_open = False
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.found.append([tag, dict(attrs), ""])
        self.is_open = True

    def handle_endtag(self, tag):
        self.is_open = False

    def handle_data(self, data):
        if self.is_open:
            self.found[-1][2] += data

    def named(self, name):
        return [(attributes, text) for tag, attributes, text in self.found if tag == name]


def test_the_data_are_in_the_page(maps):
    elements = Elements(attention_page(maps, "Title"))
    (data, _) = elements.named("script")
    assert data[0] == {"id": "data", "type": "application/json"}
    assert json.loads(data[1]) == maps.to_json()


def test_the_policy_allows_what_is_inside_and_nothing_else(maps):
    elements = Elements(attention_page(maps, "Title"))
    ((attributes, _),) = [e for e in elements.named("meta") if "http-equiv" in e[0]]
    policy = dict(part.strip().split(" ", 1) for part in attributes["content"].split(";"))
    assert policy.keys() == {
        "default-src", "script-src", "style-src", "img-src", "base-uri", "form-action",
    }  # fmt: skip
    ((_, style),) = elements.named("style")
    (_, (_, script)) = elements.named("script")
    for name, text in (("style-src", style), ("script-src", script)):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert policy[name] == f"'sha256-{digest}'"
    assert policy["default-src"] == policy["base-uri"] == policy["form-action"] == "'none'"
    assert policy["img-src"] == "data:"


def test_nothing_is_loaded_or_run_from_attributes(maps):
    page = attention_page(maps, "Title")
    for tag, attributes, _ in Elements(page).found:
        assert not {"src", "style", "action"} & attributes.keys()
        assert not [name for name in attributes if name.startswith("on")]
        assert tag != "link" or attributes["href"] == "data:,"
    for way in ("eval(", "innerHTML", "insertAdjacentHTML", "document.write", "new Function"):
        assert way not in page
    assert set(re.findall(r"https?://[^\s\"']+", page)) == {"http://www.w3.org/2000/svg"}


def test_hostile_text_is_only_ever_text():
    maps, plain = hostile_maps(), Elements(attention_page(hostile_maps(), "Title"))
    for title in HOSTILE:
        page = attention_page(maps, title)
        page.encode("utf-8")
        elements = Elements(page)
        assert [tag for tag, *_ in elements.found] == [tag for tag, *_ in plain.found]
        shown = title.replace("\ud800", "?")
        assert [text for _, text in elements.named("h1") + elements.named("title")] == [shown] * 2
        (_, data), _ = elements.named("script")
        assert json.loads(data)["source_tokens"] == HOSTILE
        assert "<" not in data


def test_more_than_a_browser_shows_is_refused():
    weights = np.broadcast_to(np.float32(0), (12, 16, 600, 600))
    maps = AttentionMaps([""] * 600, [""] * 600, [""] * 600, weights, weights, weights)
    with pytest.raises(UserInputError, match="at most 50,000,000 weights. Received: 207,360,000"):
        attention_page(maps, "Long")
