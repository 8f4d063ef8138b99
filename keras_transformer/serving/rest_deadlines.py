"""Limits of a whole HTTP answer: the time limit of `requests` begins anew with every byte."""

import http.client
import io
import time

import requests

from keras_transformer.serving.serving_errors import MOST_ANSWER_BYTES, AnswerTooLarge


class DeadlineAdapter(requests.adapters.HTTPAdapter):
    """Reads answers whose read timeout is that of head and body together, and their size too.

    With `urllib3.Timeout(total=...)`, which takes from the read timeout what connecting and sending
    took, this is a deadline of the request.
    """

    def get_connection_with_tls_context(self, *arguments, **options):
        """The pool of connections that a request takes one of."""
        pool = super().get_connection_with_tls_context(*arguments, **options)
        if not issubclass(pool.ConnectionCls.response_class, _Answer):
            kept = {"response_class": _Answer}
            pool.ConnectionCls = type("DeadlineConnection", (pool.ConnectionCls,), kept)
        return pool


class _Answer(http.client.HTTPResponse):
    """An answer that must be whole within the timeout which its socket has at its beginning."""

    def __init__(self, sock, *arguments, **options):
        super().__init__(sock, *arguments, **options)
        self.fp = io.BufferedReader(_Limited(self.fp.detach(), sock))


class _Limited(io.RawIOBase):
    """The bytes of a socket, whose timeout is that of all readings together.

    Everything counts, also what is no part of the body, such as a head without an end.
    """

    def __init__(self, stream, sock):
        self._stream, self._socket = stream, sock
        self._end = time.monotonic() + sock.gettimeout()
        self._num_bytes = 0

    def readable(self):
        return True

    def readinto(self, buffer):
        left = self._end - time.monotonic()
        if left <= 0:
            raise TimeoutError("timed out")
        self._socket.settimeout(left)
        num_bytes = self._stream.readinto(buffer)
        self._num_bytes += num_bytes or 0
        if self._num_bytes > MOST_ANSWER_BYTES:
            raise AnswerTooLarge
        return num_bytes

    def close(self):
        self._stream.close()
        super().close()
