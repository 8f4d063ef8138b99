"""What the search of the site prefers: titles have the words, guides outrank the reference."""

import re
import types

import pytest

from docs.tools.search_boosts import BOOSTS, on_page_markdown
from tests.pages.page import ROOT, Page


@pytest.mark.parametrize(
    ("words", "page"),
    [
        ("fine tune my own data", "docs/tutorials/fine_tune.md"),
        ("two files", "docs/tutorials/language_pair.md"),
        ("docker compose", "docs/tutorials/docker_compose.md"),
        ("import models", "docs/opus_mt.md"),
        ("web app", "docs/app.md"),
        ("report a bug", "docs/project/report_a_bug.md"),
        ("get started", "docs/tutorials/get_started.md"),
    ],
)
def test_the_title_has_the_words(words, page):
    title = Page(page).text.partition("\n")[0].lower()
    common = {"a", "my"}
    assert set(words.split()) - common <= set(re.findall(r"\w+", title))


def boost_of(address):
    page = types.SimpleNamespace(file=types.SimpleNamespace(src_uri=address), meta={})
    assert on_page_markdown("text", page, None, None) == "text"
    return page.meta.get("search", {"boost": 1})["boost"]


def test_guides_rank_before_the_reference():
    assert boost_of("api/training.md") < boost_of("recipes/adapt/README.md") < 1
    assert boost_of("training.md") == boost_of("tutorials/language_pair.md") == 1


def test_what_has_a_rank_is_there():
    folders = [ROOT / "docs", ROOT]
    missing = [name for name in BOOSTS if not any((one / name).exists() for one in folders)]
    # The names that these files have outside docs/ are in capitals.
    assert missing == ["changelog.md", "contributing.md", "security_policy.md"]
