"""docs/the_paper.md: its code, the lines that it quotes, its links, images and tables."""

import json
import re

import pytest

from docs.tools import paper_figures, paper_program, paper_steps
from docs.tools.api_pages import entries
from tests.pages.page import ROOT, Page, run_code

PAGE = Page("docs/the_paper.md")
IMAGES = ROOT / "docs" / "images"


def table(head):
    """The rows of a table of the page, by the start of its head."""
    lines = PAGE.text[PAGE.text.index(head) :].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]


def test_its_code_prints_what_it_shows(capsys):
    """All blocks but the program and the answers, which `test_numpy_model.py` runs."""
    parts = re.split(r"^```python\n(.*?)^```\n", PAGE.text, flags=re.DOTALL | re.MULTILINE)
    found = 0
    for code, after in zip(parts[1::2], parts[2::2], strict=True):
        if code.startswith(("# Part ", "# Answer ")):
            continue
        run_code([code], str(PAGE.path))
        shown = re.match(r"\n```text\n(.*?)^```$", after, re.DOTALL | re.MULTILINE)
        assert capsys.readouterr().out == (shown[1] if shown else ""), code
        found += 1
    assert found == len(PAGE.blocks("python")) - len(paper_program.blocks()) == 6


def test_the_lines_that_it_quotes_are_in_the_files():
    parts = re.split(r"^```py\n(.*?)^```\n", PAGE.text, flags=re.DOTALL | re.MULTILINE)
    assert len(parts[1::2]) >= 12
    path = None
    for text, block in zip(parts[::2], parts[1::2], strict=False):
        linked = re.findall(r"\]\(\.\./(keras_transformer/[\w/]+\.py)\)", text)
        path = linked[-1] if linked else path
        source = "".join((ROOT / path).read_text("utf-8").split())
        for lines in block.split("...\n"):  # which may be broken elsewhere
            assert "".join(lines.split()) in source, f"{path}:\n{lines}"


def test_the_boxes_of_figure_1_lead_to_classes():
    svg = (IMAGES / "figure_1.svg").read_text("utf-8")
    links = set(re.findall(r'xlink:href="([^"#][^"]*)"', svg))
    assert len(links) >= 9
    addresses = {f"../api/{entry.group}.html#{entry.home}" for entry in entries()}
    assert links <= addresses


def test_it_has_twelve_figures():
    assert len(paper_figures.FIGURES) == 12
    shown = re.findall(r'(?:\]\(|data=")images/([\w/]+)\.svg[)"]', PAGE.text)
    assert shown == list(paper_figures.FIGURES)
    captions = re.findall(r"^\*\*Figure (\d+)\.\*\*", PAGE.text, re.MULTILINE)
    assert captions == [str(number) for number in range(1, 13)]
    assert "images/the_paper/attention.html" in PAGE.text
    for name in paper_steps.FIGURES:
        assert f'<object data="images/the_paper/{name}.html"' in PAGE.text
    assert paper_figures.ATTENTION_PAGE.stat().st_size < 150_000


def test_table_1_is_what_was_measured():
    path = ROOT / "benchmarks" / "results" / "2026-11-22-table1.json"
    layers = {layer["name"]: layer for layer in json.loads(path.read_text("utf-8"))["layers"]}
    rows = [row for row in table("| layer | complexity |") if row[-1]]
    assert len(rows) == 4
    for name, row in zip(("full", "lstm", "convolution", "windowed"), rows, strict=True):
        times = {row["length"]: 1000 * min(row["seconds"]) for row in layers[name]["lengths"]}
        for shown, measured in (
            (row[-3], times[1024]),
            (row[-2], times[8192]),
            (row[-1], layers[name]["time_exponent"]),
        ):
            assert float(shown.replace(",", "")) == pytest.approx(measured, rel=0.035)  # two digits


def test_table_3_is_the_recipes():
    text = (ROOT / "recipes" / "table3" / "README.md").read_text("utf-8")
    lines = text[text.index("| row | N |") :].split("\n\n")[0].splitlines()
    head, _, *rows = ([cell.strip() for cell in line.split("|")[1:-1]] for line in lines)
    columns = [head.index(name) for name in ("PPL", "BLEU", "paper PPL", "paper BLEU")]
    expected = [[row[0][0], *(row[column] for column in columns)] for row in rows]
    shown = [[row[0][0], *row[2:]] for row in table("| row | change |")]
    assert sorted(shown) == sorted(expected)
