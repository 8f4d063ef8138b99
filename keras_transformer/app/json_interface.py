"""The JSON interface: its endpoints, and the work that each gives to a run."""

import math
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Literal

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic import BaseModel

from keras_transformer.app import schemas
from keras_transformer.app.answers import Answers, ClientGone
from keras_transformer.app.app_limits import AppLimits
from keras_transformer.app.loaded_runs import Kind, LoadedRun, Work
from keras_transformer.app.request_errors import RequestRefused, shown
from keras_transformer.app.request_texts import RequestTexts, SentenceLayout
from keras_transformer.app.schemas import ParsingLine, TranslationLine
from keras_transformer.distribution import __version__
from keras_transformer.inference.parser import Parse
from keras_transformer.parsing import Leaf, Tree
from keras_transformer.parsing.tree import CLOSE, walk
from keras_transformer.search_options import SearchOptions
from keras_transformer.text.alignment import Alignment

PREFIX = "/api"
STREAM_TYPE = "application/x-ndjson"
STREAMS = ("/api/translate/stream", "/api/parse/stream")
_LINES = "Lines of JSON: `start`, a `sentence` for each sentence, and `end` or `error`"
_REFUSALS = {
    400: "The body is not JSON, or not UTF-8.",
    403: "The request comes from another site, or names a host that is not this app's.",
    404: "There is no such run.",
    408: "The body did not arrive in time.",
    413: "The text has too many characters or sentences, or the body has too many bytes.",
    415: "The body's type is not JSON.",
    422: "A field is missing, unknown or wrong, or a sentence has too many tokens.",
    500: "The app has failed.",
    503: "Too many requests are waiting; `Retry-After` says for how many seconds.",
}


