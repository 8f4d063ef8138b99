"""The API reference has every public name, each once."""

import importlib
import inspect
import pathlib
import re

import keras_transformer
from tests.pages.page import ROOT

IDENTIFIERS = [
    identifier
    for path in sorted(ROOT.glob("docs/api/*.md"))
    for identifier in re.findall(r"^::: (\S+)$", path.read_text("utf-8"), re.MULTILINE)
]


def resolve(identifier):
    """The object that an identifier stands for."""
    module, _, name = identifier.rpartition(".")
    try:
        return importlib.import_module(identifier)
    except ModuleNotFoundError:
        return getattr(importlib.import_module(module), name)


def shown_of(module):
    """What the reference shows of a module: a name that is a file of its folder too is hidden."""
    folder = pathlib.Path(module.__file__).parent
    names = [
        name
        for name in getattr(module, "__all__", dir(module))
        if not (hasattr(module, "__path__") and (folder / f"{name}.py").exists())
    ]
    return [getattr(module, name) for name in names]


def public_objects():
    """Every public name with its object; a subpackage stands for its own names."""
    for name in keras_transformer.__all__:
        value = getattr(keras_transformer, name)
        if hasattr(value, "__path__"):
            yield from ((f"{name}.{inner}", getattr(value, inner)) for inner in value.__all__)
        elif name != "__version__":
            yield name, value


def test_every_public_name_is_in_the_reference():
    shown = []
    for value in map(resolve, IDENTIFIERS):
        shown += [value, *(shown_of(value) if inspect.ismodule(value) else ())]
    missing = [name for name, value in public_objects() if not any(value is one for one in shown)]
    assert missing == []


def test_no_name_is_there_twice():
    assert len(set(IDENTIFIERS)) == len(IDENTIFIERS)
