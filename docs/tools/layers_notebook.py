"""Convert docs/layers.md to docs/notebooks/layers.ipynb: `python -m docs.tools.layers_notebook`."""

import contextlib
import io
import json
import os
import pathlib
import re
import tempfile

from docs.tools.repository_links import repository_address
from keras_transformer.installation import __version__

PAGE = pathlib.Path(__file__).parents[1] / "layers.md"
NOTEBOOK = PAGE.parent / "notebooks" / "layers.ipynb"
INSTALL = f"""\
# No release is on PyPI yet. In a clone, run `pip wheel --no-deps --wheel-dir dist .` to build this
# wheel, then upload it next to the notebook. Colab already includes TensorFlow.
%pip install --quiet keras_transformer_garden-{__version__}-py3-none-any.whl"""


def cells(text: str) -> list[tuple[str, str]]:
    """Return the cells of a page as `(kind, source)`. The first code cell installs the package."""
    parts = re.split(r"^```python\n(.*?)^```\n", text, flags=re.DOTALL | re.MULTILINE)
    address = f"{repository_address()}/blob/main/docs"
    found = []
    for index, part in enumerate(parts):
        if index % 2:
            found.append(("code", part.rstrip("\n")))
        elif part.strip():
            linked = re.sub(r"\]\((?!\w+:|#)([^)]+)\)", rf"]({address}/\1)", part)
            found.append(("markdown", linked.strip("\n")))
    first = next(index for index, (kind, _) in enumerate(found) if kind == "code")
    found.insert(first, ("code", INSTALL))
    return found


def outputs(code: list[str]) -> list[str]:
    """Run all Python blocks in order in a shared namespace, and return each block's output."""
    names: dict = {}
    printed = []
    with contextlib.chdir(tempfile.mkdtemp()):
        for block in code:
            with contextlib.redirect_stdout(io.StringIO()) as stream:
                exec(compile(block, str(PAGE), "exec"), names)
            printed.append(stream.getvalue())
    return printed


def notebook(page_cells: list[tuple[str, str]], printed: list[str]) -> dict:
    """Return the notebook in Jupyter's format 4.5."""
    remaining = iter(["", *printed])  # the installation cell prints nothing
    written = []
    for number, (kind, source) in enumerate(page_cells):
        cell = {"cell_type": kind, "id": f"cell-{number}", "metadata": {}, "source": source}
        if kind == "code":
            text = next(remaining)
            stream = {"name": "stdout", "output_type": "stream", "text": text}
            cell |= {"execution_count": None, "outputs": [stream] if text else []}
        written.append(cell)
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    return {"cells": written, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


def main() -> None:
    """Run the page's code and write the notebook."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    page_cells = cells(PAGE.read_text("utf-8"))
    code = [source for kind, source in page_cells if kind == "code"]
    written = notebook(page_cells, outputs(code[1:]))
    NOTEBOOK.write_text(json.dumps(written, indent=1, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    main()
