"""The distribution that pip installs: its version, its name, and the one it conflicts with."""

import functools
import json
import shlex
import urllib.parse
from typing import Any

__version__ = "0.1.0"

_NAME = "keras-transformer-garden"
# Another project on PyPI, with the same import name.
_CONFLICTING_NAME = "keras-transformer"


@functools.cache  # takes half a second if many packages are installed
def distribution_name() -> str:
    """Return the name by which pip knows this package, from its metadata if it is installed."""
    import importlib.metadata  # not needed by `import keras_transformer`

    names = importlib.metadata.packages_distributions().get("keras_transformer", ())
    return next((name for name in names if name != _CONFLICTING_NAME), _NAME)


def pip_install(extra: str) -> str:
    """Return the command that installs this package with an extra, from where it came.

    Args:
        extra: name of the extra, such as `"serving"`.

    Example: `pip install --editable '/home/me/keras-transformer-garden[serving]'`.
    """
    name = distribution_name()
    source = _source(name)
    url = source.get("url", "")
    if "dir_info" in source:
        path = urllib.parse.unquote(urllib.parse.urlsplit(url).path)
        flag = "--editable " if source["dir_info"].get("editable") else ""
        return f"pip install {flag}{shlex.quote(f'{path}[{extra}]')}"
    if "archive_info" in source:
        return f"pip install '{name}[{extra}] @ {url}'"
    return f"pip install '{name}[{extra}]'"


def _source(name: str) -> dict[str, Any]:
    """What pip recorded about the folder or file it installed; empty for a package index."""
    import importlib.metadata

    try:
        noted = importlib.metadata.distribution(name).read_text("direct_url.json")
    except importlib.metadata.PackageNotFoundError:
        return {}
    return json.loads(noted) if noted else {}


def conflict() -> str | None:
    """Return a warning if the other project is installed too, else None."""
    import importlib.metadata

    try:
        other = importlib.metadata.distribution(_CONFLICTING_NAME)
    except importlib.metadata.PackageNotFoundError:
        return None
    if other.entry_points:  # a clone of ours, installed before the package had its own name
        return None
    return (
        f"{_CONFLICTING_NAME} {other.version} is another project, whose files replace or mix with "
        f"those of {_NAME}. Remove it: pip uninstall {_CONFLICTING_NAME} && "
        f"pip install --force-reinstall --no-deps {_NAME}"
    )
