"""All formats. To add one, add a folder whose `__init__.py` describes it, and a line here."""

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

FORMAT_VERSION = 1  # of exports that state their format
_T = TypeVar("_T")
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


def kind_of_export(directory: PathLike) -> str | None:
    """The kind of model in a directory, such as "LiteRT model", from its card; None if unknown."""
    kinds = (each for each in FORMATS.values() if each.kind)
    return next((each.kind for each in kinds if Path(directory, each.files[0]).is_file()), None)


def check_export(directory: PathLike) -> int:
    """Compare all files of an export with its `SHA256SUMS`. Return their number.

    A list without one of the export's main files is damaged. Exports from before these checksums
    are accepted without a check.
    """
    needed = {pattern for each in FORMATS.values() for pattern in each.files}
    return check_files(directory, ["model_card.json", *sorted(needed)])


def read_export(
    path: Path, name: str, each: Format, mark: tuple[str, str], record_type: type[_T]
) -> tuple[dict[str, Any], _T]:
    """Return the description of an export after checking all files: its content and as a record.

    Args:
        path: the directory.
        name: name of the file with the description.
        each: the format.
        mark: name and value of the entry that identifies the format.
        record_type: the part that a reader needs, as in `read_record`.
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
