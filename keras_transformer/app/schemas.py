"""The JSON interface's requests and answers, from which its OpenAPI document is made."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from keras_transformer.runs.run_records import LANGUAGE_CODE

Text = Annotated[str, Field(description="The text, with one paragraph or several.")]
RunName = Annotated[
    str | None, Field(description="Name of a run, of `GET /api/runs`; by default the first one.")
]
Language = Annotated[
    str | None,
    Field(
        pattern=LANGUAGE_CODE,
        description="Language of the text, whose abbreviations do not end a sentence.",
    ),
]
TargetLanguage = Annotated[
    str | None,
    Field(description="Language to translate into, for a model of several; of `GET /api/runs`."),
]
LongSentences = Annotated[
    Literal["refuse", "skip"],
    Field(
        description="A sentence with too many tokens refuses the text, or is skipped: it has an "
        "`error` in the answer, and in a stream a line `refused`."
    ),
]
Score = Annotated[
    float, Field(description="Log-probability of its tokens, divided by the length penalty.")
]


class Request(BaseModel):
    """A request: other fields, and values of other types, are refused."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Search(Request):
    """Options of the search; each defaults to the run's own."""

    beam_size: int | None = Field(
        default=None, ge=1, description="Hypotheses of the search; 1 is greedy."
    )
    alpha: float | None = Field(default=None, ge=0, description="Exponent of the length penalty.")
    length_penalty: Literal["gnmt", "power"] | None = Field(
        default=None, description="What divides a score: ((5 + length) / 6)^alpha, or length^alpha."
    )
    ending: Literal["any", "transformers"] | None = Field(
        default=None,
        description="When a search ends: when no output can become better, or sooner, as in "
        "Hugging Face Transformers.",
    )
    extra_length: int | None = Field(
        default=None, ge=1, description="Most output tokens beyond the number of source tokens."
    )


class TranslateRequest(Request):
    """A text to translate."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"text": "One two three.\n\nFour five.", "n_best": 2}],
        }
    )
    text: Text
    run: RunName = None
    n_best: int = Field(
        default=1, ge=1, description="Translations of each sentence; at most `beam_size`."
    )
    search: Search = Search()
    target_language: TargetLanguage = None
    source_language: Language = None
    long_sentences: LongSentences = "refuse"


class ParseRequest(Request):
    """A text to parse; words and punctuation marks have spaces between them."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"text": "The dog barks ."}]})
    text: Text
    run: RunName = None
    search: Search = Search()
    source_language: Language = None
    long_sentences: LongSentences = "refuse"


class Pair(Request):
    """A sentence and its translation."""

    source: str = Field(description="The sentence.")
    target: str = Field(description="Its translation, by this model or not.")


class AlignRequest(Request):
    """Pairs whose words to align."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"pairs": [{"source": "one two", "target": "eins zwei"}]}]}
    )
    pairs: list[Pair] = Field(description="The pairs.")
    run: RunName = None
    target_language: TargetLanguage = None


class AttentionRequest(Request):
    """A sentence whose attention to show."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"source": "one two", "target": "eins zwei"}]}
    )
    source: str = Field(description="The sentence.")
    target: str | None = Field(
        default=None, description="Its translation; by default the model's own."
    )
    run: RunName = None
    target_language: TargetLanguage = None


class RunSearch(BaseModel):
    """Options of a run's own search."""

    beam_size: int
    alpha: float
    length_penalty: str
    ending: str
    extra_length: int


class Run(BaseModel):
    """A run that the app has loaded."""

    name: str = Field(description="The name by which requests ask for it.")
    kind: Literal["translation", "parsing"] = Field(description="What it does with a text.")
    source_language: str | None = Field(
        default=None, description="Code of the language that it reads, where the run names it."
    )
    target_language: str | None = Field(
        default=None, description="Code of the language that it writes, where the run names it."
    )
    target_languages: list[str] = Field(
        description="Codes for `target_language`; empty where the model has one target."
    )
    examples: list[str] = Field(
        default=[], description="Sentences to try, where the run names some."
    )
    search: RunSearch = Field(description="Its own search, which holds where none is given.")
    most_beam_size: int = Field(description="Largest `beam_size`.")
    most_extra_length: int = Field(description="Largest `extra_length`.")


class Limits(BaseModel):
    """What a request may hold."""

    characters: int = Field(description="Most characters of a text.")
    sentences: int = Field(description="Most sentences of a text, or pairs.")
    tokens: int = Field(
        description="Most tokens of a sentence, end of sentence counted. A translation may have "
        "`most_extra_length` more."
    )


