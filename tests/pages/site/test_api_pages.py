"""The API reference has every public name, each in one entry."""

import collections
import importlib
import types

import keras_transformer
from docs.tools.api_pages import Entry, entries, entries_of, on_page_markdown, page_of


def public_objects():
    """Every public class and function with its name; a subpackage stands for its own names."""
    for name in keras_transformer.__all__:
        value = getattr(keras_transformer, name)
        inner = {one: getattr(value, one) for one in getattr(value, "__all__", ())}
        for path, one in {name: value, **inner}.items():
            if callable(one):
                yield path, one


def test_every_public_name_has_one_entry():
    found = collections.Counter(id(entry.value) for entry in entries())
    public = dict(public_objects())
    assert len(public) > 100
    assert [name for name, value in public.items() if found[id(value)] != 1] == []


def test_every_entry_is_public():
    modules = {entry.module: importlib.import_module(entry.module) for entry in entries()}
    listed = {
        name: set(module.__all__) for name, module in modules.items() if "__all__" in dir(module)
    }
    hidden = [
        entry.name
        for entry in entries()
        if entry.name.startswith("_") or entry.name not in listed.get(entry.module, {entry.name})
    ]
    assert hidden == []


def test_no_two_entries_have_one_anchor():
    anchors = [entry.home for entry in entries()]
    assert len(set(anchors)) == len(anchors)


def test_a_line_names_a_function_rather_than_its_file():
    (entry,) = entries_of("::: keras_transformer.training.probe\n", "training")
    assert entry == Entry("keras_transformer.training", "probe", "training")
    assert entry.home == "keras_transformer.training.training_models.probe"
    assert entry.text(2) == f"::: {entry.home}\n    options:\n      heading_level: 2\n\n"


def test_options_of_a_line_are_those_of_the_entry():
    text = "::: keras_transformer.Translator\n    options:\n      inherited_members: true\n"
    (entry,) = entries_of(text, "translator")
    home = "::: keras_transformer.inference.translator.Translator\n"
    options = "    options:\n      inherited_members: true\n      heading_level: 3\n\n"
    assert entry.text(3) == f"{home}{options}"


def test_a_page_has_a_table_and_then_the_entries():
    text = (
        "# A\n\nWords.\n\n## B\n\n::: keras_transformer.Parser\n\n"
        "## C\n\nMore.\n\n::: keras_transformer.losses\n"
    )
    shown = page_of(text, "some").splitlines()
    assert shown[:6] == [
        "# A",
        "",
        "Words.",
        "",
        "| name | description | import from |",
        "|---|---|---|",
    ]
    parser = "keras_transformer.inference.parser.Parser"
    assert shown[6].startswith(f"| [`Parser`](#{parser}) | ")
    assert shown[6].endswith(" | `keras_transformer` |")
    loss = "keras_transformer.losses.LabelSmoothingCrossEntropy"
    assert shown[7].startswith(f"| [`LabelSmoothingCrossEntropy`](#{loss}) | ")
    assert shown[7].endswith(" | `keras_transformer.losses` |")
    assert shown[9:] == [
        "## B",
        "",
        f"::: {parser}",
        "    options:",
        "      heading_level: 3",
        "",
        "## C",
        "",
        "More.",
        "",
        f"::: {loss}",
        "    options:",
        "      heading_level: 3",
        "",
    ]


def test_only_pages_of_the_reference_are_changed():
    text = "# A\n\n::: keras_transformer.losses\n"
    page = types.SimpleNamespace(file=types.SimpleNamespace(src_uri="training.md"))
    assert on_page_markdown(text, page, None, None) == text
    page.file.src_uri = "api/losses.md"
    assert on_page_markdown(text, page, None, None) == page_of(text, "losses")
