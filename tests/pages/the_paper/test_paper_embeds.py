"""The hook that puts drawings and stepping figures into their page."""

import re

import pytest

from docs.tools.paper_embeds import part_of_page, with_parts
from tests.pages.page import ROOT

DOCS = ROOT / "docs"
OBJECT = '<p>A</p>\n<object data="{}" type="x" aria-label="A model">\n<a href="b">B</a>\n</object>'


def test_a_drawing_becomes_part_of_the_page():
    html = with_parts(OBJECT.format("images/figure_1.svg"), DOCS)
    assert "<object" not in html
    assert '<svg role="group" aria-label="A model" width="100%"' in html
    assert "<?xml" not in html
    assert "<metadata" not in html


def test_its_links_start_at_the_page():
    svg = part_of_page(DOCS / "images" / "figure_1.svg", "images/figure_1.svg")
    links = set(re.findall(r'xlink:href="([^"#]+)#keras_transformer\.', svg))
    assert len(links) >= 3
    assert all(re.fullmatch(r"api/\w+\.html", link) for link in links)


def test_its_colors_follow_the_theme_of_the_site():
    svg = part_of_page(DOCS / "images" / "figure_1.svg", "images/figure_1.svg")
    assert "prefers-color-scheme" not in svg
    rules = re.findall(r"([^{}>]+)\{(?:fill|stroke):#", svg)
    assert len(rules) >= 8
    assert all(r.startswith("[data-md-color-scheme=slate] #figure_1-image [style*=") for r in rules)


def test_its_names_are_unlike_those_of_other_drawings():
    svg = part_of_page(DOCS / "images" / "figure_1.svg", "images/figure_1.svg")
    names = re.findall(r' id="([^"]+)"', svg)
    assert len(names) == len(set(names))
    assert all(name.startswith("figure_1-") for name in names)
    used = re.findall(r"url\(#([^)]+)\)", svg) + re.findall(r'href="#([^"]+)"', svg)
    assert used
    assert set(used) <= set(names)


def test_an_html_file_gives_its_figure(tmp_path):
    text = "<html><body>\n<!-- figure -->\n<div>D</div>\n<!-- /figure -->\n</body></html>"
    (tmp_path / "a.html").write_text(text, "utf-8")
    assert with_parts(OBJECT.format("a.html"), tmp_path) == "<p>A</p>\n<div>D</div>\n"
    (tmp_path / "a.html").write_text("<html></html>", "utf-8")
    with pytest.raises(ValueError, match="no part between"):
        with_parts(OBJECT.format("a.html"), tmp_path)


def test_a_frame_follows_the_theme(visit, tmp_path):
    inner = '<html><body><button id="theme">Dark</button></body></html>'
    body = with_parts(f"<iframe srcdoc='{inner}'></iframe>", tmp_path)
    site = f'<html><body data-md-color-scheme="slate">{body}</body></html>'
    (tmp_path / "page.html").write_text(site, "utf-8")
    page = visit(tmp_path / "page.html")
    document = "document.querySelector('iframe').contentDocument"
    page.wait_for_function(f"{document}.documentElement.dataset.theme === 'dark'")
    assert not page.frame_locator("iframe").locator("#theme").is_visible()
    page.evaluate("document.body.dataset.mdColorScheme = 'default'")
    page.wait_for_function(f"{document}.documentElement.dataset.theme === 'light'")


def test_pages_without_either_stay_as_they_are(tmp_path):
    html = '<p>A <img src="a.svg"></p>'
    assert with_parts(html, tmp_path) == html
