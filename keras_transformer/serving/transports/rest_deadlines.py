"""Limits of a whole HTTP answer: the time limit of `requests` restarts with every byte."""

import http.client
import io
import socket
import time
from typing import Any

import requests

from keras_transformer.serving.serving_errors import MOST_ANSWER_BYTES, AnswerTooLarge


class DeadlineAdapter(requests.adapters.HTTPAdapter):
    """Applies the read timeout to head and body together, and limits their size.

    With `urllib3.Timeout(total=...)`, which subtracts the time of connecting and sending from the
    read timeout, this is a deadline for the request.
    """

    def get_connection_with_tls_context(self, *arguments: Any, **options: Any) -> Any:
        """The pool that a request takes its connection from."""
        pool = super().get_connection_with_tls_context(*arguments, **options)
        connection: Any = pool.ConnectionCls
        if not issubclass(connection.response_class, _Answer):
            kept = {"response_class": _Answer}
            pool.ConnectionCls = type("DeadlineConnection", (connection,), kept)
        return pool


class _Answer(http.client.HTTPResponse):
    """An answer that must be complete within the initial timeout of its socket."""

    def __init__(self, sock: socket.socket, *arguments: Any, **options: Any) -> None:
        super().__init__(sock, *arguments, **options)
        self.fp = io.BufferedReader(_Limited(self.fp.detach(), sock))


class _Limited(io.RawIOBase):
    """The bytes of a socket, whose timeout applies to all reads together.

    Everything counts, even what precedes the body, such as a head without an end.
    """

    def __init__(self, stream: io.RawIOBase, sock: socket.socket) -> None:
        self._stream, self._socket = stream, sock
        timeout = sock.gettimeout()
        assert timeout is not None  # `DeadlineAdapter` requests have one
        self._end = time.monotonic() + timeout
        self._num_bytes = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        left = self._end - time.monotonic()
        if left <= 0:
            raise TimeoutError("timed out")
        self._socket.settimeout(left)
        num_bytes = self._stream.readinto(buffer)
        self._num_bytes += num_bytes or 0
        if self._num_bytes > MOST_ANSWER_BYTES:
            raise AnswerTooLarge
        return num_bytes

    def close(self) -> None:
        self._stream.close()
        super().close()
