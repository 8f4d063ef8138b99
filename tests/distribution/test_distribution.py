"""The name that pip knows the package by, and the other project with the same import name."""

import importlib.metadata
import json
import os
import shlex
import subprocess
import sys
import tomllib

import pytest
import yaml

from keras_transformer.installation import __version__, conflict, distribution_name, pip_install
from tests.external_data import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
SELF_REFERENCES = [
    requirement
    for extra in PROJECT["optional-dependencies"].values()
    for requirement in extra
    if requirement.startswith("keras-transformer")
]


def write_metadata(folder, name, version, **files):
    """Write what pip leaves of an installed distribution whose import name is keras_transformer."""
    metadata = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    metadata.mkdir(parents=True)
    files = {"top_level": "keras_transformer\n", **files}
    for file, text in files.items():
        (metadata / f"{file}.txt").write_text(text)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    return folder


@pytest.fixture(autouse=True)
def nothing_remembered():
    distribution_name.cache_clear()
    yield
    distribution_name.cache_clear()


@pytest.fixture
def other_project(tmp_path):
    """A folder in which the other project is installed."""
    return write_metadata(tmp_path / "other", "keras-transformer", "0.40.0")


def test_the_name_of_pyproject_is_the_one_that_messages_give(monkeypatch):
    assert distribution_name() == PROJECT["name"]
    monkeypatch.setattr(importlib.metadata, "packages_distributions", dict)  # not installed at all
    distribution_name.cache_clear()
    assert distribution_name() == PROJECT["name"]
    assert SELF_REFERENCES
    assert all(name.startswith(f"{PROJECT['name']}[") for name in SELF_REFERENCES)


def test_a_fork_under_another_name_is_named_in_messages(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(write_metadata(tmp_path, "transformer-fork", __version__))
    assert pip_install("jax") == "pip install 'transformer-fork[jax]'"


@pytest.mark.parametrize(
    ("noted", "command"),
    [
        (
            {"url": "file:///a%20b/clone", "dir_info": {"editable": True}},
            "pip install --editable '/a b/clone[app]'",
        ),
        ({"url": "file:///clone", "dir_info": {}}, "pip install '/clone[app]'"),
        (
            {"url": "file:///a%20b/one.whl", "archive_info": {}},
            "pip install 'transformer-fork[app] @ file:///a%20b/one.whl'",
        ),
    ],
)
def test_an_extra_comes_from_where_the_package_came(tmp_path, monkeypatch, noted, command):
    folder = write_metadata(tmp_path, "transformer-fork", __version__)
    (path,) = folder.iterdir()
    (path / "direct_url.json").write_text(json.dumps(noted))
    monkeypatch.syspath_prepend(folder)
    assert pip_install("app") == command
    write_metadata(folder, "keras-transformer", "0.40.0")
    source = shlex.split(command.replace("[app]", ""))[2:]
    assert shlex.split(conflict())[-len(source) - 1 :] == ["--no-deps", *source]


def test_the_other_project_is_not_named_in_messages(other_project, monkeypatch):
    monkeypatch.syspath_prepend(other_project)
    assert "keras-transformer[" not in pip_install("jax")


def test_a_program_says_that_the_other_project_is_installed_too(other_project):
    command = [sys.executable, "-m", "keras_transformer", "--version"]
    environment = os.environ | {"PYTHONPATH": str(other_project)}
    run = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    assert run.stdout == f"keras-transformer {__version__}\n"
    assert run.stderr.startswith("warning: keras-transformer 0.40.0 is another project")
    assert run.stderr.count("\n") == 1


def test_an_earlier_installation_of_this_package_is_no_conflict(tmp_path, monkeypatch):
    command = "[console_scripts]\nkeras-transformer = keras_transformer.toolkit.cli:main\n"
    earlier = write_metadata(tmp_path, "keras-transformer", __version__, entry_points=command)
    monkeypatch.syspath_prepend(earlier)
    assert conflict() is None


def test_the_citation_is_of_this_version():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert citation["version"] == __version__
    assert citation["license"] == PROJECT["license"]
    assert citation["repository-code"] == PROJECT["urls"]["Repository"]
