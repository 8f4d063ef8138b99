"""What `make docs` refuses: dead links in the built pages, and anything that they would load."""

import logging
import types

import pytest

from docs.tools.built_site import dead_links, on_config

PAGE = """<html><head><link rel="stylesheet" href="style.css"><script src="a.js"></script></head>
<body><h1 id="top">A</h1> <a href="other.html#there">x</a> <a href="#top">x</a>
<a href="https://example.org/not/looked/at">x</a> {more}</body></html>"""


def write_site(site, more=""):
    site.mkdir(exist_ok=True)
    for name in ("style.css", "a.js"):
        (site / name).write_text("", "utf-8")
    (site / "index.html").write_text(PAGE.format(more=more), "utf-8")
    (site / "other.html").write_text('<a id="there" href="index.html">x</a>', "utf-8")


def test_a_whole_site_has_no_dead_link(tmp_path):
    write_site(tmp_path)
    assert dead_links(tmp_path) == []


def test_dead_links_and_what_comes_from_elsewhere_are_found(tmp_path):
    loaded = "https://cdn.example.org/font.css"
    bad = '<a href="no.html">x</a> <a href="other.html#nowhere">x</a> <a href="#nowhere">x</a>'
    write_site(tmp_path, f'{bad} <link rel="stylesheet" href="{loaded}"> <img src="gone.png">')
    assert sorted(dead_links(tmp_path)) == [
        "index.html links to #nowhere: no such anchor",
        "index.html links to gone.png: no such file",
        "index.html links to no.html: no such file",
        "index.html links to other.html#nowhere: no such anchor",
        f"index.html loads {loaded}",
    ]


def test_images_with_links_are_looked_at_too(tmp_path):
    write_site(tmp_path, '<object data="image.svg"></object> <object data="gone.svg"></object>')
    (tmp_path / "image.svg").write_text('<svg><a xlink:href="other.html#nowhere"/></svg>', "utf-8")
    assert sorted(dead_links(tmp_path)) == [
        "image.svg links to other.html#nowhere: no such anchor",
        "index.html links to gone.svg: no such file",
    ]


@pytest.mark.parametrize(("is_strict", "level"), [(True, logging.WARNING), (False, logging.ERROR)])
def test_a_quiet_build_counts_warnings_if_it_is_strict(is_strict, level):
    logger = logging.getLogger("mkdocs")
    before = logger.level
    logger.setLevel(logging.ERROR)  # as `--quiet` does
    try:
        on_config(types.SimpleNamespace(strict=is_strict))
        assert logger.level == level
    finally:
        logger.setLevel(before)
