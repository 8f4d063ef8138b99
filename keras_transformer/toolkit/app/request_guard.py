"""Request refusals, and the guard that checks the hosts, origins and sizes of requests.

The guard also adds headers that prevent browsers from loading anything from other sites.
"""

import asyncio
import ipaddress
import json
import re
import socket
from collections.abc import Iterable
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from keras_transformer.errors import SentenceTooLong
from keras_transformer.toolkit.app import AppLimits

_MOST_SHOWN = 80  # maximum number of characters shown from a value
# Paths with the requests and errors of LibreTranslate's interface.
LIBRETRANSLATE = ("/translate", "/detect", "/languages", "/frontend/settings", "/health")
_INVALID = (408, 413, 415, 422)  # LibreTranslate responds with 400 instead
JSON, FORM = "application/json", "application/x-www-form-urlencoded"


class RequestRefused(Exception):
    """A request was refused. The message explains the reason.

    Args:
        status: HTTP status.
        code: machine-readable error code.
        message: one-line message for users.
        headers: additional response headers.
    """

    def __init__(
        self, status: int, code: str, message: str, headers: dict[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = " ".join(message.split())
        self.headers = headers or {}

    def body(self) -> dict[str, Any]:
        """Return the JSON body of the response.

        Example:
            >>> RequestRefused(404, "unknown_run", "There is no run\\n'x'.").body()
            {'error': {'code': 'unknown_run', 'message': "There is no run 'x'."}}
        """
        message = self.message.encode("utf-8", "replace").decode()  # may contain lone surrogates
        return {"error": {"code": self.code, "message": message}}

    def response(self, path: str = "") -> JSONResponse:
        """Return the response, in the form of the interface to which `path` belongs."""
        if path not in LIBRETRANSLATE:
            return JSONResponse(self.body(), self.status, self.headers)
        status = 400 if self.status in _INVALID else self.status
        if self.code == "busy":
            status = 429
        return JSONResponse({"error": self.body()["error"]["message"]}, status, self.headers)


def invalid(message: str) -> RequestRefused:
    """Return a refusal for a request with an invalid field."""
    return RequestRefused(422, "invalid_request", message)


def too_long(error: SentenceTooLong, index: int) -> RequestRefused:
    """Return a refusal for the sentence or translation at this index in a request."""
    what = "Target" if error.name == "targets" else "Sentence"
    return RequestRefused(422, "sentence_too_long", f"{what} {index + 1} {error.fault}")


def shown(value: object) -> str:
    """Return a shortened request value for messages.

    Example:
        >>> shown("\\ud800"), shown(True), shown(["a"]), len(shown("x" * 1000))
        ("'\\\\ud800'", 'true', 'a list', 83)
    """
    if isinstance(value, (dict, list)):  # may be very deeply nested
        return "an object" if isinstance(value, dict) else "a list"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    # Only the first characters are needed. A text may be as long as the entire body.
    text = repr(value[: _MOST_SHOWN + 1] if isinstance(value, str) else value)
    return text if len(text) <= _MOST_SHOWN + 2 else f"{text[:_MOST_SHOWN]}..."


HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
_LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")
_READING = ("GET", "HEAD")
_VERSIONS = ("1.0", "1.1", "2", "3")  # HTTP versions
# Programs disagree on other forms, such as `user@host`.
_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[\w.-]+)(:[0-9]*)?", re.ASCII | re.IGNORECASE)


class RequestGuard:
    """An ASGI application that forwards only requests that are safe to answer.

    Args:
        application: wrapped ASGI application.
        limits: the app's limits.
        host: address to which the app is bound. For a loopback address, requests must name a
            loopback host; otherwise, an IP address or this machine. This check blocks DNS
            rebinding, in which the host is the name of another site.
        names: additional host names to accept, such as the name of a reverse proxy.
    """

    def __init__(
        self, application: ASGIApp, limits: AppLimits, host: str, names: Iterable[str] = ()
    ) -> None:
        self._application = application
        self._limits = limits
        self._is_local = is_loopback(host)
        self._hosts = {*_LOOPBACK_NAMES, host, *(name.lower() for name in names)}
        if not self._is_local:
            self._hosts |= {socket.gethostname().lower(), socket.getfqdn().lower()}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return
        path = scope["path"]

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                # Browsers must revalidate the page's files each time.
                is_page = not path.startswith("/api") and path not in LIBRETRANSLATE
                caching = "no-cache" if is_page else "no-store"
                headers = MutableHeaders(scope=message)
                headers.update({**HEADERS, "Cache-Control": caching})
            await send(message)

        try:
            headers = Headers(scope=scope)
            self._check_host(headers)
            if scope.get("http_version", "1.1") not in _VERSIONS:
                raise RequestRefused(400, "bad_version", "The HTTP version is not supported.")
            _check_lengths(headers)
            if scope["method"] not in _READING:
                _check_origin(headers)
                body = await self._read_body(headers, receive)
                if body:
                    _check_type(headers, path)
                    if not json.detect_encoding(body).startswith("utf-8"):
                        raise RequestRefused(400, "not_utf8", "The body must be UTF-8.")
                receive = _replay(body, receive)
        except RequestRefused as error:
            response = error.response(path)
            response.headers["Connection"] = "close"  # an unread body may be endless
            await response(scope, receive, send_with_headers)
            return
        await self._application(scope, receive, send_with_headers)

    def _check_host(self, headers: Headers) -> None:
        host = headers.get("host", "")
        name = _host_name(host)
        if name in self._hosts or (not self._is_local and is_address(name)):
            return
        raise RequestRefused(
            403,
            "host_refused",
            f"This app does not accept requests for the host {host[:100]!r}. Use the address that "
            "it printed when it started.",
        )

    async def _read_body(self, headers: Headers, receive: Receive) -> bytes:
        """Read the entire body. Refuse a body that is too large or takes too long."""
        length = headers.get("content-length", "")
        self._check_size(int(length[:20]) if length.isdecimal() else 0)
        body, is_complete = bytearray(), False
        try:
            async with asyncio.timeout(self._limits.body_seconds):
                while not is_complete:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise RequestRefused(400, "disconnected", "The body is incomplete.")
                    body += message.get("body", b"")
                    self._check_size(len(body))
                    is_complete = not message.get("more_body", False)
        except TimeoutError as error:
            seconds = self._limits.body_seconds
            raise RequestRefused(
                408, "too_slow", f"The body did not arrive within {seconds} seconds."
            ) from error
        return bytes(body)

    def _check_size(self, size: int) -> None:
        most = self._limits.body_bytes
        if size > most:
            raise RequestRefused(
                413, "body_too_large", f"A request may have at most {most:,} bytes."
            )


def is_loopback(host: str) -> bool:
    """Return whether a host is a loopback address, which other machines cannot reach.

    Example:
        >>> [is_loopback(host) for host in ("localhost", "127.0.0.2", "::1", "0.0.0.0", "a.b")]
        [True, True, True, False, False]
    """
    is_local_address = is_address(host) and ipaddress.ip_address(host).is_loopback
    return is_local_address or host.lower() == "localhost"


def is_address(name: str) -> bool:
    """Return whether a name is an IP address.

    Example:
        >>> [is_address(name) for name in ("0.0.0.0", "::1", "0", "localhost")]
        [True, True, False, False]
    """
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _host_name(host: str) -> str:
    """Return the name in a `Host` header without the port, or "" if the header is malformed.

    Example:
        >>> [_host_name(host) for host in ("[::1]:80", "Localhost.", "a@localhost", "a b")]
        ['::1', 'localhost', '', '']
    """
    found = _HOST.fullmatch(host)
    return found[1].strip("[]").rstrip(".").lower() if found else ""


def _check_lengths(headers: Headers) -> None:
    """Refuse requests whose length a proxy may interpret differently."""
    if {"content-length", "transfer-encoding"} <= set(headers):
        raise RequestRefused(
            400, "two_lengths", "A request must not have `Content-Length` and `Transfer-Encoding`."
        )


def _check_origin(headers: Headers) -> None:
    """Refuse requests from pages on other sites."""
    site = headers.get("sec-fetch-site", "none")
    origin = headers.get("origin")
    host = headers.get("host", "").lower()
    is_own = origin is None or origin.lower() in (f"http://{host}", f"https://{host}")
    if not is_own or site not in ("same-origin", "none"):
        raise RequestRefused(
            403, "cross_origin", "Pages of other sites must not use this app from a browser."
        )


def _check_type(headers: Headers, path: str) -> None:
    """Refuse other types than JSON and, in LibreTranslate's interface, encoded forms."""
    if media_type(headers) != JSON and path not in LIBRETRANSLATE:
        raise RequestRefused(
            415, "not_json", f"The body must be JSON, with the header `Content-Type: {JSON}`."
        )
    if media_type(headers) not in (JSON, FORM):
        raise RequestRefused(
            415, "not_json", f"The `Content-Type` of the body must be `{JSON}` or `{FORM}`."
        )


def media_type(headers: Headers) -> str:
    """Return the media type of a body, without parameters."""
    return headers.get("content-type", "").partition(";")[0].strip().lower()


def _replay(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` function that replays a body and then continues with new messages."""
    messages = iter([{"type": "http.request", "body": body, "more_body": False}])

    async def replayed() -> Message:
        return next(messages, None) or await receive()

    return replayed
