"""The app's server: one process that listens until Ctrl-C."""

import asyncio
import contextlib
import functools
import resource
import socket
from collections.abc import Callable
from typing import Any, cast

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from keras_transformer.app.app_limits import AppLimits
from keras_transformer.app.request_guard import Application, is_address
from keras_transformer.errors import UserInputError
from keras_transformer.files.standard_streams import tell

_SECONDS_TO_END = 2  # for answers in progress when the app ends
_ACCEPTED_AT_ONCE = 64  # connections, before `_Connection` counts them


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
    app: Application,
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
    config = uvicorn.Config(
        app,
        access_log=False,
        backlog=_ACCEPTED_AT_ONCE,
        date_header=False,
        http=cast(Any, functools.partial(_Connection, limits)),
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


class _Connection(H11Protocol):
    """A connection that is closed if no request comes; uvicorn itself waits without end."""

    _has_told = False

    def __init__(self, limits: AppLimits, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._limits = limits

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._await_headers()
        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        most = min(self._limits.connections, max(1, files // 4))
        others = cast(set[_Connection], self.connections)
        still_open = [other for other in others if not other.transport.is_closing()]
        if len(still_open) > most:
            if not _Connection._has_told:
                _Connection._has_told = True
                tell(f"warning: {most} connections are open: the oldest without a request end.")
            silent = [other for other in still_open if other._awaits_headers]
            min(silent, key=lambda other: other._deadline.when()).transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._deadline.cancel()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        self._deadline.cancel()
        self._await_headers()
        super().on_response_complete()

    @property
    def _awaits_headers(self) -> bool:
        return self.conn.their_state is h11.IDLE

    def _await_headers(self) -> None:
        self._deadline = self.loop.call_later(self._limits.header_seconds, self._end_if_silent)

    def _end_if_silent(self) -> None:
        if self._awaits_headers:
            self.transport.close()


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
