"""Interpreters for the release check: on the path, or installed by pyenv."""

import os
import pathlib
import shutil
import subprocess
import tomllib

from tests.pages.page import ROOT

_VERSION = "import ensurepip, sys; print('%d.%d' % sys.version_info[:2])"


def supported():
    """The versions in the classifiers of pyproject.toml, such as `["3.11", "3.12"]`."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    names = (line.rpartition(" :: ")[2] for line in project["classifiers"])
    return [name for name in names if name.startswith("3.")]


def find(version):
    """The path of a Python that runs and has pip, such as that of 3.12; None without one."""
    pyenv = pathlib.Path(os.environ.get("PYENV_ROOT", pathlib.Path.home() / ".pyenv"))
    installed = sorted(pyenv.glob(f"versions/{version}*/bin/python{version}"), reverse=True)
    for path in [shutil.which(f"python{version}"), *installed]:
        # A shim of pyenv exists for versions that are installed but not active, and fails.
        if path is not None and _version_of(path) == version:
            return str(path)
    return None


def _version_of(path):
    done = subprocess.run([path, "-c", _VERSION], capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else None
