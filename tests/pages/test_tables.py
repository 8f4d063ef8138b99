"""Tables of the documentation that are computed from the package, or name its files; images."""

import pathlib
import re
import struct

import pytest

from keras_transformer.models import PRESETS
from tests.models.test_transformer import count_parameters
from tests.pages.page import ROOT, Page


def test_the_map_names_what_exists():
    text = Page("docs/architecture.md").text
    rows = re.findall(r"^\| (`.*?) \|", text, flags=re.MULTILINE)
    paths = []
    for row in rows:
        names = re.findall(r"`([^`]+)`", row)
        folder = pathlib.Path(names[0]).parent
        paths += [ROOT / names[0], *(ROOT / folder / name for name in names[1:])]
    assert len(paths) >= 20
    assert [str(path) for path in paths if not path.exists()] == []


@pytest.mark.parametrize(
    "name",
    [
        *(f"app_{look}" for look in ("light", "dark", "phone", "runs", "trees")),
        *(f"attention_{look}" for look in ("light", "dark", "phone", "figure")),
    ],
)
def test_images_are_there_and_small(name):
    page = Page(f"docs/{name.partition('_')[0]}.md")
    assert f"images/{name}.png" in page.text
    content = (ROOT / "docs" / "images" / f"{name}.png").read_bytes()
    assert len(content) < 150_000
    assert min(struct.unpack(">II", content[16:24])) >= 500  # width and height


def test_the_table_of_parameters_is_the_models():
    table = (
        Page("docs/lab/paper_tables.md")
        .text.split("## Parameter counts of the presets")[1]
        .split("##")[0]
    )
    rows = [
        [cell.strip() for cell in line.split("|")[1:-1]]
        for line in table.splitlines()
        if line.startswith("|")
    ]
    names, ours = rows[0][1:], next(row for row in rows if row[0] == "here")[1:]
    assert len(names) == 11
    for name, millions in zip(names, ours, strict=True):
        counted = count_parameters(PRESETS[name], 37_000) / 1e6
        assert float(millions) == pytest.approx(counted, abs=0.051)


def test_every_result_links_its_note_and_every_target_is_met_or_missed():
    targets = 0
    for table in re.findall(r"(?:^\|.*\n)+", Page("docs/results.md").text, flags=re.MULTILINE):
        header, _, *rows = (
            [cell.strip() for cell in line.strip("|").split(" | ")] for line in table.splitlines()
        )
        for row in rows:
            cells = dict(zip(header, row, strict=True))
            assert "](lab/" in "".join(row)
            assert "**" not in "".join(row)  # what is missed is said in a word
            if "met" in cells:
                assert cells["met"].partition(",")[0] in ("yes", "missed")
                assert cells["target"]
                assert re.match(r"2026-\d\d-\d\d", cells["date"])
                targets += 1
    assert targets > 40
