"""The web app's JSON interface and pages."""

import html
import math
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.staticfiles import StaticFiles

from keras_transformer import inference
from keras_transformer.argument_checks import check_positive_int
from keras_transformer.formats.page import LOOK
from keras_transformer.inference.parser import Parse
from keras_transformer.installation import __version__
from keras_transformer.parsing import Leaf, Tree
from keras_transformer.parsing.tree import CLOSE, walk
from keras_transformer.search_options import OPTIONS, SearchOptions
from keras_transformer.text.alignment import Alignment
from keras_transformer.toolkit.app import TITLE, AppLimits, schemas
from keras_transformer.toolkit.app.computed_items import FAILED, ClientGone, computed
from keras_transformer.toolkit.app.libretranslate import LibreTranslateInterface
from keras_transformer.toolkit.app.loaded_runs import Kind, LoadedRun, Work
from keras_transformer.toolkit.app.request_guard import (
    RequestGuard,
    RequestRefused,
    invalid,
    shown,
)
from keras_transformer.toolkit.app.schemas import (
    LEAST,
    ParsingLine,
    RequestTexts,
    SentenceLayout,
    TranslationLine,
)
from keras_transformer.types import MarkupKind

_Sentence = TypeVar("_Sentence", schemas.TranslatedSentence, schemas.ParsedSentence)


PREFIX = "/api"
STREAM_TYPE = "application/x-ndjson"
STREAMS = ("/api/translate/stream", "/api/parse/stream")
_LINES = "Lines of JSON: `start`, a `sentence` for each sentence, and `end` or `error`"
_REFUSALS = {
    400: "The body is not JSON, is not UTF-8, or has two lengths; or the HTTP version is unknown.",
    403: "The request comes from another site, or names a host that does not belong to this app.",
    404: "There is no such run.",
    408: "The body did not arrive in time.",
    413: "The text has too many characters or sentences, or the body has too many bytes.",
    415: "The type of the body is not JSON.",
    422: "A field is missing, unknown or invalid, or a sentence has too many tokens.",
    500: "The app has failed.",
    503: "Too many requests are waiting; `Retry-After` gives the number of seconds to wait.",
}


