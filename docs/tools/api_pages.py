"""MkDocs hook: expands the `:::` lines of the API reference.

The pages in `docs/api` list the public names. `::: keras_transformer.layers` stands for every class
and function in the module's `__all__`, and `::: keras_transformer.Translator` for a single class.
On the site, each line is replaced with the entries for its names, and each page starts with a table
of these entries. Options below a line apply to its entries.
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
BODY = re.compile(r"^(?=::: |## )", re.MULTILINE)  # end of the introduction


@dataclasses.dataclass(frozen=True)
class Entry:
    """A public class or function and its place in the reference.

    Attributes:
        module: module from which users import the name.
        name: name in this module.
        group: page in `docs/api` that lists the name, without `.md`.
        options: mkdocstrings options for the entry.
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
        """The full name at the place of definition, which is also the anchor on the page."""
        return f"{self.value.__module__}.{self.value.__qualname__}"

    @property
    def row(self) -> str:
        """A table row with a link, the first paragraph of the docstring, and the module."""
        summary = " ".join(inspect.getdoc(self.value).split("\n\n")[0].split())
        summary = summary.replace("|", "&#124;")
        return f"| [`{self.name}`](#{self.home}) | {summary} | `{self.module}` |"

    def text(self, heading_level: int) -> str:
        """Return the entry in the syntax of mkdocstrings."""
        options = self.options or "    options:\n"
        return f"::: {self.home}\n{options}      heading_level: {heading_level}\n\n"


def entries_of(text: str, group: str) -> list[Entry]:
    """Return the entries for all `:::` lines of a text. Constants are not included."""
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
    """Return the object named in a line. A function takes precedence over a module."""
    module, _, name = identifier.rpartition(".")
    value = getattr(importlib.import_module(module), name, None)
    return importlib.import_module(identifier) if value is None else value


def _names_of(module) -> list[str]:
    """Return the names of a module's public classes and functions."""
    values = [getattr(module, name) for name in module.__all__]
    documented = [inspect.isclass(value) or inspect.isfunction(value) for value in values]
    return list(itertools.compress(module.__all__, documented))


@functools.cache
def entries() -> list[Entry]:
    """Return the entries of all pages."""
    return [
        entry
        for path in sorted(API.glob("*.md"))
        for entry in entries_of(path.read_text("utf-8"), path.stem)
    ]


def page_of(text: str, group: str) -> str:
    """Return a group's page: the introduction, a table of names, and the entries."""
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