class JsonInterface:
    """The endpoints under `/api`.

    Args:
        runs: the runs; the first one answers requests that name no run.
        limits: the app's limits.
        source_language: code of the language whose rules split texts if a request gives none. None
            means the run's own language, or "en".
    """

    def __init__(
        self, runs: Sequence[LoadedRun], limits: AppLimits, source_language: str | None
    ) -> None:
        self._runs = {run.name: run for run in runs}
        self._limits = limits
        self._texts = RequestTexts(limits, source_language)

    def router(self) -> APIRouter:
        """Return the routes of the endpoints."""
        router = APIRouter(prefix=PREFIX)
        refusals: dict[int | str, dict[str, Any]] = {
            status: {"model": schemas.ErrorAnswer, "description": text}
            for status, text in _REFUSALS.items()
        }
        router.add_api_route(
            "/runs", self.runs, summary="Runs and limits", response_description="Answer"
        )
        endpoints: tuple[tuple[str, Callable[..., Any], str, Any], ...] = (
            ("/translate", self.translate, "Translate a text", None),
            ("/translate/stream", self.translate_stream, "The same as a stream", TranslationLine),
            ("/align", self.align, "Align words", None),
            ("/attention", self.attention, "Attention of a pair", None),
            ("/parse", self.parse, "Parse a text", None),
            ("/parse/stream", self.parse_stream, "The same as a stream", ParsingLine),
        )
        for path, endpoint, summary, line in endpoints:
            stream: dict[int | str, Any] = (
                {200: {"model": line, "description": _LINES}} if line else {}
            )
            router.add_api_route(
                path,
                endpoint,
                methods=["POST"],
                summary=summary,
                response_class=StreamingResponse if line else JSONResponse,
                response_description="Answer",
                responses={**stream, **refusals},
            )
        return router

    async def runs(self) -> schemas.Runs:
        """The runs that the app has loaded, and the limits of a request."""
        return schemas.Runs(
            runs=[_described(run) for run in self._runs.values()],
            limits=schemas.Limits(
                characters=self._limits.characters,
                sentences=self._limits.sentences,
                tokens=self._limits.tokens,
            ),
            version=__version__,
        )

    async def translate(
        self, request: Request, asked: schemas.TranslateRequest
    ) -> schemas.TranslateAnswer:
        """The whole translated text at once. Line breaks and blank lines are kept."""
        run, layout, answers = await self._translation(request, asked)
        found = await answers.all()
        return schemas.TranslateAnswer(
            run=run.name,
            text=layout.text(
                sentence.source if isinstance(one, RequestRefused) else one[0][0]
                for sentence, one in zip(layout.sentences, found, strict=True)
            ),
            sentences=[
                schemas.TranslatedSentence(**sentence._asdict(), translations=[], **one.body())
                if isinstance(one, RequestRefused)
                else schemas.TranslatedSentence(
                    **sentence._asdict(), translations=translations(one)
                )
                for sentence, one in zip(layout.sentences, found, strict=True)
            ],
        )

    async def translate_stream(
        self, request: Request, asked: schemas.TranslateRequest
    ) -> StreamingResponse:
        """Lines of JSON: the sentences of the text, then the translations of each sentence as soon
        as they are found, and finally whether the answer is complete. Closing the connection stops
        the work.
        """
        run, layout, answers = await self._translation(request, asked)

        def line(index: int, found: Any) -> schemas.StreamTranslation:
            return schemas.StreamTranslation(index=index, translations=translations(found))

        return _stream(run, layout, answers, line)

    async def parse(self, request: Request, asked: schemas.ParseRequest) -> schemas.ParseAnswer:
        """The trees of all sentences at once."""
        run, layout, answers = await self._parsing(request, asked)
        found = await answers.all()
        return schemas.ParseAnswer(
            run=run.name,
            sentences=[
                schemas.ParsedSentence(
                    **sentence._asdict(), tree="", nodes=[], score=None, **one.body()
                )
                if isinstance(one, RequestRefused)
                else schemas.ParsedSentence(**sentence._asdict(), **sentence_tree(one).model_dump())
                for sentence, one in zip(layout.sentences, found, strict=True)
            ],
        )

    async def parse_stream(
        self, request: Request, asked: schemas.ParseRequest
    ) -> StreamingResponse:
        """Lines of JSON: the sentences of the text, then the tree of each sentence as soon as it is
        found, and finally whether the answer is complete. Closing the connection stops the work.
        """
        run, layout, answers = await self._parsing(request, asked)

        def line(index: int, found: Any) -> schemas.StreamTree:
            return schemas.StreamTree(index=index, **sentence_tree(found).model_dump())

        return _stream(run, layout, answers, line)

    async def align(self, request: Request, asked: schemas.AlignRequest) -> schemas.AlignAnswer:
        """The alignment of words in sentences and their translations, by the model's
        cross-attention. The model was not trained to align: take the result as a hint.
        """
        run = self._run_for(asked.run, "translation")
        pairs = [(pair.source, pair.target) for pair in asked.pairs]
        await self._texts.check_pairs(run, pairs)
        work = _pair_work("align", run, asked.target_language)
        found = await Answers(request, run, work, pairs).all()
        alignments = [
            word_alignment(alignment, *pair) for alignment, pair in zip(found, pairs, strict=True)
        ]
        return schemas.AlignAnswer(run=run.name, alignments=alignments)

    async def attention(
        self, request: Request, asked: schemas.AttentionRequest
    ) -> schemas.AttentionAnswer:
        """The attention weights of every layer and head, for one sentence and its translation."""
        run = self._run_for(asked.run, "translation")
        await self._texts.check_pairs(run, [(asked.source, asked.target or "")])
        work = _pair_work("attention", run, asked.target_language)
        (found,) = await Answers(request, run, work, [(asked.source, asked.target)]).all()
        return schemas.AttentionAnswer(**found)

    async def _translation(
        self, request: Request, asked: schemas.TranslateRequest
    ) -> tuple[LoadedRun, SentenceLayout, Answers]:
        run = self._run_for(asked.run, "translation")
        options = _search(run, asked.search)
        if asked.n_best > options.beam_size:
            raise RequestRefused(
                422,
                "invalid_request",
                "`n_best` must be at most the beam size. "
                f"Received: n_best={asked.n_best}, beam_size={options.beam_size}",
            )
        work = Work("translate", options, asked.n_best, _target(run, asked.target_language))
        return run, *await self._answered(request, run, work, asked)

    async def _parsing(
        self, request: Request, asked: schemas.ParseRequest
    ) -> tuple[LoadedRun, SentenceLayout, Answers]:
        run = self._run_for(asked.run, "parsing")
        work = Work("parse", _search(run, asked.search))
        return run, *await self._answered(request, run, work, asked)

    async def _answered(
        self,
        request: Request,
        run: LoadedRun,
        work: Work,
        asked: schemas.TranslateRequest | schemas.ParseRequest,
    ) -> tuple[SentenceLayout, Answers]:
        skips = asked.long_sentences == "skip"
        layout = await self._texts.layout(run, asked.text, asked.source_language, skips)
        sources = [sentence.source for sentence in layout.sentences]
        return layout, Answers(request, run, work, sources, layout.too_long)

    def _run_for(self, name: str | None, kind: Kind) -> LoadedRun:
        """Return the run that a request names, or the first run of this kind."""
        of_kind = [run for run in self._runs.values() if run.kind == kind]
        if name is None and of_kind:
            return of_kind[0]
        if name is not None and name not in self._runs:
            known = ", ".join(self._runs)
            raise RequestRefused(
                404, "unknown_run", f"There is no run {shown(name)}. There are: {known}"
            )
        run = self._runs[name] if name is not None else None
        if run is None or run.kind != kind:
            what = "No run" if run is None else f"The run {shown(name)} is for {run.kind}: it"
            raise RequestRefused(422, "wrong_kind", f"{what} does not do {kind}.")
        return run


def _search(run: LoadedRun, given: schemas.Search) -> SearchOptions:
    try:
        return run.search(given.model_dump(exclude_none=True))
    except ValueError as error:
        raise RequestRefused(422, "invalid_request", str(error)) from error


