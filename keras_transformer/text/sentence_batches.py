"""Lists of sentences: what they must be, and batches of them of similar lengths."""

from tqdm import tqdm

from keras_transformer.argument_checks import check_no_string
from keras_transformer.errors import UserInputError

# Memory grows with length squared: a batch of longer sentences than these has fewer of them.
FULL_BATCH_LENGTH = 256


def checked_strings(name, strings):
    """The strings as a list, each as UTF-8 can hold it; ValueError where one is no string."""
    check_no_string(name, strings)
    strings = list(strings)
    for i, string in enumerate(strings):
        if not isinstance(string, str):
            raise ValueError(
                f"`{name}` must be a list of strings. Received: {name}[{i}]={string!r}"
            )
    return [without_surrogates(string) for string in strings]


def without_surrogates(string):
    """A string that UTF-8 can hold: half a surrogate pair, which is no character, is U+FFFD."""
    return string.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def check_equal_numbers(name, rows, other_name, other_rows):
    """Require as many of one kind as of the other."""
    if len(rows) != len(other_rows):
        raise UserInputError(
            f"`{other_name}` must be as many as `{name}`. "
            f"Received: {len(rows)} {name}, {len(other_rows)} {other_name}"
        )


def batches_by_length(indices, lengths, batch_size, progress=False):
    """Split indices of sentences into lists of similar lengths, the longest first.

    They have at most `batch_size` sentences, and fewer of those above `FULL_BATCH_LENGTH`.

    Example:
        >>> list(batches_by_length(range(4), [3, 9, 4, 8], batch_size=2))
        [[1, 3], [2, 0]]
    """
    indices = sorted(indices, key=lambda i: -lengths[i])
    with tqdm(total=len(indices), unit=" sentences", disable=not progress) as bar:
        start = 0
        while start < len(indices):
            longest = max(lengths[indices[start]], FULL_BATCH_LENGTH)
            size = max(1, batch_size * FULL_BATCH_LENGTH // longest)
            yield indices[start : start + size]
            start += size
            bar.update(min(size, bar.total - bar.n))