class JsonInterface:
    """Endpoints under `/api`.

    Args:
        runs: loaded runs. Requests without a run name use the first run of the required kind.
        texts: object that checks texts against the app's limits and splits them.
    """

    def __init__(self, runs: Sequence[LoadedRun], texts: RequestTexts) -> None:
        self._runs = {run.name: run for run in runs}
        self._texts = texts

    def router(self) -> APIRouter:
        """Return a router with all endpoints."""
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
            ("/translate/stream", self.translate_stream, "Translate as a stream", TranslationLine),
            ("/align", self.align, "Align words", None),
            ("/attention", self.attention, "Attention of a pair", None),
            ("/parse", self.parse, "Parse a text", None),
            ("/parse/stream", self.parse_stream, "Parse as a stream", ParsingLine),
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
        """List the loaded runs and the request limits."""
        return schemas.Runs(
            runs=[_described(run) for run in self._runs.values()],
            limits=schemas.Limits.model_validate(self._texts.limits, from_attributes=True),
            version=__version__,
        )

    async def translate(
        self, request: Request, asked: schemas.TranslateTextRequest
    ) -> schemas.TranslateAnswer:
        """Translate a text. Line breaks and blank lines are preserved. With `markup`, translate the
        text of a document.
        """
        if asked.markup is not None:
            return await self._translate_document(request, asked, asked.markup)
        run, layout, results = await self._results(request, asked)
        sentences = await _sentences(schemas.TranslatedSentence, layout, results, _translations)
        best = (one.translations[0].text if one.translations else one.source for one in sentences)
        return schemas.TranslateAnswer(run=run.name, text=layout.text(best), sentences=sentences)

    async def translate_stream(
        self, request: Request, asked: schemas.TranslateRequest
    ) -> StreamingResponse:
        """Stream lines of JSON: first the sentences of the text, then the translations of each
        sentence as soon as they are available, and finally a completion status. Closing the
        connection cancels the request.
        """
        run, layout, results = await self._results(request, asked)
        return _stream(run, layout, results, schemas.StreamTranslation, _translations)

    async def parse(self, request: Request, asked: schemas.ParseRequest) -> schemas.ParseAnswer:
        """Return the trees of all sentences."""
        run, layout, results = await self._results(request, asked)
        sentences = await _sentences(schemas.ParsedSentence, layout, results, _tree)
        return schemas.ParseAnswer(run=run.name, sentences=sentences)

    async def parse_stream(
        self, request: Request, asked: schemas.ParseRequest
    ) -> StreamingResponse:
        """Stream lines of JSON: first the sentences of the text, then the tree of each sentence as
        soon as it is available, and finally a completion status. Closing the connection cancels the
        request.
        """
        run, layout, results = await self._results(request, asked)
        return _stream(run, layout, results, schemas.StreamTree, _tree)

    async def align(self, request: Request, asked: schemas.AlignRequest) -> schemas.AlignAnswer:
        """Align the words of sentences and their translations using the model's cross-attention.
        The model was not trained to align words, so treat the result as a hint.
        """
        pairs = [(pair.source, pair.target) for pair in asked.pairs]
        run, found = await self._for_pairs(request, asked, "align", pairs)
        alignments = [
            word_alignment(alignment, *pair) for alignment, pair in zip(found, pairs, strict=True)
        ]
        return schemas.AlignAnswer(run=run.name, alignments=alignments)

    async def attention(
        self, request: Request, asked: schemas.AttentionRequest
    ) -> schemas.AttentionAnswer:
        """Return the attention weights of all layers and heads for a sentence pair."""
        pairs = [(asked.source, asked.target)]
        _, (found,) = await self._for_pairs(request, asked, "attention", pairs)
        return schemas.AttentionAnswer(**found)

    async def _for_pairs(
        self,
        request: Request,
        asked: schemas.AlignRequest | schemas.AttentionRequest,
        task: Literal["align", "attention"],
        pairs: Sequence[tuple[str, str | None]],
    ) -> tuple[LoadedRun, list[Any]]:
        run = self._run_for(asked.run, "translation")
        await self._texts.check_pairs(run, [(source, target or "") for source, target in pairs])
        language = _target(run, asked.target_language)
        work = Work(task, run.search_options, target_language=language)
        return run, [one async for one in computed(request, run, work, pairs)]

    async def _translate_document(
        self, request: Request, asked: schemas.TranslateTextRequest, markup: MarkupKind
    ) -> schemas.TranslateAnswer:
        for name, needed in (("n_best", 1), ("long_sentences", "refuse")):
            if getattr(asked, name) != needed:
                raise invalid(
                    f"With `markup`, `{name}` must be {needed}. Received: {getattr(asked, name)}"
                )
        run, work = self._translation_work(asked)
        await self._texts.check_documents(run, work, [asked.text], markup)
        work = work._replace(markup=markup)
        (text,) = [one async for one in computed(request, run, work, [asked.text])]
        return schemas.TranslateAnswer(run=run.name, text=text, sentences=[])

    def _translation_work(self, asked: schemas.TranslateRequest) -> tuple[LoadedRun, Work]:
        """Return the run and the computation of a translation request."""
        run = self._run_for(asked.run, "translation")
        options = _search(run, asked.search)
        if asked.n_best > options.beam_size:
            raise invalid(
                "`n_best` must be at most the beam size. "
                f"Received: n_best={asked.n_best}, beam_size={options.beam_size}"
            )
        return run, Work(
            "translate",
            options,
            asked.n_best,
            _target(run, asked.target_language),
            self._texts.glossary(asked.glossary),
            asked.keep,
        )

    async def _results(
        self, request: Request, asked: schemas.TextRequest
    ) -> tuple[LoadedRun, SentenceLayout, AsyncIterator[Any]]:
        """Return the run for a text, the sentences, and an iterator over their results."""
        if isinstance(asked, schemas.TranslateRequest):
            run, work = self._translation_work(asked)
        else:
            run = self._run_for(asked.run, "parsing")
            work = Work("parse", _search(run, asked.search))
        layout = await self._texts.layout(run, work, asked)
        sources = [sentence.source for sentence in layout.sentences]
        return run, layout, computed(request, run, work, sources, layout.too_long)

    def _run_for(self, name: str | None, kind: Kind) -> LoadedRun:
        """Return the run named in a request, or by default the first run of this kind."""
        if name is None:
            run = next((run for run in self._runs.values() if run.kind == kind), None)
        elif (run := self._runs.get(name)) is None:
            known = ", ".join(self._runs)
            raise RequestRefused(
                404, "unknown_run", f"There is no run {shown(name)}. There are: {known}"
            )
        if run is None or run.kind != kind:
            if run is None:
                fault = f"None of the runs supports {kind}."
            else:
                fault = f"The run {shown(name)} supports {run.kind}, not {kind}."
            raise RequestRefused(422, "wrong_kind", fault)
        return run