def _pair_work(task: Literal["align", "attention"], run: LoadedRun, language: str | None) -> Work:
    return Work(task, run.search_options, target_language=_target(run, language))


def _target(run: LoadedRun, language: str | None) -> str | None:
    """Check the language to translate into; if it is None, the text tells a multilingual model."""
    if language is not None and language not in run.target_languages:
        known = ", ".join(run.target_languages) or "none: it has one target language"
        raise RequestRefused(
            422,
            "invalid_request",
            f"`target_language` must be one of the run's. Received: {shown(language)}. "
            f"There are: {known}",
        )
    return language


def _described(run: LoadedRun) -> schemas.Run:
    own = run.search_options
    return schemas.Run(
        name=run.name,
        kind=run.kind,
        source_language=run.source_language,
        target_language=run.target_language,
        target_languages=list(run.target_languages),
        examples=list(run.examples),
        search=schemas.RunSearch(
            **{name: getattr(own, name) for name in schemas.RunSearch.model_fields}
        ),
        most_beam_size=run.most("beam_size"),
        most_extra_length=run.most("extra_length"),
    )


def _stream(
    run: LoadedRun,
    layout: SentenceLayout,
    answers: Answers,
    line: Callable[[int, Any], BaseModel],
) -> StreamingResponse:
    """Return an answer in lines; `line` makes a line from an index and a result."""

    async def events() -> AsyncIterator[BaseModel]:
        sentences = [schemas.SourceSentence(**one._asdict()) for one in layout.sentences]
        yield schemas.StreamStart(run=run.name, sentences=sentences, after=layout.after)
        index = 0
        try:
            async for found in answers:
                if isinstance(found, RequestRefused):
                    yield schemas.StreamRefusal(index=index, **found.body())
                else:
                    yield line(index, found)
                index += 1
        except ClientGone:
            return
        except RequestRefused as error:
            yield schemas.StreamError(**error.body())
        else:
            yield schemas.StreamEnd()

    async def lines() -> AsyncIterator[str]:
        async for event in events():
            yield event.model_dump_json() + "\n"

    # A proxy that buffers the answer would hold back its first sentences.
    return StreamingResponse(lines(), media_type=STREAM_TYPE, headers={"X-Accel-Buffering": "no"})


def translations(found: Sequence[tuple[str, float]]) -> list[schemas.Translation]:
    """Return the n best translations of a sentence."""
    return [schemas.Translation(text=text, score=score) for text, score in found]


def sentence_tree(parse: Parse) -> schemas.SentenceTree:
    """Return the tree of a sentence, in brackets and phrase by phrase.

    Example:
        >>> found = sentence_tree(Parse(Tree.fromstring("(S (NP (XX It)) (XX .))"), -0.5, 0))
        >>> found.tree
        '(S (NP (XX It)) (XX .))'
        >>> [(node.parent, node.label, node.word) for node in found.nodes]
        [(None, 'S', None), (0, 'NP', None), (1, 'XX', 'It'), (0, 'XX', '.')]
    """
    score = parse.score if math.isfinite(parse.score) else None
    tree = "" if parse.tree is None else str(parse.tree)
    return schemas.SentenceTree(tree=tree, nodes=_nodes(parse.tree), score=score)


def _nodes(tree: Tree | None) -> list[schemas.TreeNode]:
    nodes: list[schemas.TreeNode] = []
    inside: list[int] = []  # the phrases that are open
    for event in () if tree is None else walk(tree):
        if event is CLOSE:
            inside.pop()
            continue
        parent = inside[-1] if inside else None
        if isinstance(event, Leaf):
            nodes.append(schemas.TreeNode(parent=parent, label=event.tag, word=event.word))
        else:
            inside.append(len(nodes))
            nodes.append(schemas.TreeNode(parent=parent, label=event.label, word=None))
    return nodes


def word_alignment(alignment: Alignment, source: str, target: str) -> schemas.WordAlignment:
    """Return the aligned words, spelled as in the texts if the tokenizer finds equally many words.

    Example:
        >>> import numpy as np
        >>> weights = np.array([[0.1, 0.7, 0.2], [0.6, 0.3, 0.1]])
        >>> alignment = Alignment(["▁ja", "▁nein", "</s>"], ["▁no", "▁yes"], weights)
        >>> found = word_alignment(alignment, "Ja  nein", "no yes")
        >>> found.source_words, found.pairs
        (['Ja', 'nein'], [(0, 1), (1, 0)])
    """
    source_words, target_words = alignment.words()
    return schemas.WordAlignment(
        source_words=_spelled(source_words, source),
        target_words=_spelled(target_words, target),
        pairs=alignment.word_pairs(),
    )


def _spelled(words: Sequence[str], text: str) -> list[str]:
    """Return the words of a text, with a language tag in front if the pieces have one."""
    spelled = text.split()
    tags = [word for word in words[:1] if word.startswith(">>") and spelled[:1] != [word]]
    return [*tags, *spelled] if len(words) == len(tags) + len(spelled) else list(words)
