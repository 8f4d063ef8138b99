"""Request and response schemas of the app's JSON interface."""

import asyncio
import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, create_model

from keras_transformer.argument_checks import (
    check_non_negative_number,
    check_positive_int,
    check_positive_number,
)
from keras_transformer.errors import SentenceTooLong, UserInputError
from keras_transformer.runs.run_records import LANGUAGE_CODE
from keras_transformer.search_options import OPTIONS, Option, SearchOptions
from keras_transformer.text.glossary import Glossary
from keras_transformer.text.markup import parse_markup
from keras_transformer.text.sentence_encoding import split_at_sentence_ends
from keras_transformer.text.stand_ins import with_texts
from keras_transformer.text.variables import find_variables
from keras_transformer.toolkit.app import AppLimits
from keras_transformer.toolkit.app.request_guard import RequestRefused, invalid, too_long
from keras_transformer.types import NONE, MarkupKind

if TYPE_CHECKING:
    from keras_transformer.toolkit.app.loaded_runs import LoadedRun, Work

RunName = Annotated[
    str | None, Field(description="Name of a run from `GET /api/runs`; defaults to the first run.")
]
TargetLanguage = Annotated[
    str | None,
    Field(description="Target language for a multilingual model; see `GET /api/runs`."),
]


LongSentences = Literal["refuse", "skip"]
Terms = dict[str, str | list[str]]
Keep = Literal["auto", "numbers", "none"]
GLOSSARY = (
    "Terms that the translation must contain: an object from each source term to its target, or to "
    "a list of targets. For each occurrence of a source term, the translation contains one target."
)


class Request(BaseModel):
    """A request. Unknown fields and values of the wrong type are refused."""

    model_config = ConfigDict(extra="forbid", strict=True)


# Minimum option values, keyed by check function.
LEAST: dict[Callable[[str, Any], None], dict[str, float]] = {
    check_positive_int: {"ge": 1},
    check_non_negative_number: {"ge": 0},
    check_positive_number: {"gt": 0},
}
_OPTIONS = {name: option for name, option in OPTIONS.items() if option.in_json is not None}
_TYPES = get_type_hints(SearchOptions)


def _given(name: str, option: Option) -> tuple[Any, Any]:
    """Return the request field for an option."""
    kind = Literal[tuple(option.choices)] if option.choices else _TYPES[name]
    bounds: Any = LEAST.get(option.check, {})
    return kind | None, Field(default=None, description=option.in_json, **bounds)


if TYPE_CHECKING:
    Search = Request
    RunSearch = BaseModel
else:
    Search = create_model(
        "Search",
        __base__=Request,
        __doc__="Search options; the run's own are the defaults.",
        **{name: _given(name, option) for name, option in _OPTIONS.items()},
    )
    RunSearch = create_model(
        "RunSearch",
        __doc__="The search options of a run.",
        **{name: (_TYPES[name], ...) for name in _OPTIONS},
    )


class TextRequest(Request):
    """A text."""

    text: str = Field(description="The text: one or more paragraphs.")
    run: RunName = None
    search: Search = Search()
    source_language: str | None = Field(
        default=None,
        pattern=LANGUAGE_CODE,
        description="Language of the text. Its abbreviations do not end a sentence.",
    )
    long_sentences: LongSentences = Field(
        default="refuse",
        description="`refuse` rejects the entire text if a sentence has too many tokens. `skip` "
        "skips that sentence and reports it: in `error`, or in a stream as a `refused` line.",
    )


class TranslateRequest(TextRequest):
    """A text to translate."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"text": "One two three.\n\nFour five.", "n_best": 2}]}
    )
    n_best: int = Field(
        default=1, ge=1, description="Number of translations per sentence; at most `beam_size`."
    )
    target_language: TargetLanguage = None
    glossary: Terms | None = Field(default=None, description=GLOSSARY)
    keep: Keep | None = Field(
        default=None,
        description="Parts of the text that appear in the translation exactly once, unchanged: "
        "`auto` for variables such as `{name}`, URLs and e-mail addresses; `numbers` for these and "
        "numbers; `none` (the default) for no parts.",
    )


class TranslateTextRequest(TranslateRequest):
    """A text, or a document with markup, to translate."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"text": "One two three.\n\nFour five.", "n_best": 2},
                {"text": "<p>One <b>two</b></p>", "markup": "html", "glossary": {"two": "zwei"}},
            ]
        }
    )
    markup: MarkupKind | None = Field(
        default=None,
        description="Markup of the text, which stays as it is. The answer then contains only the "
        "translated document. `keep` defaults to `auto`, and `n_best` must be 1.",
    )


