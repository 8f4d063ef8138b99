"""docs/layers.md and the notebook that is made of it: the models learn what the page says."""

import json

import numpy as np
import pytest

from docs.tools.layers_notebook import INSTALL, NOTEBOOK, cells
from tests.pages.page import Page, run_code

PAGE = Page("docs/layers.md")


@pytest.fixture(scope="module")
def notebook():
    return json.loads(NOTEBOOK.read_text("utf-8"))["cells"]


def test_the_notebook_is_the_page(notebook):
    written = [(cell["cell_type"], cell["source"]) for cell in notebook]
    assert written == cells(PAGE.text), "run `python -m docs.tools.layers_notebook`"
    code = [cell for cell in notebook if cell["cell_type"] == "code"]
    blocks = [block.rstrip() for block in PAGE.blocks("python")]
    assert [cell["source"] for cell in code] == [INSTALL, *blocks]
    for cell in code:
        assert bool(cell["outputs"]) == ("print(" in cell["source"])


@pytest.mark.slow
@pytest.mark.tensorflow
def test_the_models_of_the_notebook_learn(notebook, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    code = [cell["source"] for cell in notebook if cell["cell_type"] == "code"]
    names = run_code(code[1:], str(NOTEBOOK))
    assert names["accuracy"] >= 0.9
    assert names["right"] >= 24
    printed = capsys.readouterr().out.splitlines()
    assert "c to g : c d e f g" in printed
    assert "q to s : q r s" in printed
    rows = names["rows"][:3]
    by_hand, built = names["own_model"](rows), names["language_model"]({"token_ids": rows})
    np.testing.assert_allclose(np.array(by_hand), np.array(built), atol=1e-5)
    assert names["own_translator"].output_shape == (None, None, names["tokenizer"].vocabulary_size)
