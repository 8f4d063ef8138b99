"""docs/project/compatibility.md and CONTRIBUTING.md: what they say of versions and docstrings."""

import inspect
import re
import tomllib

import pytest

from keras_transformer import layers, losses, metrics, optimizers, schedules
from tests.pages.page import ROOT, Page
from tests.release import pythons

PAGE = Page("docs/project/compatibility.md")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
REQUIREMENT = re.compile(r"([\w-]+)(?:\[[\w,-]+\])?([^;]*)")


def requirements():
    """The range of each dependency, by the name of the package."""
    extras = PROJECT["optional-dependencies"].values()
    lines = [*PROJECT["dependencies"], *(line for extra in extras for line in extra)]
    found = {}
    for name, versions in (REQUIREMENT.match(line).groups() for line in lines):
        if versions or name not in found:
            found[name] = versions.strip()
    return found


def pins():
    """The version of each package in constraints.txt."""
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    return dict(line.split("==") for line in lines if "==" in line)


def rows():
    """Package, range and tested version of each row of the first table."""
    return re.findall(
        r"^\| [^|]+ \| `([\w-]+)` \| `([^`]+)` \| ([\d.]+) \|$", PAGE.text, re.MULTILINE
    )


def test_ranges_are_those_of_the_package():
    ranges = requirements()
    assert len(rows()) == 15
    assert {name: versions for name, versions, _ in rows()} == {
        name: ranges[name] for name, _, _ in rows()
    }


def test_tested_versions_are_the_pinned_ones():
    pinned = pins()
    assert {name: version for name, _, version in rows()} == {
        name: pinned[name] for name, _, _ in rows()
    }


def test_every_backend_and_export_has_a_row():
    needed = {"keras", "tensorflow", "tensorflow-text", "jax", "torch", "ai-edge-litert"}
    assert needed | {"ctranslate2", "ray"} <= {name for name, _, _ in rows()}


def test_pythons_are_those_of_the_package():
    (named,) = re.findall(r"^\| Python \| \| ([^|]+) \| 3\.11 \|$", PAGE.text, re.MULTILINE)
    assert named.split(", ") == pythons.supported()
    assert PROJECT["requires-python"] == f">={pythons.supported()[0]}"


def test_tensorflow_text_is_left_out_where_it_has_no_package():
    (line,) = [
        line
        for line in PROJECT["optional-dependencies"]["tensorflow"]
        if line.startswith("tensorflow-text")
    ]
    assert "sys_platform == 'linux'" in line
    assert "win32" not in line


@pytest.mark.parametrize(
    ("module", "name"),
    [
        (module, name)
        for module in (layers, losses, metrics, optimizers, schedules)
        for name in module.__all__
    ],
    ids=lambda value: value if isinstance(value, str) else value.__name__.rpartition(".")[2],
)
def test_a_public_layer_loss_metric_optimizer_or_schedule_has_an_example(module, name):
    assert re.search(r">>>|```python", inspect.getdoc(getattr(module, name)))


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "docs/project/compatibility.md"])
def test_files_that_a_page_names_exist(page):
    text = Page(page).text
    names = re.findall(r"`((?:keras_transformer|tests|docs|recipes)/[\w/.]+)`", text)
    assert [name for name in names if "NAME" not in name and not (ROOT / name).exists()] == []
