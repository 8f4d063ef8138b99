"""The list of formats. To add one, describe it in a new folder's `__init__.py` and list it here."""

import importlib
import os
from pathlib import Path
from typing import Any, TypeVar

from keras_transformer.errors import UserInputError
from keras_transformer.formats.format import Format
from keras_transformer.input_files import read_json, to_record
from keras_transformer.runs.checksums import EXPORT_ADVICE as ADVICE
from keras_transformer.runs.checksums import check_files, has_checksums
from keras_transformer.types import PathLike

FORMAT_VERSION = 1  # stored in exports that state their format
_T = TypeVar("_T")
_FOLDERS = (
    "saved_model",
    "litert",
    "ctranslate2",
    "marian",
    "preset",
    "page",
)
FORMATS: dict[str, Format] = {
    each.name: each
    for folder in _FOLDERS
    for each in importlib.import_module(f"keras_transformer.formats.{folder}").FORMATS
}


def is_export(directory: PathLike) -> bool:
    """Return whether a directory contains checksums or a model but is not a run."""
    path = Path(directory)
    if (path / "run.json").is_file():
        return False
    models = ["model_card.json", *(each.files[0] for each in FORMATS.values() if each.kind)]
    return has_checksums(path) or any(os.path.isfile(path / name) for name in models)


def kind_of_export(directory: PathLike) -> str | None:
    """Return a directory's kind of model, such as "LiteRT model", or None if it is unknown."""
    kinds = (each for each in FORMATS.values() if each.kind)
    return next((each.kind for each in kinds if Path(directory, each.files[0]).is_file()), None)


def check_export(directory: PathLike) -> int:
    """Check all files of an export against its `SHA256SUMS` and return the number of files.

    A list that omits one of the export's main files is damaged. Exports that predate the checksums
    are accepted without a check.
    """
    needed = {pattern for each in FORMATS.values() for pattern in each.files}
    return check_files(directory, ["model_card.json", *sorted(needed)])


def read_export(
    path: Path, name: str, each: Format, mark: tuple[str, str], record_type: type[_T]
) -> tuple[dict[str, Any], _T]:
    """Check all files of an export. Return its description as a dict and as a record.

    Args:
        path: export directory.
        name: name of the description file.
        each: expected format.
        mark: key and value of the entry that identifies the format.
        record_type: record class with the fields that the reader needs, as in `read_record`.
    """
    file, title = path / name, f"{each.kind.removesuffix(' model')} export"
    if not file.exists():
        raise UserInputError(
            f"{path} contains no {title}: {name} is missing. Create one with `keras-transformer "
            "export "
            f"{each.name} RUN {path}`."
        )
    content = read_json(file, ADVICE)
    if not isinstance(content, dict) or content.get(mark[0]) != mark[1]:
        raise UserInputError(f"{file} does not belong to a {title}.")
    version = content.get("format_version")
    if isinstance(version, int) and version > FORMAT_VERSION:
        raise UserInputError(
            f"{path} has format version {version}; this version of keras_transformer reads "
            f"{FORMAT_VERSION} and older. Update it."
        )
    record = to_record(file, content, record_type, ADVICE)
    check_export(path)
    return content, record
