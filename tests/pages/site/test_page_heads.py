"""Descriptions of pages: one for each page of the navigation, of a length that is shown."""

import re
import types

from docs.tools.page_heads import HEADS, on_page_markdown
from docs.tools.repository_links import pages_outside
from tests.pages.page import ROOT


def pages_of_the_navigation():
    navigation = (ROOT / "mkdocs.yml").read_text("utf-8").partition("\nnav:\n")[2]
    return re.findall(r": (\S+\.md)$", navigation.partition("\nplugins:\n")[0], re.MULTILINE)


def test_every_page_of_the_navigation_has_a_head():
    assert len(pages_of_the_navigation()) > 60
    assert sorted(HEADS) == sorted(pages_of_the_navigation())


def test_every_page_of_the_repository_is_in_the_navigation():
    inside = {path.relative_to(ROOT / "docs").as_posix() for path in ROOT.glob("docs/**/*.md")}
    made = {"notebooks/layers_notebook.md"}
    assert inside | {*pages_outside().values()} | made == set(pages_of_the_navigation())


def test_descriptions_differ_and_fit():
    descriptions = [head.description for head in HEADS.values()]
    assert len(set(descriptions)) == len(descriptions)
    assert [one for one in descriptions if not 50 <= len(one) <= 160] == []
    assert [one for one in descriptions if not one.endswith(".")] == []


def test_a_page_gets_its_description_and_words():
    page = types.SimpleNamespace(file=types.SimpleNamespace(src_uri="litert.md"), meta={})
    assert on_page_markdown("text", page, None, None) == "text"
    assert page.meta["description"] == HEADS["litert.md"].description
    assert "tflite" in page.meta["tags"]
