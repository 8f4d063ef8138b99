"""Requests to a model server through its REST API."""

import contextlib
import json
import queue
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import requests
import urllib3

from keras_transformer.serving.answer_values import Outputs, Signatures, VersionState
from keras_transformer.serving.connection import Connection
from keras_transformer.serving.serving_errors import (
    MESSAGE_LENGTH,
    MOST_ANSWER_BYTES,
    AnswerTooLarge,
    InvalidAnswer,
    NotFound,
    RequestRefused,
    RequestTimedOut,
    ServerUnavailable,
    ServerUnreachable,
    ServingError,
    one_line,
    reading_answer,
)
from keras_transformer.serving.transports.rest_deadlines import DeadlineAdapter
from keras_transformer.serving.transports.rest_json import described_model, parsed, version_states

# Too many requests, bad gateway, service unavailable, gateway timed out.
MAY_PASS = {429, 502, 503, 504}
GATEWAY_TIMEOUT = 504
PART_BYTES = 2**16

_Result = TypeVar("_Result")


class RestTransport:
    """Access to one model of a model server, by default at its latest version; thread-safe.

    A `requests.Session` belongs to one thread at a time: a request takes a free one, with its open
    connection, and returns it.

    Reference: https://www.tensorflow.org/tfx/serving/api_rest
    """

    def __init__(self, connection: Connection, model: str, version: int | None) -> None:
        self._connection = connection
        self._place = f"{connection.address}, model `{model}`"
        self._model_url = f"{connection.address}/v1/models/{urllib.parse.quote(model, safe='')}"
        self._url = self._model_url + ("" if version is None else f"/versions/{version}")
        self._check_proxy()
        self._free: queue.LifoQueue[requests.Session] = queue.LifoQueue()
        self._is_closed = False

    def predict(self, signature: str, inputs: Mapping[str, list[Any]], timeout: float) -> Outputs:
        """The outputs of a signature as nested lists.

        The request is columnar (`inputs`): this is shorter than rows (`instances`), and an empty
        list is an empty batch.
        """
        body = json.dumps({"signature_name": signature, "inputs": inputs}, ensure_ascii=False)
        answer = self._request("POST", f"{self._url}:predict", timeout, body.encode())
        with reading_answer(self._place):
            outputs = answer["outputs"]
        # The server leaves out the name of a single output.
        return outputs if isinstance(outputs, dict) else {None: outputs}

    def status(self, timeout: float) -> list[VersionState]:
        """The states of the versions that may answer."""
        return self._read(version_states, self._url, timeout)

    def every_status(self, timeout: float) -> list[VersionState]:
        """The states of all versions of the model."""
        return self._read(version_states, self._model_url, timeout)

    def metadata(self, timeout: float) -> tuple[int, Signatures]:
        """The version that answers, and the signatures."""
        return self._read(described_model, f"{self._url}/metadata", timeout)

    def close(self) -> None:
        """Close the connections; a running request closes its own when it ends."""
        self._is_closed = True
        with contextlib.suppress(queue.Empty):
            while True:
                self._free.get_nowait().close()

    def _check_proxy(self) -> None:
        """Require that the environment's proxy is an address.

        `requests` would raise a TypeError, or show a part of the proxy's password.
        """
        proxies = requests.utils.get_environ_proxies(self._url)
        proxy = requests.utils.select_proxy(self._url, proxies) or "http://localhost"
        try:
            parts = urllib.parse.urlsplit(proxy if "://" in proxy else f"http://{proxy}")
            is_address = parts.hostname and parts.port != 0 and "@" not in parts.path
        except ValueError:
            is_address = False
        if not is_address:
            raise ServingError(
                f"{self._place}: the environment's proxy for this address (http_proxy, "
                "https_proxy or all_proxy) must be http://HOST:PORT, as a rule."
            )

    def _read(self, function: Callable[[Any], _Result], url: str, timeout: float) -> _Result:
        answer = self._request("GET", url, timeout)
        with reading_answer(self._place):
            return function(answer)

    def _request(
        self, method: str, url: str, timeout: float, body: bytes | None = None
    ) -> dict[str, Any]:
        """The JSON object of an answer."""
        try:
            with self._session() as session:
                code, reason, content = self._exchange(session, method, url, timeout, body)
        except (
            requests.exceptions.RequestException, urllib3.exceptions.HTTPError, AnswerTooLarge
        ) as error:  # fmt: skip
            raise self._failure(error, timeout) from error
        answer = parsed(content)
        if code != 200:
            raise self._refusal(code, reason, answer)
        if not isinstance(answer, dict):
            text = self._said(content[: 2 * MESSAGE_LENGTH].decode("utf-8", "replace"))
            raise InvalidAnswer(f"{self._place}: not the answer of a model server: {text[:80]!r}")
        return answer

    def _exchange(
        self, session: requests.Session, method: str, url: str, timeout: float, body: bytes | None
    ) -> tuple[int, str, bytes]:
        """The code, its reason and the body of an answer."""
        with session.request(
            method,
            url,
            data=body,
            timeout=urllib3.Timeout(total=timeout),  # type: ignore[arg-type]  # not in its types
            # The credentials are for this server only.
            allow_redirects=False,
            stream=True,
            # Given here, it takes precedence over the environment.
            verify=self._connection.ca_certificates,
            cert=self._connection.client_certificate,
        ) as response:
            content = bytearray()
            for part in response.iter_content(PART_BYTES):
                content += part
                if len(content) > MOST_ANSWER_BYTES:  # a compressed answer grows
                    raise AnswerTooLarge
            return response.status_code, response.reason, bytes(content)

    @contextlib.contextmanager
    def _session(self) -> Iterator[requests.Session]:
        try:
            session = self._free.get_nowait()
        except queue.Empty:
            session = self._new_session()
        try:
            yield session
        finally:
            self._free.put(session)
            if self._is_closed:  # perhaps since `close` emptied the queue
                self.close()

    def _new_session(self) -> requests.Session:
        session = requests.Session()
        for scheme in ("http://", "https://"):
            session.mount(scheme, DeadlineAdapter())
        headers = self._connection.headers
        session.headers.update(headers)
        if "authorization" in headers or not self._connection.netrc:
            session.auth = _unchanged
        return session

    def _said(self, text: str) -> str:
        """A server's message in a form that may be shown."""
        return one_line(self._connection.without_secrets(text))

    def _failure(self, error: Exception, timeout: float) -> ServingError:
        """The error for a request without an answer."""
        cause = _cause(error)
        if isinstance(cause, AnswerTooLarge):
            return InvalidAnswer(f"{self._place}: {cause}.")
        if isinstance(error, requests.exceptions.Timeout) or "timed out" in str(error):
            return RequestTimedOut(
                f"{self._place}: no answer within {timeout:g} s. Raise `timeout`, or lower "
                "`batch_size`."
            )
        failure = ServerUnreachable(
            f"{self._place}: no model server answers there ({self._said(str(cause))}). Is it "
            "running, and is this its REST port (--rest_api_port, 8501 as a rule)?"
            f"{self._connection.hint}"
        )
        passing = (requests.exceptions.ConnectionError, requests.exceptions.ChunkedEncodingError)
        failure.may_pass = isinstance(error, passing) and not isinstance(
            error, requests.exceptions.SSLError
        )
        return failure

    def _refusal(self, code: int, reason: str, answer: Any) -> ServingError:
        """The error for an answer other than success."""
        error = answer.get("error") if isinstance(answer, dict) else None
        if isinstance(error, str):
            message = self._said(error)
            if code == GATEWAY_TIMEOUT:  # the server's own: a gateway does not write such JSON
                return RequestTimedOut(
                    f"{self._place}: the server gave the request up ({message}). Raise its "
                    "--rest_api_timeout_in_ms, or lower `batch_size`."
                )
            kind: type[ServingError] = NotFound if code == 404 else RequestRefused
        else:
            message = f"{self._said(reason)}: no message of a model server came with it"
            kind = InvalidAnswer
        if code in MAY_PASS:
            kind = ServerUnavailable
        return kind(f"{self._place}: the server answers with HTTP {code}: {message}.")


def _unchanged(request: requests.PreparedRequest) -> requests.PreparedRequest:
    """The request itself; without this, `requests` would add headers from a `.netrc`."""
    return request


def _cause(error: BaseException) -> BaseException:
    """The operating system's error, which the library wraps."""
    while True:
        inner = error.__cause__ or error.__context__
        if inner is None:
            return error
        error = inner
