"""What docs/attention.md shows is what the program does."""

import pathlib
import struct

import pytest

from tests.pages.page import ROOT, Page

pytestmark = pytest.mark.tensorflow


def test_the_code_runs_from_top_to_bottom(untrained_run, capsys):
    names = Page("docs/attention.md").run_code()
    assert capsys.readouterr().out == f"{names['maps'].cross.shape}\n"
    assert pathlib.Path("figure.pdf").read_bytes().startswith(b"%PDF")
    assert "KerasTransformerAttention" in pathlib.Path("attention.html").read_text("utf-8")


@pytest.mark.parametrize("name", ["light", "dark", "phone", "figure"])
def test_the_images_are_there_and_small(name):
    path = ROOT / "docs" / "images" / f"attention_{name}.png"
    assert f"images/{path.name}" in Page("docs/attention.md").text
    content = path.read_bytes()
    assert len(content) < 150_000
    width, height = struct.unpack(">II", content[16:24])
    assert min(width, height) >= 500
