"""A Marian model's architecture as our arguments, and errors for options that we do not have."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from keras_transformer.formats.format import cannot_import
from keras_transformer.search_options import SearchOptions

EOS, PAD = "</s>", "<pad>"
# The names of activations: theirs -> ours, which Keras takes.
ACTIVATIONS = {"swish": "swish", "silu": "swish", "gelu": "gelu", "relu": "relu"}
# The options that every model of Hugging Face's has, and most of Marian's own.
USUAL = {
    "normalize_first": False,
    "use_bias": True,
    "use_logits_bias": True,
}
_LARGEST_BEAM = 1000  # in an untrusted file: a larger beam would run for hours


class Architecture(msgspec.Struct, kw_only=True):
    """A Marian model in the terms of `build_transformer`.

    Attributes:
        options: arguments of `build_transformer`.
        pad, start, eos: ids of padding, the decoder's first input and the end of a sentence.
        source_eos: id of the end of a source sentence.
        source_rows, target_rows: numbers of rows of the embedding tables in the file.
        tied_layers: for each decoder layer, counted from 1, the one whose weights it has; empty if
            each has its own.
        search: fields of `SearchOptions`, the model's own defaults.
        right_to_left: whether sentences of both sides begin with their last token.
        banned, banned_path: ids that the file's search must never produce, and the file.
    """

    options: dict[str, Any]
    pad: int
    start: int
    eos: int
    source_eos: int
    source_rows: int
    target_rows: int
    search: dict[str, Any]
    tied_layers: list[int] = []
    right_to_left: bool = False
    banned: list[list[int]] = []
    banned_path: Path = Path()


def imported_search(origins: Mapping[str, Path], **given: tuple[str, Any]) -> dict[str, Any]:
    """Check and return fields of `SearchOptions`.

    Args:
        origins: the file of each key.
        **given: field -> its key, for errors, and value.
    """
    rules = {"length_penalty": "power"}
    for field, (key, value) in given.items():
        try:
            SearchOptions(**rules, **{field: value})  # type: ignore[arg-type]
        except ValueError as error:
            reason = str(error).replace(field, key)
            raise cannot_import(origins[key], reason) from error
        if field == "beam_size" and value > _LARGEST_BEAM:
            refuse(origins[key], key, f"at most {_LARGEST_BEAM:,}", value)
    return {field: value for field, (_, value) in given.items()} | rules


def refuse(path: Path, name: str, rule: str, value: Any) -> None:
    """Raise the `UserInputError` for an option that this package does not support.

    Args:
        path: the file with the option.
        name: the option's key.
        rule: what the value must be.
        value: the value.
    """
    received = f"{name}={repr(value)[:100]}"
    raise cannot_import(path, f"`{name}` must be {rule}. Received: {received}")


def activation(path: Path, name: str, value: str) -> str:
    """Return the Keras name of a Marian activation; the arguments are as in `refuse`."""
    if value not in ACTIVATIONS:
        refuse(path, name, f"one of {sorted(ACTIVATIONS)}", value)
    return ACTIVATIONS[value]
