"""Environments that have only what pip installs for some extras of the package, without a network.

Their packages are links to those of the environment that runs the tests.
"""

import importlib.metadata
import os
import pathlib
import tomllib
import venv

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from keras_transformer.installation import __version__
from tests.external_data import ROOT
from tests.pages.shell import write_program

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
# The program, some of whose verbs get flags for small models and short runs.
PROGRAM = """#!{folder}/bin/python
import sys
from keras_transformer.__main__ import main
sys.argv += {small!r}.get(sys.argv[1], [])
sys.exit(main())
"""


def _requirements(name):
    """Pairs of an extra, "" for none, and a requirement of a distribution."""
    if name == PROJECT["name"]:
        extras = {"": PROJECT["dependencies"], **PROJECT["optional-dependencies"]}
        return [(extra, Requirement(line)) for extra, lines in extras.items() for line in lines]
    own = [Requirement(line) for line in importlib.metadata.requires(name) or ()]
    extras = ["", *(importlib.metadata.metadata(name).get_all("Provides-Extra") or ())]
    return [
        (extra, each)
        for each in own
        for extra in extras
        if each.marker is None or each.marker.evaluate({"extra": extra})
    ]


def distributions(extras):
    """The names of the distributions that the package needs with these extras."""
    wanted, done = [(PROJECT["name"], extra) for extra in ("", *extras)], set()
    while wanted:
        name, extra = wanted.pop()
        if (name, extra) in done:
            continue
        done.add((name, extra))
        for theirs, each in _requirements(name):
            if theirs == extra and (each.marker is None or each.marker.evaluate({"extra": extra})):
                wanted += [(canonicalize_name(each.name), more) for more in ("", *each.extras)]
    return sorted({name for name, _ in done} - {PROJECT["name"]})


def _link_packages(site, names):
    for name in names:
        found = importlib.metadata.distribution(name)
        for top in {file.parts[0] for file in found.files}:
            target, link = pathlib.Path(found.locate_file(top)), site / top
            if top not in ("..", "__pycache__") and not link.is_symlink():
                link.symlink_to(target)


def make_environment(folder, extras, **small):
    """Make a virtual environment; returns the variables of processes in it.

    Args:
        folder: where to make it.
        extras: extras of the package.
        **small: flags that are added to a verb.
    """
    venv.create(folder, symlinks=True)
    (site,) = folder.glob("lib/python*/site-packages")
    _link_packages(site, distributions(extras))
    (site / "keras_transformer").symlink_to(ROOT / "keras_transformer")
    metadata = site / f"{PROJECT['name'].replace('-', '_')}-{__version__}.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {PROJECT['name']}\nVersion: {__version__}\n"
    )
    (metadata / "top_level.txt").write_text("keras_transformer\n")
    write_program(folder / "bin" / "keras-transformer", PROGRAM, folder=folder, small=small)
    own = ("PYTHON", "VIRTUAL_ENV", "KERAS_", "HF_")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(own)}
    return {
        **environment,
        "HOME": str(folder),
        "PATH": f"{folder / 'bin'}{os.pathsep}{os.defpath}",
        "VIRTUAL_ENV": str(folder),
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "CUDA_VISIBLE_DEVICES": "",
    }
