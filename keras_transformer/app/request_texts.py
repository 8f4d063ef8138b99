"""The texts of a request: what the app refuses, and where sentences end."""

import asyncio
from collections.abc import Iterable, Sequence

from keras_transformer.app.engine import Engine
from keras_transformer.app.limits import AppLimits
from keras_transformer.app.request_errors import RequestRefused, too_long
from keras_transformer.app.sentence_layout import SentenceLayout
from keras_transformer.errors import SentenceTooLong


class RequestTexts:
    """Checks texts and splits them into sentences.

    Args:
        limits: the app's limits.
        source_language: code of the language whose rules split texts where a request gives none.
    """

    def __init__(self, limits: AppLimits, source_language: str) -> None:
        self._limits = limits
        self._source_language = source_language

    async def layout(
        self, engine: Engine, text: str, source_language: str | None
    ) -> SentenceLayout:
        """The sentences of a text.

        Raises:
            RequestRefused: the text is empty, has what is no character, or exceeds a limit.
        """
        self._check_texts([text], self._limits.characters)
        if not text.strip():
            raise RequestRefused(422, "empty_text", "`text` is empty.")
        # In a thread: other requests are answered in the meantime.
        return await asyncio.to_thread(
            self._layout, engine, text, source_language or self._source_language
        )

    async def check_pairs(self, engine: Engine, pairs: Sequence[tuple[str, str]]) -> None:
        """Refuse pairs of a source and a target that exceed a limit.

        Raises:
            RequestRefused: there is no pair, a source is empty, or a limit is exceeded.
        """
        self._check_number(len(pairs), "pairs")
        texts = [text for pair in pairs for text in pair]
        self._check_texts(texts, 2 * self._limits.characters)
        if not pairs:
            raise RequestRefused(422, "empty_text", "`pairs` is empty.")
        if not all(source.strip() for source, _ in pairs):
            raise RequestRefused(422, "empty_text", "`source` is empty.")
        await asyncio.to_thread(
            _check_lengths, engine, [source for source, _ in pairs], [text for _, text in pairs]
        )

    def _layout(self, engine: Engine, text: str, source_language: str) -> SentenceLayout:
        layout = SentenceLayout.of(text, source_language)
        self._check_number(len(layout.sentences), "sentences")
        _check_lengths(engine, [sentence.source for sentence in layout.sentences])
        return layout

    def _check_texts(self, texts: Iterable[str], most: int) -> None:
        characters = 0
        for text in texts:
            characters += len(text)
            if not is_plain(text):
                raise RequestRefused(
                    422,
                    "invalid_request",
                    "A text must have neither NUL characters nor halves of surrogate pairs.",
                )
        if characters > most:
            raise RequestRefused(
                413,
                "too_many_characters",
                f"A request may have at most {most:,} characters. Received: {characters:,}",
            )

    def _check_number(self, number: int, what: str) -> None:
        most = self._limits.sentences
        if number > most:
            raise RequestRefused(
                413,
                f"too_many_{what}",
                f"A request may have at most {most:,} {what}. Received: {number:,}",
            )


def is_plain(text: str) -> bool:
    """Whether a text has only what libraries take for characters.

    Example:
        >>> is_plain("größe 🎉\\n"), is_plain("a\\0"), is_plain("\\ud83c")
        (True, False, False)
    """
    return "\0" not in text and not any("\ud800" <= one <= "\udfff" for one in text)


def _check_lengths(engine: Engine, sources: Sequence[str], targets: Sequence[str] = ()) -> None:
    try:
        engine.check_lengths(sources, targets)
    except SentenceTooLong as error:
        raise too_long(error, error.index) from error
