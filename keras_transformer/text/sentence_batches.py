"""Checking lists of sentences, and batching sentences of similar lengths."""

from collections.abc import Iterable, Iterator, Sized
from typing import Protocol

from tqdm import tqdm

from keras_transformer.argument_checks import check_no_string
from keras_transformer.errors import UserInputError
from keras_transformer.files.standard_streams import is_quiet

# Memory grows with the square of the length: sentences longer than this get smaller batches.
FULL_BATCH_LENGTH = 256


class Lengths(Protocol):
    """A sequence or a mapping from indices of sentences to their lengths."""

    def __getitem__(self, index: int, /) -> int: ...


def checked_strings(name: str, strings: Iterable[str]) -> list[str]:
    """Return the strings in a form that UTF-8 can encode; other values raise a ValueError."""
    check_no_string(name, strings)
    strings = list(strings)
    for i, string in enumerate(strings):
        if not isinstance(string, str):
            raise ValueError(
                f"`{name}` must be a list of strings. Received: {name}[{i}]={string!r}"
            )
    return [without_surrogates(string) for string in strings]


def without_surrogates(string: str) -> str:
    """Return the string with U+FFFD in place of lone surrogates, which UTF-8 cannot encode."""
    try:
        string.encode()
    except UnicodeEncodeError:
        return string.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return string


def check_equal_numbers(name: str, rows: Sized, other_name: str, other_rows: Sized) -> None:
    """Require that two arguments have the same length."""
    if len(rows) != len(other_rows):
        raise UserInputError(
            f"`{other_name}` must be as many as `{name}`. "
            f"Received: {len(rows)} {name}, {len(other_rows)} {other_name}"
        )


def batches_by_length(
    indices: Iterable[int],
    lengths: Lengths,
    batch_size: int,
    progress: bool = False,
    *,
    full_length: int | None = None,
) -> Iterator[list[int]]:
    """Split indices of sentences into batches of similar lengths, longest first.

    A batch has at most `batch_size` sentences, or fewer if they are longer than `full_length`
    (default: `FULL_BATCH_LENGTH`).

    Example:
        >>> list(batches_by_length(range(4), [3, 9, 4, 8], batch_size=2))
        [[1, 3], [2, 0]]
    """
    indices = sorted(indices, key=lambda i: -lengths[i])
    full_length = FULL_BATCH_LENGTH if full_length is None else full_length
    with tqdm(total=len(indices), unit=" sentences", disable=is_quiet() or not progress) as bar:
        start = 0
        while start < len(indices):
            longest = max(lengths[indices[start]], full_length)
            size = max(1, batch_size * full_length // longest)
            yield indices[start : start + size]
            start += size
            bar.update(min(size, bar.total - bar.n))
