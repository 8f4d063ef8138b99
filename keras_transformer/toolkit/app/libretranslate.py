"""LibreTranslate's HTTP interface, for programs that were written for it."""

import hmac
import json
import urllib.parse
from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple, TypeVar

from fastapi import APIRouter, Request
from pydantic import BaseModel, ValidationError

from keras_transformer.toolkit.app.computed_items import computed
from keras_transformer.toolkit.app.language_names import language_name
from keras_transformer.toolkit.app.loaded_runs import LoadedRun, Work
from keras_transformer.toolkit.app.request_guard import JSON, RequestRefused, media_type, shown
from keras_transformer.toolkit.app.schemas import Keep, RequestTexts, SentenceLayout, Terms
from keras_transformer.types import AUTO, NONE

AUTO_SOURCE = "auto"
_MOST_FIELDS = 100
_TYPING_PAUSE = 500  # milliseconds; only LibreTranslate's own page uses it


class TranslateFields(BaseModel):
    """The fields of a translation request. `glossary` and `keep` are additions."""

    q: str | list[str]
    source: str
    target: str
    format: Literal["text", "html"] = "text"
    alternatives: int = 0
    glossary: Terms | None = None
    keep: Keep | None = None


class DetectFields(BaseModel):
    """The fields of a request for the language of a text."""

    q: str | list[str]


_Fields = TypeVar("_Fields", TranslateFields, DetectFields)


class Pair(NamedTuple):
    """A run with one of its target languages."""

    source: str
    target: str
    run: LoadedRun


class LibreTranslateInterface:
    """The endpoints that LibreTranslate's clients use.

    Args:
        runs: loaded runs. Only translation runs that specify their languages are offered.
        texts: object that checks texts against the app's limits and splits them.
        api_key: key that requests with a text must contain; None requires no key.

    Reference:
        https://docs.libretranslate.com/api
    """

    def __init__(
        self, runs: Sequence[LoadedRun], texts: RequestTexts, api_key: str | None = None
    ) -> None:
        self._runs = runs
        self._texts = texts
        self._key = api_key

    def router(self) -> APIRouter:
        """Return a router with all endpoints."""
        router = APIRouter(include_in_schema=False)
        router.add_api_route("/translate", self.translate, methods=["POST"])
        router.add_api_route("/detect", self.detect, methods=["POST"])
        router.add_api_route("/languages", self.languages)
        router.add_api_route("/frontend/settings", self.settings)
        router.add_api_route("/health", self.health)
        return router

    async def translate(self, request: Request) -> dict[str, Any]:
        """Translate a text or a list of texts."""
        asked = await self._fields(request, TranslateFields)
        pairs = self._pairs_for(asked.source, asked.target)
        run = pairs[0].run
        keep = asked.keep or (AUTO if run.takes_terms else NONE)
        number = min(max(asked.alternatives, 0) + 1, run.search_options.beam_size)
        work = Work(
            "translate",
            run.search_options,
            number,
            asked.target if run.target_languages else None,
            self._texts.glossary(asked.glossary),
            keep,
        )
        texts = [asked.q] if isinstance(asked.q, str) else asked.q
        if asked.format == "html":
            await self._texts.check_documents(run, work, texts, asked.format)
            work = work._replace(markup=asked.format)
            versions = [[text] async for text in computed(request, run, work, texts)]
        else:
            layouts = await self._texts.layouts(run, work, texts)
            sources = [sentence.source for layout in layouts for sentence in layout.sentences]
            found = iter([one async for one in computed(request, run, work, sources)])
            versions = [_versions(layout, found, number) for layout in layouts]
        answers: dict[str, list[Any]] = {
            "translatedText": [best for best, *_ in versions],
            "alternatives": [others for _, *others in versions],
            "detectedLanguage": _detected(pairs)[:1] * len(texts),
        }
        if asked.source != AUTO_SOURCE:
            del answers["detectedLanguage"]
        if asked.alternatives < 1:
            del answers["alternatives"]
        if isinstance(asked.q, list):
            return answers
        return {name: answer for name, (answer,) in answers.items()}

    async def detect(self, request: Request) -> list[dict[str, Any]]:
        """Return the source languages of the runs: the text is not examined."""
        await self._fields(request, DetectFields)
        return _detected(self._pairs())

    async def languages(self) -> list[dict[str, Any]]:
        """Return the languages of the runs."""
        pairs = self._pairs()
        codes = dict.fromkeys(code for pair in pairs for code in pair[:2])
        return [
            {
                **_named(code),
                "targets": [*dict.fromkeys(pair.target for pair in pairs if pair.source == code)],
            }
            for code in codes
        ]

    async def settings(self) -> dict[str, Any]:
        """Return what LibreTranslate's page asks for."""
        source, target, _ = self._pairs()[0]
        return {
            "charLimit": self._texts.limits.characters,
            "frontendTimeout": _TYPING_PAUSE,
            "apiKeys": self._key is not None,
            "keyRequired": self._key is not None,
            "suggestions": False,
            "filesTranslation": False,
            "supportedFilesFormat": [],
            "language": {"source": _named(source), "target": _named(target)},
        }

    async def health(self) -> dict[str, str]:
        """Return that the app is running."""
        return {"status": "ok"}

    async def _fields(self, request: Request, form: type[_Fields]) -> _Fields:
        """Return the fields of a request with a valid key."""
        given = _body(await request.body(), is_json=media_type(request.headers) == JSON)
        self._check_key(given.get("api_key"))
        try:
            # LibreTranslate treats null and an empty value like a missing field.
            return form.model_validate({name: one for name, one in given.items() if one})
        except ValidationError as error:
            raise _refused(_fault(error)) from error

    def _check_key(self, given: object) -> None:
        if self._key is None:
            return
        if not given:
            raise _refused("Please contact the server operator to get an API key")
        keys = [str(key).encode("utf-8", "surrogatepass") for key in (given, self._key)]
        if not hmac.compare_digest(*keys):
            raise RequestRefused(403, "wrong_key", "Invalid API key")

    def _pairs(self) -> list[Pair]:
        pairs = [
            Pair(run.source_language, target, run)
            for run in self._runs
            if run.kind == "translation" and run.source_language
            for target in run.target_languages or (run.target_language,)
            if target
        ]
        if not pairs:
            raise _refused("None of the translation runs specifies its languages.")
        return pairs

    def _pairs_for(self, source: str, target: str) -> list[Pair]:
        """Return the pairs that translate a language, "auto" for any, into another."""
        pairs = self._pairs()
        codes = {code for pair in pairs for code in pair[:2]}
        for code, known in ((source, {AUTO_SOURCE, *codes}), (target, codes)):
            if code not in known:
                raise _refused(f"{code[:80]} is not supported")
        found = [
            pair for pair in pairs if pair.target == target and source in (pair.source, AUTO_SOURCE)
        ]
        if not found:
            raise _refused(
                f"{language_name(target)} ({target}) is not available as a target language from "
                f"{language_name(source)} ({source})"
            )
        return found


