"""The texts of a request: checks, sentence ends, and the white space between sentences."""

import asyncio
import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from keras_transformer.app.app_limits import AppLimits
from keras_transformer.app.request_errors import RequestRefused, too_long
from keras_transformer.errors import SentenceTooLong
from keras_transformer.text.sentence_encoding import split_at_sentence_ends

if TYPE_CHECKING:  # it imports Keras, and the command reads texts before Keras is loaded
    from keras_transformer.app.loaded_runs import LoadedRun


class LaidOutSentence(NamedTuple):
    """A sentence of a text.

    Args:
        source: the sentence, without white space around it.
        before: the white space before the sentence.
    """

    source: str
    before: str


@dataclasses.dataclass(frozen=True)
class SentenceLayout:
    r"""The sentences of a text and the white space between them.

    Args:
        sentences: the sentences in order.
        after: the white space after the last sentence.
        too_long: the refusals of sentences with too many tokens, by their indices.

    Example:
        >>> layout = SentenceLayout.of("One. Two!\n\n  Three.\n", language="en")
        >>> [(sentence.before, sentence.source) for sentence in layout.sentences]
        [('', 'One.'), (' ', 'Two!'), ('\n\n  ', 'Three.')]
        >>> layout.text(["Eins.", "Zwei!", "Drei."])
        'Eins. Zwei!\n\n  Drei.\n'
    """

    sentences: Sequence[LaidOutSentence]
    after: str
    too_long: Mapping[int, RequestRefused] = dataclasses.field(default_factory=dict)

    @classmethod
    def of(cls, text: str, language: str) -> "SentenceLayout":
        """Split a text at the ends of its lines and of the sentences in each line.

        Args:
            text: the text, without lone surrogates.
            language: code of the text's language, such as "en"; its abbreviations do not end
                sentences. Languages without their own rules use general rules.
        """
        sentences: list[LaidOutSentence] = []
        gap = ""
        for line in text.splitlines(keepends=True):
            for piece in split_at_sentence_ends(line, language):
                source = piece.strip()
                if not source:
                    gap += piece
                    continue
                start = piece.index(source)
                sentences.append(LaidOutSentence(source, gap + piece[:start]))
                gap = piece[start + len(source) :]
        return cls(sentences, gap)

    def text(self, translations: Iterable[str]) -> str:
        """Return the text with each sentence replaced by its translation."""
        pairs = zip(self.sentences, translations, strict=True)
        return "".join(sentence.before + text for sentence, text in pairs) + self.after


class RequestTexts:
    """Checks texts and splits them into sentences.

    Args:
        limits: the app's limits.
        source_language: code of the language whose rules split texts if a request gives none. None
            means the run's own language, or "en".
    """

    def __init__(self, limits: AppLimits, source_language: str | None) -> None:
        self._limits = limits
        self._source_language = source_language

    async def layout(
        self, run: "LoadedRun", text: str, source_language: str | None, skips_too_long: bool
    ) -> SentenceLayout:
        """Return the sentences of a text.

        Args:
            run: the run that the text is for.
            text: the text.
            source_language: code of the text's language; None means the default.
            skips_too_long: whether to note a sentence with too many tokens; otherwise the whole
                text is refused.

        Raises:
            RequestRefused: the text is empty, has invalid characters, or exceeds a limit.
        """
        self._check_texts([text], self._limits.characters)
        if not text.strip():
            raise RequestRefused(422, "empty_text", "`text` is empty.")
        # In a thread, so that other requests are answered in the meantime.
        language = source_language or self._source_language or run.source_language or "en"
        return await asyncio.to_thread(self._layout, run, text, language, skips_too_long)

    async def check_pairs(self, run: "LoadedRun", pairs: Sequence[tuple[str, str]]) -> None:
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
            _check_lengths, run, [source for source, _ in pairs], [text for _, text in pairs]
        )

    def _layout(
        self, run: "LoadedRun", text: str, source_language: str, skips_too_long: bool
    ) -> SentenceLayout:
        layout = SentenceLayout.of(text, source_language)
        self._check_number(len(layout.sentences), "sentences")
        sources = [sentence.source for sentence in layout.sentences]
        if skips_too_long:
            return dataclasses.replace(layout, too_long=_too_long(run, sources))
        _check_lengths(run, sources)
        return layout

    def _check_texts(self, texts: Iterable[str], most: int) -> None:
        characters = 0
        for text in texts:
            characters += len(text)
            if not is_plain(text):
                raise RequestRefused(
                    422,
                    "invalid_request",
                    "A text must not have NUL characters or halves of surrogate pairs.",
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
    """Whether a text has only what libraries accept as characters.

    Example:
        >>> is_plain("größe 🎉\\n"), is_plain("a\\0"), is_plain("\\ud83c")
        (True, False, False)
    """
    return "\0" not in text and not any("\ud800" <= one <= "\udfff" for one in text)


def _check_lengths(run: "LoadedRun", sources: Sequence[str], targets: Sequence[str] = ()) -> None:
    try:
        run.check_lengths(sources, targets)
    except SentenceTooLong as error:
        raise too_long(error, error.index) from error


def _too_long(run: "LoadedRun", sources: Sequence[str]) -> dict[int, RequestRefused]:
    """Return the refusals of the sources that are too long, by their indices."""
    found = {}
    for index, source in enumerate(sources):
        try:
            run.check_lengths([source])
        except SentenceTooLong as error:
            found[index] = too_long(error, index)
    return found
