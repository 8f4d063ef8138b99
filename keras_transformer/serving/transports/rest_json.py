"""The JSON of a model server's answers."""

import json
from collections.abc import Mapping
from typing import Any

from keras_transformer.serving.answer_values import (
    Signatures,
    VersionState,
    string,
    whole_number,
)
from keras_transformer.text.sentence_batches import without_surrogates


def parsed(content: bytes) -> Any:
    """The value of a JSON body, or None if it is not JSON.

    Invalid UTF-8 and unpaired surrogates become U+FFFD.

    Example:
        >>> parsed(rb'{"outputs": ["half \\ud800"]}')
        {'outputs': ['half \ufffd']}
    """
    text = content.decode("utf-8-sig", "replace")
    try:
        value = json.loads(text)
        return _without_surrogates(value) if "\\u" in text else value
    except (ValueError, RecursionError):
        return None


def version_states(answer: Any) -> list[VersionState]:
    """The state of each version in the answer to a status request."""
    return [
        (
            whole_number(one["version"]),
            string(one["state"]),
            string(one.get("status", {}).get("error_message", "")),
        )
        for one in answer["model_version_status"]
    ]


def described_model(answer: Any) -> tuple[int, Signatures]:
    """The version and the signatures in the answer to a metadata request."""
    signatures = answer["metadata"]["signature_def"]["signature_def"]
    return whole_number(answer["model_spec"]["version"]), {
        name: {side: _tensors(signature.get(side, {})) for side in ("inputs", "outputs")}
        for name, signature in signatures.items()
    }


def _tensors(infos: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    return {
        name: {"dtype": string(info["dtype"]), "shape": _shape(info["tensor_shape"])}
        for name, info in infos.items()
    }


def _shape(shape: Mapping[str, Any]) -> list[int] | None:
    if shape.get("unknown_rank"):
        return None
    return [whole_number(dimension["size"], least=-1) for dimension in shape.get("dim", [])]


def _without_surrogates(value: Any) -> Any:
    if isinstance(value, dict):
        return {without_surrogates(key): _without_surrogates(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_without_surrogates(one) for one in value]
    return without_surrogates(value) if isinstance(value, str) else value
