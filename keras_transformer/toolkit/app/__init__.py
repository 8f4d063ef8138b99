"""The web app (`keras-transformer app`) for translation and parsing, and its JSON interface.

The title and limits are defined here so that `--help` does not import the app's dependencies.
"""

import dataclasses

from keras_transformer.argument_checks import check_positive_int, python_number

TITLE = "keras_transformer"


@dataclasses.dataclass(frozen=True, kw_only=True)
class AppLimits:
    """Limits of the web app.

    Args:
        characters: maximum number of characters in a text.
        sentences: maximum number of sentences in a text, or of pairs to align.
        tokens: maximum number of tokens in a sentence, including EOS. A translation to align may
            exceed this by up to the largest `extra_length`.
        beam_size: maximum beam size, unless the default of a run is larger.
        extra_length: maximum `extra_length` of a search, unless the default of a run is larger.
        waiting: maximum number of queued requests per model. Further requests are rejected with
            advice to retry later.
        body_seconds: time limit in seconds for receiving a request body.

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
        """Maximum number of bytes in a request body.

        A body contains up to two texts, whose characters may be escaped as surrogate pairs.
        """
        return 2 * self.characters * len(r"\ud83c\udf89") + (1 << 16)
