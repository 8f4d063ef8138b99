"""A hook of mkdocs: a page for each class and function of the API reference.

The pages in `docs/api` name what is public: `::: keras_transformer.layers` stands for every name of
that module, `::: keras_transformer.Translator` for one. On the site each of these lines becomes a
table, whose rows link to the pages of the names. Options below a line are those of its pages.
"""

import dataclasses
import functools
import importlib
import inspect
import itertools
import pathlib
import re

API = pathlib.Path(__file__).parents[1] / "api"
LINES = re.compile(r"(?:^::: \S+\n(?: +options:\n(?: +\w+: \w+\n)+)?\n?)+", re.MULTILINE)
LINE = re.compile(r"^::: (\S+)\n((?: +options:\n(?: +\w+: \w+\n)+)?)", re.MULTILINE)
PAGE = """\
# {name}

```python
from {module} import {name}
```

::: {home}
{options}"""


@dataclasses.dataclass(frozen=True)
class Entry:
    """A public class or function, and where its page is.

    Attributes:
        module: what users import it from.
        name: its name there.
        group: the page in `docs/api` that names it, without `.md`.
        options: of mkdocstrings, for its page.
    """

    module: str
    name: str
    group: str
    options: str

    @property
    def value(self):
        return getattr(importlib.import_module(self.module), self.name)

    @property
    def address(self) -> str:
        return f"api/{self.group}/{self.name}.md"

    @property
    def row(self) -> str:
        """The row of a table: a link, and the first paragraph of the docstring."""
        summary = " ".join(inspect.getdoc(self.value).split("\n\n")[0].split())
        return (
            f"| [`{self.name}`]({self.group}/{self.name}.md) | {summary.replace('|', '&#124;')} |"
        )

    @property
    def page(self) -> str:
        """The page's text, for mkdocstrings."""
        home = f"{self.value.__module__}.{self.value.__qualname__}"
        return PAGE.format(module=self.module, name=self.name, home=home, options=self.options)


def entries_of(text: str, group: str) -> list[Entry]:
    """The entries that a text's lines stand for. Constants are left to the words around them."""
    found = []
    for identifier, options in LINE.findall(text):
        value = _value_of(identifier)
        if inspect.ismodule(value):
            module, names = identifier, _names_of(value)
        else:
            module, _, name = identifier.rpartition(".")
            names = [name]
        found += [Entry(module, name, group, options) for name in names]
    return found


def _value_of(identifier: str):
    """What a line names: a package's function outranks the file of the same name."""
    module, _, name = identifier.rpartition(".")
    value = getattr(importlib.import_module(module), name, None)
    return importlib.import_module(identifier) if value is None else value


def _names_of(module) -> list[str]:
    """The classes and functions of a module that are for its users."""
    if hasattr(module, "__all__"):
        names = module.__all__
    else:
        own = [name for name, value in vars(module).items() if inspect.getmodule(value) is module]
        names = sorted(name for name in own if not name.startswith("_"))
    values = [getattr(module, name) for name in names]
    documented = [inspect.isclass(value) or inspect.isfunction(value) for value in values]
    return list(itertools.compress(names, documented))


@functools.cache
def entries() -> dict[str, list[Entry]]:
    """The entries of each group."""
    return {
        path.stem: entries_of(path.read_text("utf-8"), path.stem)
        for path in sorted(API.glob("*.md"))
    }


def on_config(config):
    """Put the pages below their groups in the navigation."""
    (section,) = (item["API"] for item in config.nav if "API" in item)
    for item in section:
        ((title, address),) = item.items()
        group = entries()[pathlib.PurePath(address).stem]
        item[title] = [address, *({entry.name: entry.address} for entry in group)]


def on_files(files, config):
    from mkdocs.structure.files import File  # the rest of this file needs no mkdocs

    for entry in itertools.chain(*entries().values()):
        files.append(File.generated(config, entry.address, content=entry.page))


def on_page_markdown(markdown, page, config, files):
    group = pathlib.PurePath(page.file.src_uri)
    if str(group.parent) != "api":
        return markdown

    def table(lines):
        rows = [entry.row for entry in entries_of(lines[0], group.stem)]
        return "\n".join(["| name | what |", "|---|---|", *rows, "", ""])

    return LINES.sub(table, markdown)
