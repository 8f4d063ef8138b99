"""A hook of mkdocs: what the lines of the API reference stand for.

The pages in `docs/api` name what is public: `::: keras_transformer.layers` stands for every class
and function in that module's `__all__`, `::: keras_transformer.Translator` for one. On the site
each line becomes the entries of its names, and a page starts with a table of them. Options below a
line are those of its entries.
"""

import dataclasses
import functools
import importlib
import inspect
import itertools
import pathlib
import re

API = pathlib.Path(__file__).parents[1] / "api"
LINE = re.compile(r"^::: (\S+)\n((?: +options:\n(?: +\w+: \w+\n)+)?)\n?", re.MULTILINE)
BODY = re.compile(r"^(?=::: |## )", re.MULTILINE)  # where the introduction ends


@dataclasses.dataclass(frozen=True)
class Entry:
    """A public class or function, and where its entry is.

    Attributes:
        module: what users import it from.
        name: its name there.
        group: the page in `docs/api` that names it, without `.md`.
        options: of mkdocstrings, for its entry.
    """

    module: str
    name: str
    group: str
    options: str = ""

    @property
    def value(self):
        return getattr(importlib.import_module(self.module), self.name)

    @property
    def home(self) -> str:
        """Where it is defined, which is also its anchor on the page."""
        return f"{self.value.__module__}.{self.value.__qualname__}"

    @property
    def row(self) -> str:
        """The row of a table: a link, the first paragraph of the docstring, and the module."""
        summary = " ".join(inspect.getdoc(self.value).split("\n\n")[0].split())
        summary = summary.replace("|", "&#124;")
        return f"| [`{self.name}`](#{self.home}) | {summary} | `{self.module}` |"

    def text(self, heading_level: int) -> str:
        """The entry, for mkdocstrings."""
        options = self.options or "    options:\n"
        return f"::: {self.home}\n{options}      heading_level: {heading_level}\n\n"


def entries_of(text: str, group: str) -> list[Entry]:
    """The entries that a text's lines stand for. Constants are left to the words around them."""
    return list(itertools.chain(*(_entries_of_line(line, group) for line in LINE.finditer(text))))


def _entries_of_line(line: re.Match, group: str) -> list[Entry]:
    identifier, options = line.groups()
    value = _value_of(identifier)
    if inspect.ismodule(value):
        module, names = identifier, _names_of(value)
    else:
        module, _, name = identifier.rpartition(".")
        names = [name]
    return [Entry(module, name, group, options) for name in names]


def _value_of(identifier: str):
    """What a line names: a package's function outranks the file of the same name."""
    module, _, name = identifier.rpartition(".")
    value = getattr(importlib.import_module(module), name, None)
    return importlib.import_module(identifier) if value is None else value


def _names_of(module) -> list[str]:
    """The classes and functions of a module that are for its users."""
    values = [getattr(module, name) for name in module.__all__]
    documented = [inspect.isclass(value) or inspect.isfunction(value) for value in values]
    return list(itertools.compress(module.__all__, documented))


@functools.cache
def entries() -> list[Entry]:
    """The entries of all pages."""
    return [
        entry
        for path in sorted(API.glob("*.md"))
        for entry in entries_of(path.read_text("utf-8"), path.stem)
    ]


def page_of(text: str, group: str) -> str:
    """The page of a group: its introduction, the table of its names, and their entries."""
    level = 3 if re.search("^## ", text, re.MULTILINE) else 2
    introduction, body = BODY.split(text, maxsplit=1)
    rows = [entry.row for entry in entries_of(text, group)]
    table = "\n".join(["| name | description | import from |", "|---|---|---|", *rows, "", ""])

    def texts(line):
        return "".join(entry.text(level) for entry in _entries_of_line(line, group))

    return introduction + table + LINE.sub(texts, body)


def on_page_markdown(markdown, page, config, files):
    path = pathlib.PurePath(page.file.src_uri)
    return page_of(markdown, path.stem) if str(path.parent) == "api" else markdown
