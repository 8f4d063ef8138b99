"""Requests to a model server through its REST API."""

import io
import json
import socket
import time
import urllib.parse
from collections.abc import Mapping
from typing import Any

import requests
import urllib3
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection

from keras_transformer.argument_checks import without_surrogates
from keras_transformer.toolkit.serving.connection import (
    MESSAGE_LENGTH,
    MOST_ANSWER_BYTES,
    TOO_LARGE,
    Connection,
    InvalidAnswer,
    NotFound,
    RequestRefused,
    RequestTimedOut,
    ServerUnavailable,
    ServingError,
    Transport,
)

# Too many requests, bad gateway, service unavailable, gateway timeout.
MAY_PASS = {429, 502, 503, 504}
GATEWAY_TIMEOUT = 504
PART_BYTES = 2**16
MOST_CONNECTIONS = 256  # limit of pooled connections; additional threads open their own


class _TimedSocket:
    """A connected socket whose timeout applies to the total time of all reads and writes.

    The system timeout restarts with each read, so a server could extend it forever by sending an
    occasional byte or repeated `100 Continue` responses.
    """

    def __init__(self, connected: socket.socket, end: float) -> None:
        self._socket, self._end = connected, end

    def __getattr__(self, name: str) -> Any:
        return getattr(self._socket, name)

    def settimeout(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def sendall(self, content: Any) -> None:
        self.use_remaining_time()
        self._socket.sendall(content)

    def makefile(self, *_: Any) -> io.BufferedReader:
        return io.BufferedReader(_TimedReader(self, self._socket.makefile("rb", 0)))

    def use_remaining_time(self) -> None:
        """Limit the next read or write to the remaining time."""
        left = self._end - time.monotonic()
        if left <= 0:
            raise TimeoutError("timed out")
        self._socket.settimeout(left)


class _TimedReader(io.RawIOBase):
    """Reads the data received by a `_TimedSocket`."""

    def __init__(self, timed: _TimedSocket, stream: io.RawIOBase) -> None:
        self._timed, self._stream = timed, stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._timed.use_remaining_time()
        return self._stream.readinto(buffer)

    def close(self) -> None:
        self._stream.close()
        super().close()


class _Timed:
    """A urllib3 connection whose `timeout` includes the time to connect."""

    def connect(self: Any) -> None:
        end = time.monotonic() + self.timeout
        super().connect()  # type: ignore[misc]
        self.sock = _TimedSocket(self.sock, end)


class _TimedConnection(_Timed, HTTPConnection):  # type: ignore[misc]
    pass


class _TimedTLSConnection(_Timed, HTTPSConnection):  # type: ignore[misc]
    pass


class _Pool(urllib3.HTTPConnectionPool):
    ConnectionCls = _TimedConnection


class _TLSPool(urllib3.HTTPSConnectionPool):
    ConnectionCls = _TimedTLSConnection


class _Adapter(HTTPAdapter):
    """Creates timed connections for `requests`."""

    def init_poolmanager(self, *arguments: Any, **options: Any) -> None:
        super().init_poolmanager(*arguments, **options)
        self.poolmanager.pool_classes_by_scheme = {"http": _Pool, "https": _TLSPool}

    def proxy_manager_for(self, *arguments: Any, **options: Any) -> Any:
        manager = super().proxy_manager_for(*arguments, **options)
        if isinstance(manager, urllib3.ProxyManager):  # SOCKS uses its own pools
            manager.pool_classes_by_scheme = {"http": _Pool, "https": _TLSPool}
        return manager


class RestTransport(Transport):
    """Thread-safe access to a model on a model server.

    Reference: https://www.tensorflow.org/tfx/serving/api_rest
    """

    def __init__(self, connection: Connection, model: str, version: int | None) -> None:
        super().__init__(connection, model)
        self._model_url = f"{connection.address}/v1/models/{urllib.parse.quote(model, safe='')}"
        self._url = self._model_url + ("" if version is None else f"/versions/{version}")
        self._check_proxy()
        self._session = requests.Session()
        for scheme in ("http://", "https://"):
            self._session.mount(scheme, _Adapter(pool_maxsize=MOST_CONNECTIONS))
        self._session.headers.update(connection.headers)
        if "authorization" in connection.headers or not connection.netrc:
            # Without this, `requests` would add credentials from `.netrc`.
            self._session.auth = lambda request: request

    def predict(self, signature: str, inputs: Mapping[str, list[Any]], timeout: float) -> Any:
        """Return the outputs of a signature as nested lists, keyed by name.

        A single output is returned as a list, without its name.

        The request uses the columnar format (`inputs`), which is shorter than the row format
        (`instances`) and can represent an empty batch as an empty list.
        """
        body = json.dumps({"signature_name": signature, "inputs": inputs}, ensure_ascii=False)
        return self._request("POST", f"{self._url}:predict", timeout, body.encode()).get("outputs")

    def status(self, of_every_version: bool, timeout: float) -> dict[str, Any]:
        """Return the states of all versions, or only of the versions that may answer."""
        return self._request("GET", self._model_url if of_every_version else self._url, timeout)

    def metadata(self, timeout: float) -> dict[str, Any]:
        """Return the version that answers and its signatures."""
        return self._request("GET", f"{self._url}/metadata", timeout)

    def close(self) -> None:
        """Close the connections. Running requests close their connections when they end."""
        self._session.close()

    def _check_proxy(self) -> None:
        """Check that the proxy in the environment is an address.

        Otherwise, `requests` would raise a TypeError or reveal part of the proxy password.
        """
        proxies = requests.utils.get_environ_proxies(self._url)
        proxy = requests.utils.select_proxy(self._url, proxies)
        try:
            is_address = proxy is None or bool(urllib3.util.parse_url(proxy).host)
        except urllib3.exceptions.LocationParseError:
            is_address = False
        if not is_address:
            raise ServingError(
                f"{self.place}: the environment's proxy for this address (http_proxy, "
                "https_proxy or all_proxy) must have the form http://HOST:PORT."
            )

    def _request(
        self, method: str, url: str, timeout: float, body: bytes | None = None
    ) -> dict[str, Any]:
        """Send a request and return the JSON object in the response."""
        try:
            with self._session.request(
                method,
                url,
                data=body,
                timeout=urllib3.Timeout(total=timeout),  # type: ignore[arg-type]  # not in stubs
                # Credentials must be sent only to this server.
                allow_redirects=False,
                stream=True,
                # This argument takes precedence over the environment.
                verify=self._connection.ca_certificates,
                cert=self._connection.client_certificate,
            ) as response:
                content = self._content(response.raw)
        except (requests.RequestException, urllib3.exceptions.HTTPError, TimeoutError) as error:
            raise self._failure(error, timeout) from error
        answer = _parsed(content)
        if response.status_code != 200:
            raise self._refusal(response.status_code, response.reason, answer)
        if not isinstance(answer, dict):
            text = self._said(content[: 2 * MESSAGE_LENGTH].decode("utf-8", "replace"))
            raise InvalidAnswer(f"{self.place}: not the answer of a model server: {text[:80]!r}")
        return answer

    def _content(self, body: Any) -> bytes:
        """Read a response body up to a maximum decompressed size."""
        content = bytearray()
        while part := body.read1(PART_BYTES, decode_content=True):
            content += part
            if len(content) > MOST_ANSWER_BYTES:
                raise InvalidAnswer(f"{self.place}: {TOO_LARGE}.")
        return bytes(content)

    def _failure(self, error: Exception, timeout: float) -> ServingError:
        """Return the error for a request without a response."""
        timeouts = (requests.Timeout, urllib3.exceptions.TimeoutError)
        if isinstance(error, timeouts) or "timed out" in str(error):
            return self._late(timeout)
        cause: BaseException = error  # find the operating-system error wrapped by the libraries
        while inner := cause.__cause__ or cause.__context__:
            cause = inner
        passing = (requests.ConnectionError, urllib3.exceptions.ProtocolError)
        may_pass = isinstance(error, passing) and not isinstance(
            error, requests.exceptions.SSLError
        )
        port = "REST port (--rest_api_port, 8501"
        return self._unreachable(self._said(str(cause)), port, may_pass)

    def _refusal(self, code: int, reason: str, answer: Any) -> ServingError:
        """Return the error for an unsuccessful response."""
        error = answer.get("error") if isinstance(answer, dict) else None
        if isinstance(error, str):
            message = self._said(error)
            if code == GATEWAY_TIMEOUT:  # from the server; gateways do not send this JSON
                return RequestTimedOut(
                    f"{self.place}: the server abandoned the request ({message}). Raise its "
                    "--rest_api_timeout_in_ms, or lower `batch_size`."
                )
            kind: type[ServingError] = NotFound if code == 404 else RequestRefused
        else:
            message = f"{self._said(reason)}, without a message from a model server"
            kind = InvalidAnswer
        if code in MAY_PASS:
            kind = ServerUnavailable
        return kind(f"{self.place}: the server answered with HTTP {code}: {message}.")


def _parsed(content: bytes) -> Any:
    """Return the value of a JSON body, or None if it is not JSON.

    Invalid UTF-8 and unpaired surrogates are replaced with U+FFFD.

    Example:
        >>> _parsed(rb'{"outputs": ["half \\ud800"]}')
        {'outputs': ['half \ufffd']}
    """
    text = content.decode("utf-8-sig", "replace")
    try:
        value = json.loads(text)
        if "\\u" not in text:
            return value
        return json.loads(without_surrogates(json.dumps(value, ensure_ascii=False)))
    except (ValueError, RecursionError):
        return None
