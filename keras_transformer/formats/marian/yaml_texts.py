"""Marian's YAML, which may be hostile: read only as text, within limits of size and depth."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from keras_transformer.distribution import pip_install
from keras_transformer.errors import UserInputError
from keras_transformer.files.input_files import read_input

MOST_BYTES = 1 << 22  # a vocabulary of 60,000 pieces has less than 2 million
MOST_PIECES = 250_000
_MOST_EVENTS = 600_000  # of the parser: two for each piece; PyYAML keeps about 400 bytes for each
_DEEPEST = 20  # collections within each other


def read_yaml(path: Path) -> dict[str, Any]:
    """Read the mapping in a YAML file; values are text, or lists and mappings of text.

    Raises:
        UserInputError: the file is missing, damaged, too large, or holds anything else.
    """
    return parse_yaml(path, read_input(path, MOST_BYTES))


def parse_yaml(path: Path, content: bytes) -> dict[str, Any]:
    """As `read_yaml`, from the content of a file or of a part of it."""
    yaml = _yaml()
    loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    depth = 0
    try:
        if b"\n%TAG" in content:  # PyYAML copies all of them for each
            raise ValueError("it has %TAG directives")
        for count, event in enumerate(yaml.parse(content, Loader=loader)):
            depth += isinstance(event, yaml.CollectionStartEvent)
            depth -= isinstance(event, yaml.CollectionEndEvent)
            # Deep nesting crashes PyYAML, and a few lines of aliases mean a billion values.
            if depth > _DEEPEST or isinstance(event, yaml.AliasEvent):
                raise ValueError("it has aliases, or is nested deep")
            if count > _MOST_EVENTS:
                raise ValueError(f"it has more than {_MOST_EVENTS:,} values")
        value = yaml.load(content, Loader=loader)  # makes only text
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        reason = "".join(filter(str.isprintable, " ".join(str(error).split())))[:100]
        raise UserInputError(f"{path} is damaged: its YAML cannot be read: {reason}.") from error
    if not isinstance(value, dict) or not all(isinstance(name, str) for name in value):
        raise UserInputError(f"{path} is damaged: it must hold names and values.")
    return value


def write_yaml(content: Mapping[str, Any]) -> bytes:
    """The bytes of a YAML file with these names and values."""
    return _yaml().safe_dump(dict(content), sort_keys=False, allow_unicode=True).encode()


def _yaml() -> Any:
    try:
        import yaml
    except ImportError as error:
        raise UserInputError(
            f"Marian's files need the package PyYAML: {pip_install('interop')}"
        ) from error
    return yaml
