"""MkDocs hook: creates a page for each notebook in `docs/`, with outputs and a link to Colab."""

import json
import pathlib

from docs.tools.repository_links import repository_address

DOCS = pathlib.Path(__file__).parents[1]
COLAB = "https://colab.research.google.com/github"
HEAD = """\
---
search:
  exclude: true
---
[Open in Colab]({colab}/{repository}/blob/main/docs/{path}) or [download]({name}). The package has \
no release yet, so the first cell installs a wheel: build it in a clone with \
`pip wheel --no-deps --wheel-dir dist .` and upload it next to the notebook.

"""


def page_of(path: pathlib.Path) -> str:
    """Return a notebook as Markdown: its text, its code and the output of each cell."""
    repository = repository_address().removeprefix("https://github.com/")
    where = path.relative_to(DOCS).as_posix()
    parts = [HEAD.format(colab=COLAB, repository=repository, path=where, name=path.name)]
    for cell in json.loads(path.read_text("utf-8"))["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(f"{source}\n\n")
        else:
            printed = "".join("".join(output["text"]) for output in cell["outputs"])
            parts.append(f"```python\n{source}\n```\n\n")
            parts += [f"```text\n{printed.rstrip()}\n```\n\n"] if printed else []
    return "".join(parts)


def on_files(files, config):
    from mkdocs.structure.files import File  # not needed by the other functions

    for path in sorted(DOCS.rglob("*.ipynb")):
        address = path.relative_to(DOCS).with_name(f"{path.stem}_notebook.md").as_posix()
        files.append(File.generated(config, address, content=page_of(path)))
