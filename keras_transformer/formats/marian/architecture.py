"""What a Marian model is made of, as arguments of ours, and how what we lack is refused."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from keras_transformer.errors import UserInputError
from keras_transformer.search_options import SearchOptions

EOS, PAD = "</s>", "<pad>"
# The names of activations: theirs -> ours, which Keras takes.
ACTIVATIONS = {"swish": "swish", "silu": "swish", "gelu": "gelu", "relu": "relu"}
# What every Marian model has.
ALWAYS = {
    "normalize_first": False,
    "use_bias": True,
    "use_logits_bias": True,
}
_LARGEST_BEAM = 1000  # of a stranger's file: a larger one would run for hours


class Architecture(msgspec.Struct, kw_only=True):
    """A Marian model in the words of `build_transformer`.

    Attributes:
        options: arguments of `build_transformer`.
        pad, start, eos: ids of padding, of the decoder's first input and of the end of a sentence.
        source_eos: id of the end of a source sentence.
        source_rows, target_rows: numbers of rows of the tables of embeddings in the file.
        search: fields of `SearchOptions`, the model's own defaults.
        banned, banned_path: ids that the file's search is never to give, and the file.
    """

    options: dict[str, Any]
    pad: int
    start: int
    eos: int
    source_eos: int
    source_rows: int
    target_rows: int
    search: dict[str, Any]
    banned: list[list[int]] = []
    banned_path: Path = Path()


def imported_search(origins: Mapping[str, Path], **given: tuple[str, Any]) -> dict[str, Any]:
    """Fields of `SearchOptions`, after their checks.

    Args:
        origins: the file of each key.
        **given: field -> its key, for errors, and its value.
    """
    rules = {"length_penalty": "power"}
    for field, (key, value) in given.items():
        try:
            SearchOptions(**rules, **{field: value})  # type: ignore[arg-type]
        except ValueError as error:
            reason = str(error).replace(field, key)
            raise UserInputError(
                f"The model of {origins[key]} cannot be imported: {reason}"
            ) from error
        if field == "beam_size" and value > _LARGEST_BEAM:
            refuse(origins[key], key, f"at most {_LARGEST_BEAM:,}", value)
    return {field: value for field, (_, value) in given.items()} | rules


def refuse(path: Path, name: str, rule: str, value: Any) -> None:
    """Raise the `UserInputError` of an option that this package lacks.

    Args:
        path: the file that has it.
        name: its key.
        rule: what it must be.
        value: what it is.
    """
    raise UserInputError(
        f"The model of {path} cannot be imported: `{name}` must be {rule}. "
        f"Received: {name}={repr(value)[:100]}"
    )


def activation(path: Path, name: str, value: str) -> str:
    """The Keras name of an activation, of those that Marian has; arguments as for `refuse`."""
    if value not in ACTIVATIONS:
        refuse(path, name, f"one of {sorted(ACTIVATIONS)}", value)
    return ACTIVATIONS[value]
