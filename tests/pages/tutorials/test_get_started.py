"""docs/tutorials/get_started.md: its code, and what it says of versions and systems."""

import re
import tomllib

from keras_transformer.installation import __version__
from tests.pages.page import ROOT, Page

PAGE = Page("docs/tutorials/get_started.md")


def test_the_code_builds_the_papers_base_model(capsys):
    PAGE.run_code()
    (weights,) = re.findall(r"([\d,]+) weights", capsys.readouterr().out)
    assert round(int(weights.replace(",", "")) / 1e6) == 63  # 65 in Table 3, of another count


def test_its_versions_and_extras_are_those_of_the_package():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    versions = [
        line.rpartition(" ")[2] for line in project["classifiers"] if "Python :: 3." in line
    ]
    assert all(version in PAGE.text for version in versions)
    (table,) = re.findall(r"\| extra \| for \|\n(.*?)\n\n", PAGE.text, re.DOTALL)
    named = [name for row in table.splitlines()[1:] for name in re.findall(r"`(\w+)`", row)]
    assert set(named) - {"torch"} <= set(project["optional-dependencies"])
    assert f"keras_transformer_garden-{__version__}-" in PAGE.text


def test_what_windows_lacks_is_what_the_package_uses():
    (row,) = re.findall(r"^\| Windows itself \| (.*) \|$", PAGE.text, re.MULTILINE)
    sources = "".join(
        path.read_text("utf-8") for path in (ROOT / "keras_transformer").rglob("*.py")
    )
    names = [*re.findall(r"`([\w.]+)`", row), *re.findall(r"SIG\w+", row)]
    assert len(names) == 4
    assert [name for name in names if name not in sources] == []
