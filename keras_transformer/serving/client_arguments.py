"""Checks of the arguments of a `TranslationClient`, and the form in which they are sent."""

import numbers
import re
import urllib.parse
from collections.abc import Iterable, Sequence
from typing import Any

from keras_transformer.argument_checks import is_number
from keras_transformer.text.sentence_batches import without_surrogates

GRPC_SCHEMES = ("grpc", "grpcs")
SCHEMES = ("http", "https", *GRPC_SCHEMES)
# In the paths of TensorFlow Serving's REST API.
MODEL_NAME = re.compile(r"[^/:]+")
# A version is an int64 in TensorFlow Serving's messages.
MOST_VERSION = 2**63 - 1
# A day: the clocks of the operating system and of gRPC have limits.
MOST_SECONDS = 24 * 60 * 60


def checked_address(address: object) -> tuple[str, tuple[str, str] | None]:
    """An address with its scheme in lower case, and its `(user, password)` or None.

    The message of a `ValueError` does not show these.

    Example:
        >>> checked_address("localhost:8501")
        ('http://localhost:8501', None)
        >>> checked_address("https://me:secret@example.org")
        ('https://example.org', ('me', 'secret'))
    """
    if not isinstance(address, str) or not _is_utf8(address):
        raise _wrong_address(address)
    has_scheme = "://" in address
    whole = address if has_scheme else f"http://{address}"
    try:
        parts = urllib.parse.urlsplit(whole)
        port, is_grpc = parts.port, parts.scheme in GRPC_SCHEMES
    except ValueError:  # the port is not a number
        raise _wrong_address(address) from None
    is_whole = parts.hostname and (port is not None or not (is_grpc or not has_scheme))
    # A `/` in a password ends the host.
    extra = (
        parts.query or parts.fragment or "@" in parts.path or (is_grpc and parts.path.strip("/"))
    )
    # Some programs end the host at a backslash.
    is_clean = whole.isprintable() and not set(whole) & set(" \\")
    if parts.scheme not in SCHEMES or not is_whole or extra or not is_clean:
        raise _wrong_address(address)
    user, _, host = parts.netloc.rpartition("@")
    name, _, password = user.partition(":")
    pair = (urllib.parse.unquote(name), urllib.parse.unquote(password))
    return f"{parts.scheme}://{host}{parts.path}".rstrip("/"), pair if user else None


def _wrong_address(address: object) -> ValueError:
    """The error for an address, without the part before its last `@`."""
    _, at, shown = repr(address).rpartition("@")
    return ValueError(
        "`address` must be http://HOST:PORT, https://HOST:PORT, HOST:PORT, grpc://HOST:PORT or "
        "grpcs://HOST:PORT; before HOST may stand USER:PASSWORD@, special characters as %XX. "
        f"Received: address={'...@' if at else ''}{shown}"
    )


def check_model(model: object) -> None:
    """Require a name that a model can have on a model server."""
    is_name = isinstance(model, str) and MODEL_NAME.fullmatch(model) and _is_utf8(model)
    if not is_name:
        raise ValueError(
            "`model` must be the name of a model: not empty, without `/` and `:`, valid UTF-8. "
            f"Received: model={model!r}"
        )


def check_version(version: int | None) -> None:
    """Require None or a version that a model can have on a model server."""
    is_int = isinstance(version, int) and not isinstance(version, bool)
    if version is not None and not (is_int and 0 <= version <= MOST_VERSION):
        raise ValueError(
            f"`version` must be None or an integer in [0, 2**63 - 1]. Received: version={version!r}"
        )


def check_timeout(timeout: object) -> None:
    """Require a number of seconds > 0, at most a day."""
    if not is_number(timeout) or not 0 < timeout <= MOST_SECONDS:
        raise ValueError(
            f"`timeout` must be a number of seconds > 0 and <= {MOST_SECONDS}, a day. "
            f"Received: timeout={timeout!r}"
        )


def _is_utf8(string: str) -> bool:
    """Whether a string is free of unpaired surrogates."""
    return string == without_surrogates(string)


def checked_rows(name: str, rows: Iterable[Any]) -> list[list[int]]:
    """Rows of 32-bit integers as lists of lists of int."""
    checked = []
    for i, row in enumerate(rows):
        is_row = not isinstance(row, (str, bytes)) and hasattr(row, "__iter__")
        ids = list(row) if is_row else []
        if not is_row or not all(map(_is_id, ids)):
            raise ValueError(
                f"`{name}` must be a list of lists of 32-bit integers. "
                f"Received: {name}[{i}]={row!r}"
            )
        checked.append([int(token) for token in ids])
    return checked


def _is_id(value: Any) -> bool:
    return (
        isinstance(value, numbers.Integral)
        and not isinstance(value, bool)
        and -(2**31) <= int(value) < 2**31
    )


def padded(rows: Sequence[list[int]]) -> dict[str, list[Any]]:
    """The inputs of the signature `translate_ids`: rows of the same length, at least 1.

    A batching model server cannot pad an input without elements.

    Example:
        >>> padded([[5, 6], []])
        {'input_ids': [[5, 6], [0, 0]], 'input_lengths': [2, 0]}
    """
    width = max(1, *map(len, rows))
    return {
        "input_ids": [row + [0] * (width - len(row)) for row in rows],
        "input_lengths": [len(row) for row in rows],
    }
