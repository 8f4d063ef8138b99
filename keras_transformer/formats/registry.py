"""All formats. A new one is a folder, whose `__init__.py` describes it, and a line here."""

import importlib
import os
from pathlib import Path

from keras_transformer.formats.format import Format
from keras_transformer.runs.checksums import check_files, has_checksums
from keras_transformer.types import PathLike

_FOLDERS = (
    "saved_model",
    "litert",
    "ctranslate2",
    "marian",
)
FORMATS: dict[str, Format] = {
    each.name: each
    for folder in _FOLDERS
    for each in importlib.import_module(f"keras_transformer.formats.{folder}").FORMATS
}


def is_export(directory: PathLike) -> bool:
    """Whether a directory has a list of checksums or a model, and is not a run."""
    path = Path(directory)
    if (path / "run.json").is_file():
        return False
    models = ["model_card.json", *(each.files[0] for each in FORMATS.values() if each.kind)]
    return has_checksums(path) or any(os.path.isfile(path / name) for name in models)


def check_export(directory: PathLike) -> int:
    """Compare all files of an export with its `SHA256SUMS`; returns how many.

    A list without one of the export's main files is damaged. Exports from before these checksums
    are accepted without a check.
    """
    needed = {pattern for each in FORMATS.values() for pattern in each.files}
    return check_files(directory, ["model_card.json", *sorted(needed)])
