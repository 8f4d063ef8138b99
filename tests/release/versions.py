"""Where the version is written: it comes from one line, and the other places must agree with it."""

import re
import tomllib

import yaml

from tests.pages.page import ROOT

SOURCE = ROOT / "keras_transformer" / "installation.py"


def package_version():
    """The version of the package, read without importing it."""
    (version,) = re.findall(r'^__version__ = "([^"]+)"$', SOURCE.read_text("utf-8"), re.MULTILINE)
    return version


def newest_change(changelog):
    """The version and the date of the first release in a changelog; the date may be None."""
    heading = re.search(
        r"^## \[?(\d[^\s\]]*)\]?(?: - (\d{4}-\d\d-\d\d))?$", changelog, re.MULTILINE
    )
    return heading.groups() if heading else (None, None)


def disagreements(tag=None):
    """What differs from the version of the package, as a list of sentences.

    Args:
        tag: the Git tag of the release, such as `v0.1.0`.
    """
    version, found = package_version(), []
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    source = project["tool"]["setuptools"]["dynamic"]["version"]["attr"]
    if "version" in project["project"] or source != "keras_transformer.installation.__version__":
        found.append("pyproject.toml does not take the version from keras_transformer.installation")
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    if citation["version"] != version:
        found.append(f"CITATION.cff: version {citation['version']}, not {version}")
    newest, date = newest_change((ROOT / "CHANGELOG.md").read_text("utf-8"))
    if newest != version:
        found.append(f"CHANGELOG.md: the first release is {newest}, not {version}")
    elif date is None:
        found.append(f"CHANGELOG.md: {version} has no date")
    elif str(citation.get("date-released")) != date:
        found.append(f"CITATION.cff: date-released is not {date}, the date in CHANGELOG.md")
    if tag is not None and tag != f"v{version}":
        found.append(f"the tag is {tag}, not v{version}")
    return found
