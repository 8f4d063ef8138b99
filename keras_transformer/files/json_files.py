"""Reading JSON, and checked records in JSON, from untrusted files."""

import json
from typing import Any, TypeVar

import msgspec

from keras_transformer.errors import UserInputError
from keras_transformer.files.input_files import open_ordinary, reading
from keras_transformer.types import PathLike

# A model of a thousand layers has a few megabytes, and so has a large vocabulary.
MOST_BYTES = 1 << 24
MOST_RECORD_BYTES = 1 << 20  # of what a run records about itself: a few kilobytes

_T = TypeVar("_T")


def read_json(path: PathLike, advice: str = "", most_bytes: int = MOST_BYTES) -> Any:
    """Return the value in a JSON file; errors end with `advice`."""
    return parse_json(path, read_small_file(path, most_bytes), advice)


def read_record(
    path: PathLike, record_type: type[_T], advice: str = "", most_bytes: int = MOST_BYTES
) -> _T:
    """Return the record in a JSON file after checking its fields.

    `record_type` gives the fields and their types; it may be any type that `msgspec` converts to.
    Other fields are ignored. Errors end with `advice`.

    Example:
        >>> import tempfile, pathlib
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "steps.json"
        >>> _ = path.write_text('{"first": 1, "last": 20}')
        >>> read_record(path, dict[str, int])
        {'first': 1, 'last': 20}
    """
    return to_record(path, read_json(path, advice, most_bytes), record_type, advice)


def parse_json(name: PathLike, content: bytes | str, advice: str = "") -> Any:
    """Return the value of a JSON text; `name` names its source in errors."""
    try:
        value = json.loads(content)
        json.dumps(value, ensure_ascii=False).encode()  # refuses lone surrogates
        return value
    except RecursionError as error:
        raise _damaged(name, "brackets are nested too deep", advice) from error
    except ValueError as error:  # also if bytes are not UTF-8 or a number has too many digits
        raise _damaged(name, f"it is not JSON in UTF-8: {error}", advice) from error


def to_record(name: PathLike, value: object, record_type: type[_T], advice: str = "") -> _T:
    """Return a JSON value as a record of this type; `name` names its source in errors."""
    try:
        return msgspec.convert(value, record_type)
    except (msgspec.ValidationError, OverflowError, RecursionError) as error:
        raise _damaged(name, str(error), advice) from error


def read_small_file(path: PathLike, most_bytes: int = MOST_BYTES) -> bytes:
    """Return the content of a regular file of at most `most_bytes`; other files are refused."""
    with reading(path), open_ordinary(path) as file:
        content = file.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise UserInputError(f"{path} must have at most {most_bytes >> 20} MB.")
    return content


def _damaged(name: PathLike, reason: str, advice: str) -> UserInputError:
    return UserInputError(f"{name} is damaged: {reason}. {advice}".rstrip())