class ParseRequest(TextRequest):
    """A text to parse, with spaces between words and punctuation marks."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"text": "The dog barks ."}]})


class Pair(Request):
    """A sentence and its translation."""

    source: str = Field(description="The sentence.")
    target: str = Field(description="Its translation, from this model or elsewhere.")


class AlignRequest(Request):
    """Pairs to align."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"pairs": [{"source": "one two", "target": "eins zwei"}]}]}
    )
    pairs: list[Pair] = Field(description="The pairs.")
    run: RunName = None
    target_language: TargetLanguage = None


class AttentionRequest(Request):
    """A sentence and, optionally, its translation, for which to return attention weights."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"source": "one two", "target": "eins zwei"}]}
    )
    source: str = Field(description="The sentence.")
    target: str | None = Field(
        default=None, description="Its translation; by default, the model's own."
    )
    run: RunName = None
    target_language: TargetLanguage = None


class Run(BaseModel):
    """A loaded run."""

    name: str = Field(description="The value for `run` in requests.")
    kind: Literal["translation", "parsing"] = Field(description="The task of the run.")
    source_language: str | None = Field(
        default=None, description="Code of the run's source language, if known."
    )
    target_language: str | None = Field(
        default=None, description="Code of the run's target language, if known."
    )
    target_languages: list[str] = Field(
        description="Codes for `target_language`; empty if the model has only one target language."
    )
    takes_terms: bool = Field(
        description="Whether the run supports `glossary`, `keep` and `markup`."
    )
    examples: list[str] = Field(default=[], description="Sentences to try, if the run has any.")
    search: RunSearch = Field(description="The run's search options, used as the defaults.")
    most_beam_size: int = Field(description="Largest `beam_size`.")
    most_extra_length: int = Field(description="Largest `extra_length`.")


class Limits(BaseModel):
    """The request limits."""

    characters: int = Field(description="Maximum number of characters in a text.")
    sentences: int = Field(description="Maximum number of sentences in a text, or of pairs.")
    tokens: int = Field(
        description="Maximum number of tokens in a sentence, including the end of sentence. A "
        "translation may have up to `most_extra_length` more."
    )


class Runs(BaseModel):
    """The loaded runs, in command-line order, and the request limits."""

    runs: list[Run]
    limits: Limits
    version: str = Field(description="Version of keras_transformer.")


class ErrorText(BaseModel):
    """Description of an error."""

    code: str = Field(description="One-word code for programs.", examples=["unknown_run"])
    message: str = Field(description="One-line message for users.")


SkippedBecause = Annotated[
    ErrorText | None, Field(description="Why the sentence was skipped, or null.")
]


class Translation(BaseModel):
    """A translation of a sentence."""

    text: str
    score: float = Field(
        description="Log-probability of the tokens, divided by the length penalty."
    )


class SourceSentence(BaseModel):
    """A sentence in a text."""

    source: str = Field(description="The sentence, without surrounding white space.")
    before: str = Field(description="The white space before the sentence, such as a line break.")


class TranslatedSentence(SourceSentence):
    """A sentence and its translations."""

    translations: list[Translation] = Field(
        description="The best translation first; empty if the sentence was skipped."
    )
    error: SkippedBecause = None


class TranslateAnswer(BaseModel):
    """A translated text."""

    run: str
    text: str = Field(
        description="The best translations, with the white space of the source; skipped sentences "
        "stay untranslated."
    )
    sentences: list[TranslatedSentence] = Field(description="Empty for a document with markup.")


class TreeNode(BaseModel):
    """A phrase or a word in a tree."""

    parent: int | None = Field(description="Index of the enclosing phrase; null for the root.")
    label: str = Field(description="Label of the phrase, or tag of the word.")
    word: str | None = Field(description="The word; null for a phrase.")


class SentenceTree(BaseModel):
    """The tree of a sentence."""

    tree: str = Field(description="The bracketed tree.", examples=["(S (NP (XX It)) (XX .))"])
    nodes: list[TreeNode] = Field(description="Phrases before their contents, from left to right.")
    score: float | None = Field(
        description="Defined as for translations; null if no tree was found."
    )


class ParsedSentence(SourceSentence, SentenceTree):
    """A sentence and its tree. The tree is empty if the sentence was skipped."""

    error: SkippedBecause = None


class ParseAnswer(BaseModel):
    """The trees of a text."""

    run: str
    sentences: list[ParsedSentence]


class WordAlignment(BaseModel):
    """The words of a pair and their alignment."""

    source_words: list[str]
    target_words: list[str]
    pairs: list[tuple[int, int]] = Field(
        description="Index of a source word and index of the target word aligned with it."
    )


class AlignAnswer(BaseModel):
    """The alignments of pairs, in the order of the request."""

    run: str
    alignments: list[WordAlignment]


class AttentionMap(BaseModel):
    """Attention weights of one kind, for all layers and heads."""

    layers: int
    heads: int
    rows: int = Field(description="Number of tokens that attend.")
    columns: int = Field(description="Number of tokens that are attended to.")
    weights: str = Field(
        description="One byte per weight (255 times its square root), in this axis order, encoded "
        "as Base64."
    )
    entropies: list[list[float]] = Field(description="By layer and head, in nats.")
    mean_distances: list[list[float]] = Field(description="By layer and head, in tokens.")


class AttentionAnswer(BaseModel):
    """Attention weights for a sentence and its translation."""

    source_tokens: list[str]
    target_tokens: list[str] = Field(description="The tokens that the decoder reads.")
    output_tokens: list[str] = Field(description="The prediction at each decoder position.")
    maps: dict[Literal["encoder", "decoder", "cross", "alignment"], AttentionMap]


class StreamStart(BaseModel):
    """The first line of a stream, with the sentences of the text."""

    event: Literal["start"] = "start"
    run: str
    sentences: list[SourceSentence]
    after: str = Field(description="The white space after the last sentence.")


class StreamTranslation(BaseModel):
    """A stream line with the translations of a sentence."""

    event: Literal["sentence"] = "sentence"
    index: int = Field(description="Index of the sentence in the first line.")
    translations: list[Translation]


class StreamTree(SentenceTree):
    """A stream line with the tree of a sentence."""

    event: Literal["sentence"] = "sentence"
    index: int = Field(description="Index of the sentence in the first line.")


class ErrorAnswer(BaseModel):
    """Response to a request that failed."""

    error: ErrorText


class StreamRefusal(ErrorAnswer):
    """A stream line with the index of a skipped sentence and the reason."""

    event: Literal["refused"] = "refused"
    index: int = Field(description="Index of the sentence in the first line.")


class StreamError(ErrorAnswer):
    """The last line of a stream that was interrupted."""

    event: Literal["error"] = "error"


class StreamEnd(BaseModel):
    """The last line of a complete stream."""

    event: Literal["end"] = "end"


TranslationLine = StreamStart | StreamTranslation | StreamRefusal | StreamEnd | StreamError
ParsingLine = StreamStart | StreamTree | StreamRefusal | StreamEnd | StreamError


@dataclasses.dataclass(frozen=True)
class SentenceLayout:
    r"""The sentences of a text, including the white space between them.

    Args:
        sentences: sentences in order.
        after: white space after the last sentence.
        too_long: refusals of sentences with too many tokens, keyed by index.

    Example:
        >>> layout = SentenceLayout.of("One. Two!\n\n  Three.\n", language="en")
        >>> [(sentence.before, sentence.source) for sentence in layout.sentences]
        [('', 'One.'), (' ', 'Two!'), ('\n\n  ', 'Three.')]
        >>> layout.text(["Eins.", "Zwei!", "Drei."])
        'Eins. Zwei!\n\n  Drei.\n'
    """

    sentences: Sequence[SourceSentence]
    after: str
    too_long: Mapping[int, RequestRefused] = dataclasses.field(default_factory=dict)

    @classmethod
    def of(cls, text: str, language: str, keep: str = NONE) -> "SentenceLayout":
        """Split a text into lines, and each line into sentences.

        Args:
            text: text without lone surrogates.
            language: language code, such as "en". Abbreviations in this language do not end
                sentences. Languages without specific rules use general rules.
            keep: as in `Translator.translate`; neither lines nor sentences end within the parts
                that are kept.
        """
        sentences: list[SourceSentence] = []
        gap, place = "", 0
        variables = find_variables(text, keep)
        masked, _ = with_texts(text, variables, ["X" * (end - start) for start, end in variables])
        for line in masked.splitlines(keepends=True):
            for shown in split_at_sentence_ends(line, language):
                piece = text[place : place + len(shown)]
                place += len(shown)
                source = piece.strip()
                if not source:
                    gap += piece
                    continue
                start = piece.index(source)
                sentences.append(SourceSentence(source=source, before=gap + piece[:start]))
                gap = piece[start + len(source) :]
        return cls(sentences, gap)

    def text(self, translations: Iterable[str]) -> str:
        """Return the text with each sentence replaced by its translation."""
        pairs = zip(self.sentences, translations, strict=True)
        return "".join(sentence.before + text for sentence, text in pairs) + self.after


@dataclasses.dataclass(frozen=True)
class RequestTexts:
    """Checks texts and splits them into sentences.

    Args:
        limits: the app's limits.
        source_language: default language code for splitting texts into sentences. None means the
            source language of the run, or "en".
    """

    limits: AppLimits
    source_language: str | None

    async def layout(self, run: "LoadedRun", work: "Work", asked: TextRequest) -> SentenceLayout:
        """Split a request's text into sentences. `run` will process them as `work` describes.

        Raises:
            RequestRefused: the text is empty, contains invalid characters or exceeds a limit.
        """
        (layout,) = await self.layouts(
            run, work, [asked.text], asked.source_language, asked.long_sentences
        )
        if not layout.sentences:
            raise RequestRefused(422, "empty_text", "`text` is empty.")
        return layout

    async def layouts(
        self,
        run: "LoadedRun",
        work: "Work",
        texts: Sequence[str],
        language: str | None = None,
        long_sentences: LongSentences = "refuse",
    ) -> list[SentenceLayout]:
        """Split several texts into sentences; see `TextRequest` for the last arguments.

        Raises:
            RequestRefused: a text contains invalid characters, or the texts exceed a limit.
        """
        self._check_texts(texts, self.limits.characters)
        # Run in a thread so that other requests can be answered at the same time.
        return await asyncio.to_thread(self._layouts, run, work, texts, language, long_sentences)

    async def check_documents(
        self, run: "LoadedRun", work: "Work", texts: Sequence[str], markup: MarkupKind
    ) -> None:
        """Refuse documents with markup that exceed a limit.

        Raises:
            RequestRefused: a document contains invalid characters or is not well-formed, or the
                documents exceed a limit.
        """
        self._check_texts(texts, self.limits.characters)
        await asyncio.to_thread(self._check_documents, run, work, texts, markup)

    def glossary(self, terms: Terms | None) -> Glossary | None:
        """Return the glossary of a request, or None if it has no terms.

        Raises:
            RequestRefused: a term is blank or contains invalid characters, or a limit is exceeded.
        """
        if not terms:
            return None
        targets = [
            target
            for given in terms.values()
            for target in ([given] if isinstance(given, str) else given)
        ]
        _check_plain([*terms, *targets])
        self._check_number(len(targets), "terms")
        size = sum(len(text.encode()) for text in (*terms, *targets))
        if size > self.limits.glossary_bytes:
            raise RequestRefused(
                413,
                "glossary_too_large",
                f"A glossary may have at most {self.limits.glossary_bytes:,} bytes. "
                f"Received: {size:,}",
            )
        try:
            return Glossary(terms)
        except UserInputError as error:
            raise invalid(f"`glossary` is invalid: {error}") from error

    async def check_pairs(self, run: "LoadedRun", pairs: Sequence[tuple[str, str]]) -> None:
        """Refuse source-target pairs that exceed a limit.

        Raises:
            RequestRefused: there are no pairs, a source is empty, or a limit is exceeded.
        """
        self._check_number(len(pairs), "pairs")
        texts = [text for pair in pairs for text in pair]
        self._check_texts(texts, 2 * self.limits.characters)
        if not pairs:
            raise RequestRefused(422, "empty_text", "`pairs` is empty.")
        if not all(source.strip() for source, _ in pairs):
            raise RequestRefused(422, "empty_text", "`source` is empty.")
        await asyncio.to_thread(
            _check_lengths, run, [source for source, _ in pairs], [text for _, text in pairs]
        )

    def _layouts(
        self,
        run: "LoadedRun",
        work: "Work",
        texts: Sequence[str],
        language: str | None,
        long_sentences: LongSentences,
    ) -> list[SentenceLayout]:
        language = language or self.source_language or run.source_language or "en"
        layouts = [SentenceLayout.of(text, language, work.keep or NONE) for text in texts]
        sources = [sentence.source for layout in layouts for sentence in layout.sentences]
        self._check_number(len(sources), "sentences")
        for index, source in enumerate(sources):
            self._check_terms(work, index, source)
        if long_sentences == "skip":
            return [
                dataclasses.replace(layout, too_long=_too_long_sentences(run, layout))
                for layout in layouts
            ]
        _check_lengths(run, sources)
        return layouts

    def _check_terms(self, work: "Work", index: int, sentence: str) -> None:
        found = work.glossary.find(sentence) if work.glossary else []
        number = sum(len(term.targets) for term in found)
        number += len(find_variables(sentence, work.keep or NONE))
        if number > self.limits.sentence_terms:
            raise RequestRefused(
                422,
                "too_many_terms",
                f"A sentence may have at most {self.limits.sentence_terms:,} targets of terms and "
                f"parts to keep. Received: {number:,} in sentence {index + 1:,}",
            )

    def _check_documents(
        self, run: "LoadedRun", work: "Work", texts: Sequence[str], markup: MarkupKind
    ) -> None:
        try:
            documents = [parse_markup(text, markup) for text in texts]
        except UserInputError as error:
            raise invalid(str(error)) from error
        segments = [segment.text for document in documents for segment in document.segments]
        # Sentences with many variables are divided.
        self._layouts(run, work._replace(keep=NONE), segments, None, "refuse")

    def _check_texts(self, texts: Sequence[str], most: int) -> None:
        _check_plain(texts)
        characters = sum(map(len, texts))
        if characters > most:
            raise RequestRefused(
                413,
                "too_many_characters",
                f"A request may have at most {most:,} characters. Received: {characters:,}",
            )

    def _check_number(self, number: int, what: Literal["sentences", "pairs", "terms"]) -> None:
        most = self.limits.terms if what == "terms" else self.limits.sentences
        if number > most:
            raise RequestRefused(
                413,
                f"too_many_{what}",
                f"A request may have at most {most:,} {what}. Received: {number:,}",
            )


def is_plain(text: str) -> bool:
    """Return whether a text contains only characters that libraries accept.

    Example:
        >>> is_plain("größe 🎉\\n"), is_plain("a\\0"), is_plain("\\ud83c")
        (True, False, False)
    """
    return "\0" not in text and not any("\ud800" <= one <= "\udfff" for one in text)


def _check_plain(texts: Iterable[str]) -> None:
    if not all(map(is_plain, texts)):
        raise invalid("A text must not have NUL characters or halves of surrogate pairs.")


def _too_long_sentences(run: "LoadedRun", layout: SentenceLayout) -> dict[int, RequestRefused]:
    refused = {}
    for index, sentence in enumerate(layout.sentences):
        try:
            run.check_lengths([sentence.source])
        except SentenceTooLong as error:
            refused[index] = too_long(error, index)
    return refused


def _check_lengths(run: "LoadedRun", sources: Sequence[str], targets: Sequence[str] = ()) -> None:
    try:
        run.check_lengths(sources, targets)
    except SentenceTooLong as error:
        raise too_long(error, error.index) from error
