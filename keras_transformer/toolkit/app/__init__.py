"""The web app (`keras-transformer app`) for translation and parsing, and its HTTP interfaces.

The names and limits are defined here so that `--help` does not import the app's dependencies.
"""

import dataclasses

from keras_transformer.argument_checks import check_positive_int, python_number

TITLE = "keras_transformer"
API_KEY = "KERAS_TRANSFORMER_API_KEY"  # environment variable


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
        terms: maximum number of terms in a glossary; each target of a source term counts.
        glossary_bytes: maximum number of bytes in the terms of a glossary, in UTF-8.
        sentence_terms: maximum number of targets and kept parts in a sentence. The search gets
            slower with each of them.
        waiting: maximum number of queued requests per model. Further requests are rejected with
            advice to retry later.
        body_seconds: time limit in seconds for receiving a request body.

    Raises:
        ValueError: a limit is not a positive integer.

    Example:
        >>> AppLimits(sentences=10).body_bytes
        605536
    """

    characters: int = 10_000
    sentences: int = 100
    tokens: int = 256
    beam_size: int = 32
    extra_length: int = 400
    terms: int = 1000
    glossary_bytes: int = 100_000
    sentence_terms: int = 32
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

        A body contains up to two texts, whose characters may be escaped as surrogate pairs, and a
        glossary, whose bytes may be escaped like `%F0`.
        """
        texts = 2 * self.characters * len(r"\ud83c\udf89")
        return texts + self.glossary_bytes * len("%F0") + (1 << 16)