def _versions(
    layout: SentenceLayout, found: Iterator[Sequence[tuple[str, float]]], number: int
) -> list[str]:
    """Return the best translation of a text, followed by up to `number - 1` others.

    Args:
        layout: the sentences of the text.
        found: iterator over the `(text, score)` pairs of each sentence, the best first.
        number: number of translations.
    """
    best = [next(found) for _ in layout.sentences]
    # A sentence with fewer translations keeps its best one.
    ranks = [
        [texts[rank if rank < len(texts) else 0][0] for texts in best] for rank in range(number)
    ]
    return [*dict.fromkeys(layout.text(texts) for texts in ranks)]


def _body(body: bytes, *, is_json: bool) -> dict[str, Any]:
    """Return the fields of a body."""
    try:
        if is_json:
            fields = json.loads(body)
        else:
            pairs = urllib.parse.parse_qsl(
                body.decode(), keep_blank_values=True, errors="strict", max_num_fields=_MOST_FIELDS
            )
            fields = dict(pairs)
            if fields.get("glossary"):
                fields["glossary"] = json.loads(fields["glossary"])
    except (ValueError, RecursionError) as error:
        raise _refused(f"The body cannot be read: {error}") from error
    if not isinstance(fields, dict):
        raise _refused("Invalid JSON format")
    return fields


def _fault(error: ValidationError) -> str:
    """Describe an invalid field in one line."""
    first = error.errors(include_url=False)[0]
    name = first["loc"][0]
    if first["type"] == "missing":
        return f"Invalid request: missing {name} parameter"
    fault = f"{first['msg']}. Received: {shown(first['input'])}"
    return f"Invalid request: {name} parameter is invalid: {fault}"


def _refused(message: str) -> RequestRefused:
    return RequestRefused(400, "invalid_request", message)


def _named(code: str) -> dict[str, str]:
    return {"code": code, "name": language_name(code)}


def _detected(pairs: Sequence[Pair]) -> list[dict[str, Any]]:
    """Return the source languages of the pairs, each as likely as the others."""
    codes = dict.fromkeys(pair.source for pair in pairs)
    return [{"confidence": round(100 / len(codes)), "language": code} for code in codes]
