"""What the README shows must work as it stands."""

import re

import pytest

from docs.tools.repository_links import on_page_markdown
from tests.pages.page import ROOT, Page, run_code

README = Page("README.md")


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    ("epochs", "output"),
    [
        pytest.param("50", "drei eins vier eins", marks=pytest.mark.slow),
        ("1", ".*"),
    ],
    ids=["as it stands", "one epoch"],
)
def test_the_python_example_runs_and_translates(epochs, output, capsys):
    (code,) = README.blocks("python")
    assert code.count("epochs=50)") == 1
    run_code([code.replace("=50)", f"={epochs})")], "README.md")
    assert re.fullmatch(output, capsys.readouterr().out.splitlines()[-1])
    assert epochs == "1" or f"{output}\n" in README.blocks()


def test_its_picture_is_there_in_both_themes():
    paths = re.findall(r'<(?:source|img) .*(?:srcset|src)="([^"]+)"', README.text)
    assert len(paths) == 2
    for path in paths:
        assert len((ROOT / path).read_bytes()) < 150_000


def test_the_site_shows_the_picture_of_the_theme_that_is_chosen():
    class ThePage:
        class file:
            src_uri = "index.md"

    text = on_page_markdown(README.text, ThePage, None, [])
    assert "<picture>" not in text
    shown = re.findall(r"!\[(The web app [^\]]+)\]\(\S*?([\w.]+)#only-(light|dark)\)", text)
    assert [theme for _, _, theme in shown] == ["light", "dark"]
    assert [name for _, name, _ in shown] == ["app_light.png", "app_translation_dark.png"]


def test_it_is_short():
    assert len(README.text.split()) <= 1300
