"""One model of a model server, over REST or gRPC: retries, readiness, errors."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from keras_transformer.distribution import pip_install
from keras_transformer.serving.answer_values import Outputs, Signatures, VersionState
from keras_transformer.serving.connection import Connection
from keras_transformer.serving.retries import call_with_retries
from keras_transformer.serving.serving_errors import (
    ClientClosed,
    ModelNotFound,
    ModelNotReady,
    NotFound,
    RequestTimedOut,
    ServerUnavailable,
    ServerUnreachable,
    ServingError,
    VersionNotFound,
    one_line,
)

if TYPE_CHECKING:
    from keras_transformer.serving.transports.rest_transport import RestTransport
    from keras_transformer.serving.transports.tensorflow_grpc_transport import GrpcTransport

POLL_SECONDS = 0.2
# States of a version: loaded and served; unloaded or failed to load.
AVAILABLE, END = "AVAILABLE", "END"

_Result = TypeVar("_Result")


class ServedModel:
    """A model on a model server; its methods raise `ServingError`.

    `version` None asks for the latest one. `timeout` is the number of seconds that a request waits;
    for `retries` and `backoff` see `call_with_retries`.
    """

    def __init__(
        self,
        connection: Connection,
        model: str,
        version: int | None,
        *,
        timeout: float,
        retries: int,
        backoff: float,
    ) -> None:
        address = connection.address
        self.place = f"{address}, model `{model}`"
        self._address, self._model, self._version = address, model, version
        self._timeout, self._retries, self._backoff = timeout, retries, backoff
        self._transport = _transport_class(address)(connection, model, version)
        self._is_closed = False

    def predict(self, signature: str, inputs: Mapping[str, list[Any]]) -> Outputs:
        """The outputs of a signature as nested lists."""
        return self._call(self._transport.predict, signature, inputs)

    def metadata(self) -> tuple[int, Signatures]:
        """The version that answers, and the signatures."""
        return self._call(self._transport.metadata)

    def is_ready(self) -> bool:
        """Whether a version is loaded."""
        try:
            return self.reason_to_wait(self._timeout) is None
        except (ModelNotReady, ServerUnreachable):
            return False

    def wait_until_ready(self, timeout: float) -> None:
        """Return when a version is loaded, or raise the reason after `timeout` seconds."""
        end = time.monotonic() + timeout
        while True:
            left = end - time.monotonic()
            reason = self.reason_to_wait(min(self._timeout, max(left, POLL_SECONDS)))
            if reason is None:
                return
            left = end - time.monotonic()
            if left <= 0:
                raise type(reason)(f"{reason} Waited {timeout:g} s.") from reason
            time.sleep(min(POLL_SECONDS, left))

    def reason_to_wait(self, timeout: float) -> ServingError | None:
        """None if a version is loaded, else the error; raises errors that waiting cannot mend."""
        try:
            states = self._answer(self._transport.status, timeout)
        except NotFound as error:
            return self._missing(error)
        except (RequestTimedOut, ServerUnavailable) as error:
            return error
        except ServerUnreachable as error:
            if not error.may_pass:
                raise
            return error
        if any(state == AVAILABLE for _, state, _ in states):
            return None
        reason = self._not_ready(states)
        if states and all(state == END and message for _, state, message in states):
            raise reason
        return reason

    def close(self) -> None:
        """Close the connections."""
        self._is_closed = True
        self._transport.close()

    def _call(self, method: Callable[..., _Result], *arguments: Any) -> _Result:
        """The result of a method of the transport, with retries."""
        try:
            return call_with_retries(
                lambda: self._answer(method, *arguments, self._timeout),
                self._retries,
                self._backoff,
            )
        except NotFound as error:
            raise self._missing(error) from error

    def _answer(self, method: Callable[..., _Result], *arguments: Any) -> _Result:
        """The result of a method of the transport, unless the client is closed."""
        if self._is_closed:
            raise ClientClosed(f"{self.place}: the client is closed.")
        return method(*arguments)

    def _missing(self, error: NotFound) -> ServingError:
        """The error that says what the server lacks, after a `NotFound`."""
        try:
            states = self._answer(self._transport.every_status, self._timeout)
        except NotFound:
            return ModelNotFound(
                f"{self._address}: the server has no model `{self._model}`; its --model_name or "
                f"its models.config says which it has. ({error})"
            )
        except ServingError as other:
            return other
        loaded = sorted(version for version, state, _ in states if state == AVAILABLE)
        if not loaded:
            return self._not_ready(states)
        if self._version is None or self._version in loaded:  # loaded in the meantime
            return ServerUnavailable(str(error))
        return VersionNotFound(
            f"{self.place}: the server has no version {self._version}. It has "
            f"{one_line(', '.join(map(str, loaded)))}."
        )

    def _not_ready(self, states: Sequence[VersionState]) -> ModelNotReady:
        described = ", ".join(
            f"version {version} is {one_line(state)}"
            + (f" ({one_line(message)})" if message else "")
            for version, state, message in states
        )
        return ModelNotReady(
            f"{self.place}: no version is loaded: {one_line(described) or 'it has none'}."
        )


def _transport_class(address: str) -> "type[GrpcTransport] | type[RestTransport]":
    """The transport for a server at this address."""
    try:
        if address.startswith("grpc"):
            from keras_transformer.serving.transports.tensorflow_grpc_transport import GrpcTransport

            return GrpcTransport
        from keras_transformer.serving.transports.rest_transport import RestTransport

        return RestTransport
    except ModuleNotFoundError as error:
        raise ServingError(
            f"{address}: the client needs the package `{error.name}`: {pip_install('serving')}"
        ) from error