def _search(run: LoadedRun, given: schemas.Search) -> SearchOptions:
    try:
        return run.search(given.model_dump(exclude_none=True))
    except ValueError as error:
        raise invalid(str(error)) from error


def _target(run: LoadedRun, language: str | None) -> str | None:
    """Validate the target language. None leaves the choice to tags in the text."""
    if language is not None and language not in run.target_languages:
        known = ", ".join(run.target_languages) or "none: it has one target language"
        raise invalid(
            f"`target_language` must be one that the run supports. Received: {shown(language)}. "
            f"Supported: {known}"
        )
    return language


def _described(run: LoadedRun) -> schemas.Run:
    return schemas.Run(
        name=run.name,
        kind=run.kind,
        source_language=run.source_language,
        target_language=run.target_language,
        target_languages=list(run.target_languages),
        takes_terms=run.takes_terms,
        examples=list(run.examples),
        search=schemas.RunSearch.model_validate(run.search_options, from_attributes=True),
        most_beam_size=run.most("beam_size"),
        most_extra_length=run.most("extra_length"),
    )


async def _sentences(
    kind: Callable[..., _Sentence],
    layout: SentenceLayout,
    results: AsyncIterator[Any],
    fields: Callable[[Any], dict[str, Any]],
) -> list[_Sentence]:
    """Return all sentences with their results or the reasons for skipping them.

    `fields` converts a result to fields; the result of a skipped sentence is None.
    """
    found = [one async for one in results]
    return [
        kind(**dict(sentence), **fields(None), **one.body())
        if isinstance(one, RequestRefused)
        else kind(**dict(sentence), **fields(one))
        for sentence, one in zip(layout.sentences, found, strict=True)
    ]


def _stream(
    run: LoadedRun,
    layout: SentenceLayout,
    results: AsyncIterator[Any],
    line: Callable[..., BaseModel],
    fields: Callable[[Any], dict[str, Any]],
) -> StreamingResponse:
    """Stream an answer as lines. Each line contains the index and fields of a result."""

    async def events() -> AsyncIterator[BaseModel]:
        sentences = list(layout.sentences)
        yield schemas.StreamStart(run=run.name, sentences=sentences, after=layout.after)
        index = 0
        try:
            async for found in results:
                if isinstance(found, RequestRefused):
                    yield schemas.StreamRefusal(index=index, **found.body())
                else:
                    yield line(index=index, **fields(found))
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

    # A buffering proxy would delay the first sentences.
    return StreamingResponse(lines(), media_type=STREAM_TYPE, headers={"X-Accel-Buffering": "no"})


def _translations(found: Sequence[tuple[str, float]] | None) -> dict[str, Any]:
    """Return the fields for the n best translations of a sentence."""
    return {"translations": [{"text": text, "score": score} for text, score in found or ()]}


def _tree(parse: Parse | None) -> dict[str, Any]:
    return dict(sentence_tree(parse or Parse(None, math.nan, 0)))


def sentence_tree(parse: Parse) -> schemas.SentenceTree:
    """Return a sentence's tree in bracket notation and as a list of phrases.

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
    inside: list[int] = []  # the open phrases
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
    """Return the aligned words, using the spelling of the texts if the word counts match.

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
    """Return the words of a text, preceded by a language tag if the pieces include one."""
    spelled = text.split()
    tags = [word for word in words[:1] if word.startswith(">>") and spelled[:1] != [word]]
    return [*tags, *spelled] if len(words) == len(tags) + len(spelled) else list(words)


PAGE = Path(__file__).with_name("page")
ATTENTION_PAGE = Path(inference.__file__).with_name("page")
_DESCRIPTION = (
    "Translates and parses texts with the runs that `keras-transformer app` was started with. "
    "If a request is refused, the answer is always "
    '`{"error": {"code": ..., "message": ...}}`.'
)
_CODES = {404: "not_found", 405: "method_not_allowed"}


