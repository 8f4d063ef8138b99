"""The app's server: one process that listens until Ctrl-C."""

import asyncio
import contextlib
import functools
import resource
import socket
from collections.abc import Callable
from typing import Any, TypeAlias, cast

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from keras_transformer.errors import UserInputError
from keras_transformer.files import tell
from keras_transformer.toolkit.app import AppLimits
from keras_transformer.toolkit.app.request_guard import is_address

_SECONDS_TO_END = 2  # for answers in progress when the app ends
_ACCEPTED_AT_ONCE = 64  # connections, before `_Connections` counts them

_Client: TypeAlias = tuple[str, int] | None  # None if it has gone already


def bound_socket(host: str, port: int) -> socket.socket:
    """Make a listening socket before the runs are loaded; browsers wait until they are.

    Args:
        host: an address of this machine, or localhost.
        port: the port; 0 for any free port.

    Raises:
        UserInputError: the host is not this machine's, or the port cannot be used.
    """
    if host != "localhost" and not is_address(host):
        raise UserInputError(
            "`--host` must be an address of this machine, such as 127.0.0.1 or 0.0.0.0, or "
            f"localhost. Received: {host}"
        )
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = found[0]
        bound = socket.socket(family, kind, protocol)
    except OSError as error:
        raise UserInputError(f"`--host` {host} cannot be used: {error.strerror}") from error
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
        bound.listen()  # until then another process may bind the same port
    except OSError as error:
        bound.close()
        raise UserInputError(
            f"Port {port} of {host} cannot be used ({error.strerror}): choose another with "
            "`--port`, or 0 for any free port."
        ) from error
    return bound


def address_of(bound: socket.socket, host: str) -> str:
    """Return the address to open in a browser.

    Example:
        >>> with bound_socket("127.0.0.1", 0) as bound:
        ...     address_of(bound, "127.0.0.1") == f"http://127.0.0.1:{bound.getsockname()[1]}/"
        True
    """
    name = f"[{host}]" if ":" in host else host
    return f"http://{name}:{bound.getsockname()[1]}/"


def make_server(
    app: ASGIApp,
    limits: AppLimits,
    on_start: Callable[[], None],
    on_end: Callable[[], None],
) -> uvicorn.Server:
    """Make the server of an app.

    Args:
        app: the app.
        limits: the app's limits; the server keeps those of connections.
        on_start: called when the server listens.
        on_end: called when the server stops, before it waits for answers in progress.
    """
    connections = _Connections(app, limits)
    config = uvicorn.Config(
        connections,
        access_log=False,
        backlog=_ACCEPTED_AT_ONCE,
        date_header=False,
        http=cast(Any, functools.partial(_Connection, connections)),
        lifespan="off",
        log_config=None,  # warnings and errors go to stderr, one line each
        loop="asyncio",
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=_SECONDS_TO_END,
        ws="none",
    )
    return _Server(config, on_start, on_end)


def serve(server: uvicorn.Server, bound: socket.socket) -> None:
    """Answer requests at a socket until Ctrl-C or SIGTERM."""
    with contextlib.suppress(KeyboardInterrupt):  # raised again by the server when it has ended
        asyncio.run(server.serve(sockets=[bound]))


class _Connections:
    """The app, with an end for connections without a request; uvicorn waits for one without end.

    Requests name their connection by the client's address and port.
    """

    def __init__(self, app: ASGIApp, limits: AppLimits) -> None:
        self._app = app
        self._limits = limits
        self._open: dict[_Client, asyncio.Transport] = {}
        self._silent: dict[_Client, asyncio.TimerHandle] = {}  # the longest silence first
        self._has_told = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._end_silence(scope["client"])
        try:
            await self._app(scope, receive, send)
        finally:
            self._begin_silence(scope["client"])

    def opened(self, client: _Client, transport: asyncio.Transport) -> None:
        """Count a connection; if there are too many, end the one that is silent for longest."""
        self._open[client] = transport
        self._begin_silence(client)
        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        most = min(self._limits.connections, max(1, files // 4))
        still_open = {name for name, other in self._open.items() if not other.is_closing()}
        if len(still_open) > most:
            if not self._has_told:
                self._has_told = True
                tell(f"warning: {most} connections are open: the oldest without a request end.")
            self._open[next(name for name in self._silent if name in still_open)].abort()

    def closed(self, client: _Client) -> None:
        """Forget a connection."""
        self._end_silence(client)
        self._open.pop(client, None)

    def _begin_silence(self, client: _Client) -> None:
        self._end_silence(client)
        if client in self._open:
            loop, seconds = asyncio.get_running_loop(), self._limits.header_seconds
            self._silent[client] = loop.call_later(seconds, self._open[client].close)

    def _end_silence(self, client: _Client) -> None:
        if timer := self._silent.pop(client, None):
            timer.cancel()


class _Connection(H11Protocol):
    """A connection that is counted; it overrides only methods of `asyncio.Protocol`."""

    def __init__(self, counted: _Connections, **options: Any) -> None:
        super().__init__(**options)
        self._counted = counted
        self._name: _Client = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        peer = transport.get_extra_info("peername")
        self._name = peer and peer[:2]
        self._counted.opened(self._name, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._counted.closed(self._name)
        super().connection_lost(exc)


class _Server(uvicorn.Server):
    def __init__(
        self, config: uvicorn.Config, on_start: Callable[[], None], on_end: Callable[[], None]
    ) -> None:
        super().__init__(config)
        self._on_start = on_start
        self._on_end = on_end

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._on_start()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._on_end()
        await super().shutdown(sockets)
