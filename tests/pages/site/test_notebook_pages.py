"""The page that the site has of a notebook."""

import json

from docs.tools.layers_notebook import NOTEBOOK
from docs.tools.notebook_pages import page_of
from docs.tools.repository_links import repository_address


def test_it_has_every_cell_and_what_it_printed():
    page = page_of(NOTEBOOK)
    places = []
    for cell in json.loads(NOTEBOOK.read_text("utf-8"))["cells"]:
        places.append(page.index(cell["source"]))
        for output in cell.get("outputs", ()):
            places.append(page.index(f"```text\n{output['text']}```"))
    assert len(places) > 20
    assert places == sorted(places)


def test_it_links_to_colab_and_to_the_file():
    repository = repository_address().removeprefix("https://github.com/")
    address = f"https://colab.research.google.com/github/{repository}/blob/main/docs/notebooks/layers.ipynb"
    assert f"({address})" in page_of(NOTEBOOK)
    assert "[download](layers.ipynb)" in page_of(NOTEBOOK)
