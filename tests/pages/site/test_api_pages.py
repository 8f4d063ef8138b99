"""The API reference has every public name, each on a page of its own."""

import collections
import itertools
import types

import keras_transformer
from docs.tools.api_pages import Entry, entries, entries_of, on_page_markdown


def public_objects():
    """Every public class and function with its name; a subpackage stands for its own names."""
    for name in keras_transformer.__all__:
        value = getattr(keras_transformer, name)
        inner = {one: getattr(value, one) for one in getattr(value, "__all__", ())}
        for path, one in {name: value, **inner}.items():
            if callable(one):
                yield path, one


def test_every_public_name_has_one_page():
    pages = collections.Counter(id(entry.value) for entry in itertools.chain(*entries().values()))
    found = dict(public_objects())
    assert len(found) > 100
    assert [name for name, value in found.items() if pages[id(value)] != 1] == []


def test_no_two_pages_have_one_address_where_case_does_not_count():
    addresses = [entry.address.lower() for entry in itertools.chain(*entries().values())]
    assert len(set(addresses)) == len(addresses)


def test_a_line_names_a_function_rather_than_its_file():
    (entry,) = entries_of("::: keras_transformer.training.probe\n", "training")
    assert entry == Entry("keras_transformer.training", "probe", "training", "")
    assert "from keras_transformer.training import probe\n" in entry.page
    assert "::: keras_transformer.training.training_models.probe\n" in entry.page


def test_options_of_a_line_are_those_of_the_page():
    text = "::: keras_transformer.Translator\n    options:\n      inherited_members: true\n"
    (entry,) = entries_of(text, "inference")
    home = "::: keras_transformer.inference.translator.Translator\n"
    assert entry.page.endswith(f"{home}    options:\n      inherited_members: true\n")


def test_lines_become_a_table_that_leads_to_the_pages():
    text = "# A\n\n::: keras_transformer.Parser\n::: keras_transformer.losses\n\n## B\n"
    page = types.SimpleNamespace(file=types.SimpleNamespace(src_uri="api/some.md"))
    shown = on_page_markdown(text, page, None, None).splitlines()
    assert shown[2:4] == ["| name | what |", "|---|---|"]
    assert shown[4].startswith("| [`Parser`](some/Parser.md) | ")
    assert shown[5].startswith(
        "| [`LabelSmoothingCrossEntropy`](some/LabelSmoothingCrossEntropy.md) | "
    )
    assert shown[6:] == ["", "## B"]