def create_app(
    runs: Sequence[LoadedRun],
    *,
    limits: AppLimits | None = None,
    host: str = "127.0.0.1",
    names: Sequence[str] = (),
    source_language: str | None = None,
    title: str = TITLE,
    api_key: str | None = None,
) -> RequestGuard:
    """Create the app as an ASGI application, for uvicorn or another server.

    Args:
        runs: runs from `loaded_runs`.
        limits: request limits; None means the defaults of `AppLimits`.
        host: name or address to which the server is bound.
        names: additional host names to accept, such as the name of a reverse proxy.
        source_language: default language code for splitting texts into sentences. None means the
            source language of the run, or "en".
        title: page title.
        api_key: key that LibreTranslate's interface requires; None requires no key.
    """
    limits = limits or AppLimits()

    api = _Api(
        title=TITLE,
        version=__version__,
        description=_DESCRIPTION,
        docs_url=None,  # standard viewers load files from other sites
        redoc_url=None,
        openapi_url="/api/openapi.json",
    )
    _add_error_handlers(api)
    texts = RequestTexts(limits, source_language)
    api.include_router(JsonInterface(runs, texts).router())
    api.include_router(LibreTranslateInterface(runs, texts, api_key).router())
    _add_pages(api, title)
    return RequestGuard(api, limits, host, names)


class _Api(FastAPI):
    def openapi(self) -> dict[str, Any]:
        """Return the OpenAPI document, including the media type of the streams."""
        if self.openapi_schema is None:
            document = super().openapi()
            for path in STREAMS:
                answer = document["paths"][path]["post"]["responses"]["200"]
                answer["content"] = {STREAM_TYPE: answer["content"]["application/json"]}
        return super().openapi()


def _add_error_handlers(api: FastAPI) -> None:
    """Format all refusals in the same way, regardless of where they are raised."""

    async def refused(request: Request, error: Any) -> Response:
        return error.response(request.scope["path"])

    async def wrong_fields(request: Request, error: Any) -> Response:
        first = error.errors()[0]
        if first["type"] == "json_invalid":
            reason = f"The body is not JSON: {first['ctx']['error']}, character {first['loc'][1]}."
            return RequestRefused(400, "bad_json", reason).response()
        return invalid(_fault(first)).response()

    async def no_such_page(request: Request, error: Any) -> Response:
        code, message = _CODES.get(error.status_code, "bad_request"), str(error.detail)
        cause = error.__cause__  # if Python's JSON parser cannot read the body
        if isinstance(cause, UnicodeDecodeError):
            code, message = "not_utf8", f"The body must be UTF-8. Byte {cause.start} is not."
        elif isinstance(cause, (ValueError, RecursionError)):  # excessive digits or brackets
            code, message = "bad_json", f"The body cannot be read: {cause}."
        refusal = RequestRefused(error.status_code, code, message, error.headers)
        return refusal.response(request.scope["path"])

    async def failed(request: Request, error: Any) -> Response:  # then raised and logged
        return FAILED.response(request.scope["path"])

    async def unheard(request: Request, error: Any) -> Response:
        return Response(status_code=499)

    api.add_exception_handler(RequestRefused, refused)
    api.add_exception_handler(RequestValidationError, wrong_fields)
    api.add_exception_handler(HTTPException, no_such_page)
    api.add_exception_handler(ClientGone, unheard)
    api.add_exception_handler(Exception, failed)


def _fault(first: Mapping[str, Any]) -> str:
    """Describe an invalid request in one line."""
    place = ".".join(str(part) for part in first["loc"] if part != "body")
    name = f"`{place[:100]}`" if place else "The body"
    if first["type"] == "missing":
        return f"{name} is missing."
    if first["type"] == "extra_forbidden":
        return f"{name} is not a field of this request."
    return f"{name} is invalid: {first['msg']}. Received: {shown(first['input'])}"


def page_inputs() -> list[dict[str, Any]]:
    """Return the inputs for search options in the form used by `page/search_form.js`."""
    inputs = []
    for name, option in OPTIONS.items():
        if option.on_page is not None:
            found: dict[str, Any] = {"name": name, "max": option.most}
            if not option.choices:
                (found["min"],) = LEAST[option.check].values()
                found["step"] = 1 if option.check is check_positive_int else "any"
            own = {key: value for key, value in option.on_page._asdict().items() if value}
            inputs.append(found | own)
    return inputs


def _add_pages(api: FastAPI, title: str) -> None:
    """Add routes for the page and its files."""
    content = (PAGE / "index.html").read_text("utf-8").replace(TITLE, html.escape(title))

    async def page() -> Response:
        return HTMLResponse(content)

    async def options() -> Response:
        return JSONResponse(page_inputs())

    for path, answer in (
        ("/", page),
        ("/page/search_options.json", options),
    ):
        api.add_api_route(path, answer, methods=["GET", "HEAD"], include_in_schema=False)
    api.mount("/page", StaticFiles(directory=PAGE))
    api.mount("/attention", StaticFiles(directory=ATTENTION_PAGE))
    api.mount("/look", StaticFiles(directory=LOOK))
