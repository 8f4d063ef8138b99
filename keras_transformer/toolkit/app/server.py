"""The app's server, a single process that runs until Ctrl-C."""

import asyncio
import contextlib
import socket
from collections.abc import Callable

import uvicorn
from starlette.types import ASGIApp

from keras_transformer.errors import UserInputError
from keras_transformer.toolkit.app.request_guard import is_address

_SECONDS_TO_END = 2  # to finish answers when the app stops


def bound_socket(host: str, port: int) -> socket.socket:
    """Create a listening socket. Browsers can connect early and wait for the runs to load.

    Args:
        host: address of this machine, or localhost.
        port: port number; 0 selects any free port.

    Raises:
        UserInputError: the host is not an address of this machine, or the port is not available.
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
        # Per connection. By default, the system would buffer megabytes of responses for a client
        # that sends requests without reading the responses.
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2**16)
        bound.bind(address)
        bound.listen()  # until then, another process may bind the same port
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
    app: ASGIApp, on_start: Callable[[], None], on_end: Callable[[], None]
) -> uvicorn.Server:
    """Create a server for the app.

    Args:
        app: application to serve.
        on_start: callback invoked when the server starts listening.
        on_end: callback invoked when the server stops, before it waits for pending requests.
    """
    config = uvicorn.Config(
        app,
        access_log=False,
        date_header=False,
        http="h11",
        lifespan="off",
        log_config=None,  # errors are written to stderr
        log_level="error",  # a warning for every bad request would fill the log
        loop="asyncio",
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=_SECONDS_TO_END,
        ws="none",
    )
    return _Server(config, on_start, on_end)


def serve(server: uvicorn.Server, bound: socket.socket) -> None:
    """Answer requests on a socket until Ctrl-C or SIGTERM."""
    with contextlib.suppress(KeyboardInterrupt):  # the server raises it again after stopping
        asyncio.run(server.serve(sockets=[bound]))


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
