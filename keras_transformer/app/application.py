"""The app: the JSON interface and the page, behind the guard."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse, Response
from starlette.exceptions import HTTPException
from starlette.staticfiles import StaticFiles

from keras_transformer import interpretation
from keras_transformer.app.answers import FAILED, ClientGone
from keras_transformer.app.app_limits import AppLimits
from keras_transformer.app.json_interface import STREAM_TYPE, STREAMS, JsonInterface
from keras_transformer.app.loaded_runs import LoadedRun
from keras_transformer.app.request_errors import RequestRefused, shown
from keras_transformer.app.request_guard import RequestGuard
from keras_transformer.app.schemas import LEAST
from keras_transformer.argument_checks import check_positive_int
from keras_transformer.distribution import __version__
from keras_transformer.search_options import OPTIONS

PAGE = Path(__file__).with_name("page")
ATTENTION_PAGE = Path(interpretation.__file__).with_name("attention_page")
ATTENTION_FILES = ("attention.css", "attention.js")
_DESCRIPTION = (
    "Translates and parses texts with the runs that `keras-transformer app` was started with. "
    "The answer to a refused request is always "
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
) -> RequestGuard:
    """Make the app as an ASGI application, for uvicorn or another server.

    Args:
        runs: the runs, from `loaded_runs`.
        limits: limits of a request; None means the defaults of `AppLimits`.
        host: the name or address that the server is bound to.
        names: additional hosts that requests may name, such as a reverse proxy's.
        source_language: code of the language whose rules split texts if a request gives none. None
            means the run's own language, or "en".
    """
    limits = limits or AppLimits()

    api = _Api(
        title="keras_transformer",
        version=__version__,
        description=_DESCRIPTION,
        docs_url=None,  # the usual viewers are loaded from other sites
        redoc_url=None,
        openapi_url="/api/openapi.json",
    )
    _add_error_handlers(api)
    api.include_router(JsonInterface(runs, limits, source_language).router())
    _add_pages(api)
    return RequestGuard(api, limits, host, names)


class _Api(FastAPI):
    def openapi(self) -> dict[str, Any]:
        """Return the OpenAPI document, with the media type of the streams."""
        if self.openapi_schema is None:
            document = super().openapi()
            for path in STREAMS:
                answer = document["paths"][path]["post"]["responses"]["200"]
                answer["content"] = {STREAM_TYPE: answer["content"]["application/json"]}
        return super().openapi()


def _add_error_handlers(api: FastAPI) -> None:
    """Give every refusal the same form of answer, whoever raises it."""

    async def refused(request: Request, error: Any) -> Response:
        return error.response()

    async def wrong_fields(request: Request, error: Any) -> Response:
        first = error.errors()[0]
        if first["type"] == "json_invalid":
            reason = f"The body is not JSON: {first['ctx']['error']}, character {first['loc'][1]}."
            return RequestRefused(400, "bad_json", reason).response()
        return RequestRefused(422, "invalid_request", _fault(first)).response()

    async def no_such_page(request: Request, error: Any) -> Response:
        code, message = _CODES.get(error.status_code, "bad_request"), str(error.detail)
        cause = error.__cause__  # for a body that Python's JSON parser cannot read
        if isinstance(cause, UnicodeDecodeError):
            code, message = "not_utf8", f"The body must be UTF-8. Byte {cause.start} is not."
        elif isinstance(cause, (ValueError, RecursionError)):  # endless numbers and brackets
            code, message = "bad_json", f"The body cannot be read: {cause}."
        return RequestRefused(error.status_code, code, message, error.headers).response()

    async def failed(request: Request, error: Any) -> Response:  # then raised and logged
        return FAILED.response()

    async def unheard(request: Request, error: Any) -> Response:
        return Response(status_code=499)

    api.add_exception_handler(RequestRefused, refused)
    api.add_exception_handler(RequestValidationError, wrong_fields)
    api.add_exception_handler(HTTPException, no_such_page)
    api.add_exception_handler(ClientGone, unheard)
    api.add_exception_handler(Exception, failed)


def _fault(first: Mapping[str, Any]) -> str:
    """Return the fault of a request in one line."""
    place = [str(part) for part in first["loc"] if part != "body"]
    name = f"`{'.'.join(place)}`" if place else "The body"
    if first["type"] == "missing":
        return f"{name} is missing."
    if first["type"] == "extra_forbidden":
        return f"{name[:100]} is not a field of this request."
    return f"{name} is wrong: {first['msg']}. Received: {shown(first['input'])}"


def page_inputs() -> list[dict[str, Any]]:
    """Return the inputs of the page for search options, as `page/search_form.js` reads them."""
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


def _add_pages(api: FastAPI) -> None:
    """Add what a browser opens: the page and its files."""

    async def page() -> Response:
        return FileResponse(PAGE / "index.html")

    async def attention_file(name: str) -> Response:
        if name not in ATTENTION_FILES:
            raise HTTPException(404)
        return FileResponse(ATTENTION_PAGE / name)

    async def options() -> Response:
        return JSONResponse(page_inputs())

    for path, answer in (
        ("/", page),
        ("/attention/{name}", attention_file),
        ("/page/search_options.json", options),
    ):
        api.add_api_route(path, answer, methods=["GET", "HEAD"], include_in_schema=False)
    api.mount("/page", StaticFiles(directory=PAGE))
