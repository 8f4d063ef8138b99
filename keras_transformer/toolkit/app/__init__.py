"""The web app for translating and parsing, and its JSON interface: `keras-transformer app`.

Its title and its limits stand here, where `--help` finds them without the libraries of the app.
"""

import dataclasses

from keras_transformer.argument_checks import check_positive_int, python_number

TITLE = "keras_transformer"


@dataclasses.dataclass(frozen=True, kw_only=True)
class AppLimits:
    """Limits of the app.

    Args:
        characters: most characters in a text.
        sentences: most sentences in a text, and most pairs to align.
        tokens: most tokens in a sentence, including the end of sentence. A translation to align
            may have more, by up to the largest `extra_length`.
        beam_size: largest beam size, unless a run's own is larger.
        extra_length: largest `extra_length` of a search, unless a run's own is larger.
        waiting: most requests that wait for one model; more are asked to try again later.
        body_seconds: seconds that a request's body may take to arrive.

    Raises:
        ValueError: a limit is not a positive integer.

    Example:
        >>> AppLimits(sentences=10).body_bytes
        305536
    """

    characters: int = 10_000
    sentences: int = 100
    tokens: int = 256
    beam_size: int = 32
    extra_length: int = 400
    waiting: int = 64
    body_seconds: int = 30

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            check_positive_int(field.name, value)
            object.__setattr__(self, field.name, python_number(value))

    @property
    def body_bytes(self) -> int:
        """Most bytes in a request's body.

        A body has at most two texts, whose characters may be escaped as surrogate pairs.
        """
        return 2 * self.characters * len(r"\ud83c\udf89") + (1 << 16)
