"""Code that names something public links to its entry in the API reference."""

import pytest

from docs.tools.api_pages import Entry
from docs.tools.symbol_links import targets_of, with_links

HOME = "keras_transformer.inference.parser.Parser"
TARGETS = {"Parser": "api/parsing.html#p", "Parser.parse": "api/parsing.html#q"}


def test_a_class_and_its_members_have_targets():
    entry = Entry("keras_transformer", "Parser", "parsing")
    anchors = {
        HOME: "api/parsing.html",
        f"{HOME}.parse": "api/parsing.html",
        f"{HOME}Options": "api/parsing.html",
    }
    assert targets_of([entry], anchors) == {
        "Parser": f"api/parsing.html#{HOME}",
        "keras_transformer.Parser": f"api/parsing.html#{HOME}",
        HOME: f"api/parsing.html#{HOME}",
        "Parser.parse": f"api/parsing.html#{HOME}.parse",
        "keras_transformer.Parser.parse": f"api/parsing.html#{HOME}.parse",
        f"{HOME}.parse": f"api/parsing.html#{HOME}.parse",
    }


@pytest.mark.parametrize(("name", "is_clear"), [("fit_texts", True), ("freeze", False)])
def test_a_common_word_needs_its_module(name, is_clear):
    from keras_transformer import data, training

    module = data if name == "fit_texts" else training
    entry = Entry(module.__name__, name, "some")
    targets = targets_of([entry], {entry.home: "api/some.html"})
    short = module.__name__.removeprefix("keras_transformer.")
    assert targets[f"{short}.{name}"] == f"api/some.html#{entry.home}"
    assert (name in targets) == is_clear


def test_code_becomes_a_link():
    shown = with_links("<p><code>Parser</code>, <code>Parser.parse()</code></p>", TARGETS)
    assert shown == (
        '<p><a class="symbol" href="api/parsing.html#p"><code>Parser</code></a>, '
        '<a class="symbol" href="api/parsing.html#q"><code>Parser.parse()</code></a></p>'
    )


def test_links_headings_and_blocks_of_code_stay():
    kept = (
        '<h2><code>Parser</code></h2><a href="x"><code>Parser</code></a>'
        "<pre><code>Parser</code></pre><code>other</code> Parser"
    )
    assert with_links(kept, TARGETS) == kept
    assert with_links(f"{kept}<code>Parser</code>", TARGETS).startswith(kept + "<a ")


def test_once_links_the_first_mention():
    code = "<code>Parser</code>"
    link = f'<a class="symbol" href="api/parsing.html#p">{code}</a>'
    assert with_links(code + code, TARGETS, once=True) == link + code
    assert with_links(code + code, TARGETS) == link + link
