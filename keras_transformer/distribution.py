"""The distribution that pip installs: its version, its name, and the one it conflicts with."""

import functools

__version__ = "0.1.0"

_NAME = "keras-transformer-garden"
# Another project on PyPI, with the same import name.
_CONFLICTING_NAME = "keras-transformer"


@functools.cache  # half a second where much is installed
def distribution_name() -> str:
    """Return the name by which pip knows this package, from its metadata where it is installed."""
    import importlib.metadata  # not needed by `import keras_transformer`

    names = importlib.metadata.packages_distributions().get("keras_transformer", ())
    return next((name for name in names if name != _CONFLICTING_NAME), _NAME)


def pip_install(extra: str) -> str:
    """Return the command that installs this package with an extra.

    Args:
        extra: name of the extra, such as `"serving"`.

    Example:
        >>> pip_install("litert")
        "pip install 'keras-transformer-garden[litert]'"
    """
    return f"pip install '{distribution_name()}[{extra}]'"


def conflict() -> str | None:
    """Return what to say where the other project is installed too, else None."""
    import importlib.metadata

    try:
        other = importlib.metadata.distribution(_CONFLICTING_NAME)
    except importlib.metadata.PackageNotFoundError:
        return None
    if other.entry_points:  # a clone of ours, installed before the package had a name of its own
        return None
    return (
        f"{_CONFLICTING_NAME} {other.version} is another project, whose files replace or mix with "
        f"those of {_NAME}. Remove it: pip uninstall {_CONFLICTING_NAME} && "
        f"pip install --force-reinstall --no-deps {_NAME}"
    )