class Runs(BaseModel):
    """The runs, in the order of the command line, and the limits of a request."""

    runs: list[Run]
    limits: Limits
    version: str = Field(description="Version of keras_transformer.")


class ErrorText(BaseModel):
    """What is wrong."""

    code: str = Field(description="In a word, for programs.", examples=["unknown_run"])
    message: str = Field(description="In a line, for people.")


class Translation(BaseModel):
    """A translation of a sentence."""

    text: str
    score: Score


class SourceSentence(BaseModel):
    """A sentence of a text."""

    source: str = Field(description="The sentence, without white space around it.")
    before: str = Field(description="The white space before it, such as a line break.")


class TranslatedSentence(SourceSentence):
    """A sentence and its translations."""

    translations: list[Translation] = Field(description="The best first; none if it was skipped.")
    error: ErrorText | None = Field(default=None, description="Why it was skipped, or null.")


class TranslateAnswer(BaseModel):
    """A translated text."""

    run: str
    text: str = Field(
        description="The best translations, with the white space of the source; a sentence that "
        "was skipped stands untranslated."
    )
    sentences: list[TranslatedSentence]


class TreeNode(BaseModel):
    """A phrase or a word of a tree."""

    parent: int | None = Field(description="Index of the phrase that it is in; null for the root.")
    label: str = Field(description="Label of the phrase, or tag of the word.")
    word: str | None = Field(description="The word; null for a phrase.")


class SentenceTree(BaseModel):
    """The tree of a sentence."""

    tree: str = Field(description="The tree in brackets.", examples=["(S (NP (XX It)) (XX .))"])
    nodes: list[TreeNode] = Field(description="Phrases before what is in them, left to right.")
    score: float | None = Field(description="As of a translation; null if no tree was found.")


class ParsedSentence(SourceSentence, SentenceTree):
    """A sentence and its tree, which is empty if the sentence was skipped."""

    error: ErrorText | None = Field(default=None, description="Why it was skipped, or null.")


class ParseAnswer(BaseModel):
    """The trees of a text."""

    run: str
    sentences: list[ParsedSentence]


class WordAlignment(BaseModel):
    """Which words belong together."""

    source_words: list[str]
    target_words: list[str]
    pairs: list[tuple[int, int]] = Field(
        description="Index of a source word, and of the target word that belongs to it."
    )


class AlignAnswer(BaseModel):
    """The alignments of pairs, in their order."""

    run: str
    alignments: list[WordAlignment]


class AttentionMap(BaseModel):
    """The weights of all layers and heads of a kind."""

    layers: int
    heads: int
    rows: int = Field(description="Tokens that look.")
    columns: int = Field(description="Tokens that are looked at.")
    weights: str = Field(
        description="Base64 of a byte for each weight, 255 times its square root, in this order "
        "of axes."
    )
    entropies: list[list[float]] = Field(description="Of each layer and head, in nats.")
    mean_distances: list[list[float]] = Field(description="Of each layer and head, in tokens.")


class AttentionAnswer(BaseModel):
    """The attention of a sentence and its translation."""

    source_tokens: list[str]
    target_tokens: list[str] = Field(description="What the decoder reads.")
    output_tokens: list[str] = Field(description="What each position of the decoder predicts.")
    maps: dict[Literal["encoder", "decoder", "cross"], AttentionMap]


class StreamStart(BaseModel):
    """The first line of a stream: the sentences that will follow."""

    event: Literal["start"] = "start"
    run: str
    sentences: list[SourceSentence]
    after: str = Field(description="The white space behind the last sentence.")


class StreamTranslation(BaseModel):
    """A line of a stream: the translations of a sentence."""

    event: Literal["sentence"] = "sentence"
    index: int = Field(description="Index of the sentence among those of the first line.")
    translations: list[Translation]


class StreamTree(SentenceTree):
    """A line of a stream: the tree of a sentence."""

    event: Literal["sentence"] = "sentence"
    index: int = Field(description="Index of the sentence among those of the first line.")


class ErrorAnswer(BaseModel):
    """A request was not answered."""

    error: ErrorText


class StreamRefusal(ErrorAnswer):
    """A line of a stream: a sentence that was skipped, and why."""

    event: Literal["refused"] = "refused"
    index: int = Field(description="Index of the sentence among those of the first line.")


class StreamError(ErrorAnswer):
    """The last line of a stream that broke off."""

    event: Literal["error"] = "error"


class StreamEnd(BaseModel):
    """The last line of a stream that is complete."""

    event: Literal["end"] = "end"


TranslationLine = StreamStart | StreamTranslation | StreamRefusal | StreamEnd | StreamError
ParsingLine = StreamStart | StreamTree | StreamRefusal | StreamEnd | StreamError
