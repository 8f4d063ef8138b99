"""JSON and records in it: read from files that anybody may have written, in one place."""

import json

import msgspec

from keras_transformer.errors import UserInputError
from keras_transformer.files.ordinary_files import open_ordinary

# A record of ours has some kilobytes; the model of a thousand layers has some megabytes.
MOST_BYTES = 1 << 26


def read_json(path, advice=""):
    """Return the value in an ordinary file of JSON; errors end with `advice`."""
    return parse_json(path, read_small_file(path), advice)


def read_record(path, record_type, advice=""):
    """Return the record in a JSON file, after a look at each of its fields.

    `record_type` is what `msgspec` converts to: it says which fields are there, and of which
    types. Fields that it does not name are passed over. Errors end with `advice`.

    Example:
        >>> import tempfile, pathlib
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "steps.json"
        >>> _ = path.write_text('{"first": 1, "last": 20}')
        >>> read_record(path, dict[str, int])
        {'first': 1, 'last': 20}
    """
    return to_record(path, read_json(path, advice), record_type, advice)


def parse_json(name, content, advice=""):
    """Return the value of JSON in bytes or a string; `name` says where they are from."""
    try:
        return json.loads(content)
    except RecursionError as error:
        raise _damaged(name, "brackets are nested too deep", advice) from error
    except ValueError as error:  # also of bytes that are not UTF-8, and of endless numbers
        raise _damaged(name, f"it is not JSON: {error}", advice) from error


def to_record(name, value, record_type, advice=""):
    """Return a value of JSON as a record of this type; `name` says where it is from."""
    try:
        return msgspec.convert(value, record_type)
    except (msgspec.ValidationError, OverflowError, RecursionError) as error:
        raise _damaged(name, str(error), advice) from error


def read_small_file(path):
    """Return the bytes of an ordinary file of at most `MOST_BYTES`; UserInputError for another."""
    try:
        with open_ordinary(path) as file:
            content = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise UserInputError(f"Cannot read {path}: {error.strerror}.") from error
    if len(content) > MOST_BYTES:
        raise UserInputError(f"{path} is larger than {MOST_BYTES >> 20} MB: it is no such file.")
    return content


def _damaged(name, reason, advice):
    return UserInputError(f"{name} is damaged: {reason}. {advice}".rstrip())
