"""Access to a model on a model server over REST or gRPC, with retries and readiness checks."""

import random
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import msgspec

from keras_transformer.installation import pip_install
from keras_transformer.toolkit.serving.connection import (
    ClientClosed,
    Connection,
    InvalidAnswer,
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
    from keras_transformer.toolkit.serving.rest_transport import RestTransport
    from keras_transformer.toolkit.serving.tensorflow_grpc_transport import GrpcTransport

POLL_SECONDS = 0.2
MOST_PAUSE_SECONDS = 10.0  # maximum pause before a retry
MOST_DOUBLINGS = 1000  # a float overflows at 2**1024
# Version states: loaded and served; unloaded or failed to load.
AVAILABLE, END = "AVAILABLE", "END"

_Result = TypeVar("_Result")
_MOST = 2**63 - 1  # maximum int64
_Version = Annotated[int, msgspec.Meta(ge=0, le=_MOST)]


class Status(msgspec.Struct):
    """Reason for the state of a version."""

    error_message: str = ""


class VersionState(msgspec.Struct):
    """The state of a version."""

    version: _Version = 0
    state: str = "UNKNOWN"
    status: Status = msgspec.field(default_factory=Status)


class Dimension(msgspec.Struct):
    """An axis of a tensor. A size of -1 means any size."""

    size: Annotated[int, msgspec.Meta(ge=-1, le=_MOST)] = 0


class Shape(msgspec.Struct):
    """A tensor's shape."""

    dim: list[Dimension] = []
    unknown_rank: bool = False


class Tensor(msgspec.Struct):
    """An input or output of a signature. `dtype` is a name such as `DT_STRING`."""

    dtype: str = "DT_INVALID"
    tensor_shape: Shape = msgspec.field(default_factory=Shape)


class Signature(msgspec.Struct):
    """The tensors of a signature, keyed by name."""

    inputs: dict[str, Tensor] = {}
    outputs: dict[str, Tensor] = {}


class ServedModel:
    """A model on a model server. Its methods raise `ServingError`.

    A request that fails for a temporary reason is retried up to `retries` times. The pause before
    the k-th retry is `backoff * 2**(k - 1)` seconds, up to `MOST_PAUSE_SECONDS`, times a random
    number in [0.5, 1], which keeps clients from retrying at the same time.

    Args:
        connection: address and credentials of the server.
        model: name of the model.
        version: required version; None for the latest.
        timeout: maximum number of seconds for a request.
        retries: maximum number of retries.
        backoff: seconds before the first retry.
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
        self._address, self._model, self._version = connection.address, model, version
        self._timeout, self._retries, self._backoff = timeout, retries, backoff
        self._transport = _transport_class(self._address)(connection, model, version)
        self.place = self._transport.place
        self._is_closed = False

    def predict(self, signature: str, inputs: Mapping[str, list[Any]]) -> Any:
        """Return outputs as nested lists, keyed by name unless there is a single output."""
        return self._call(self._transport.predict, signature, inputs)

    def metadata(self) -> tuple[int, dict[str, Signature]]:
        """Return the version that answers and its signatures, keyed by name."""
        answer = self._call(self._transport.metadata)
        path = ("metadata", "signature_def", "signature_def")
        return (
            self._read(_Version, answer, "model_spec", "version"),
            self._read(dict[str, Signature], answer, *path),
        )

    def is_ready(self) -> bool:
        """Return whether a version is loaded."""
        try:
            return self.reason_to_wait(self._timeout) is None
        except (ModelNotReady, ServerUnreachable):
            return False

    def wait_until_ready(self, timeout: float) -> None:
        """Wait until a version is loaded; after `timeout` seconds, raise the last error."""
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
        """Return None if a version is loaded, else the error; raise it if waiting cannot help."""
        try:
            states = self._states(False, timeout)
        except NotFound as error:
            return self._missing(error)
        except (RequestTimedOut, ServerUnavailable) as error:
            return error
        except ServerUnreachable as error:
            if not error.may_pass:
                raise
            return error
        if any(one.state == AVAILABLE for one in states):
            return None
        reason = self._not_ready(states)
        if states and all(one.state == END and one.status.error_message for one in states):
            raise reason
        return reason

    def close(self) -> None:
        """Close the connections."""
        self._is_closed = True
        self._transport.close()

    def _call(self, method: Callable[..., _Result], *arguments: Any) -> _Result:
        """Call a method of the transport, retrying after temporary failures."""
        attempt = 0
        while True:
            try:
                return self._answer(method, *arguments, self._timeout)
            except NotFound as error:
                raise self._missing(error) from error
            except ServingError as error:
                if not error.may_pass or self._retries == 0:
                    raise
                if attempt == self._retries:
                    raise type(error)(f"{error} Tried {attempt + 1} times.") from error
            pause = min(self._backoff * 2 ** min(attempt, MOST_DOUBLINGS), MOST_PAUSE_SECONDS)
            time.sleep(pause * random.uniform(0.5, 1.0))
            attempt += 1

    def _answer(self, method: Callable[..., _Result], *arguments: Any) -> _Result:
        """Call a method of the transport, unless the client is closed."""
        if self._is_closed:
            raise ClientClosed(f"{self.place}: the client is closed.")
        return method(*arguments)

    def _states(self, of_every_version: bool, timeout: float) -> list[VersionState]:
        answer = self._answer(self._transport.status, of_every_version, timeout)
        return self._read(list[VersionState], answer, "model_version_status")

    def _read(self, kind: Any, answer: Any, *path: str) -> Any:
        """Return part of a response converted to the given type. An int64 may be a string."""
        try:
            for name in path:
                answer = answer[name]
            return msgspec.convert(answer, kind, strict=False)
        except (LookupError, TypeError, msgspec.ValidationError) as error:
            raise InvalidAnswer(
                f"{self.place}: not the answer of a model server: {one_line(repr(error))}."
            ) from error

    def _missing(self, error: NotFound) -> ServingError:
        """Return the specific error for a `NotFound`."""
        try:
            states = self._states(True, self._timeout)
        except NotFound:
            return ModelNotFound(
                f"{self._address}: the server has no model `{self._model}`; see its --model_name "
                f"or models.config for the models that it serves. ({error})"
            )
        except ServingError as other:
            return other
        loaded = sorted(one.version for one in states if one.state == AVAILABLE)
        if not loaded:
            return self._not_ready(states)
        if self._version is None or self._version in loaded:  # loaded meanwhile
            return ServerUnavailable(str(error))
        return VersionNotFound(
            f"{self.place}: the server has no version {self._version}. Its versions are "
            f"{one_line(', '.join(map(str, loaded)))}."
        )

    def _not_ready(self, states: Sequence[VersionState]) -> ModelNotReady:
        described = ", ".join(
            f"version {one.version} is {one_line(one.state)}"
            + (f" ({one_line(one.status.error_message)})" if one.status.error_message else "")
            for one in states
        )
        return ModelNotReady(
            f"{self.place}: no version is loaded: {one_line(described) or 'there is none'}."
        )


def _transport_class(address: str) -> "type[GrpcTransport] | type[RestTransport]":
    """Return the transport class for a server address."""
    try:
        if address.startswith("grpc"):
            from keras_transformer.toolkit.serving.tensorflow_grpc_transport import GrpcTransport

            return GrpcTransport
        from keras_transformer.toolkit.serving.rest_transport import RestTransport

        return RestTransport
    except ModuleNotFoundError as error:
        raise ServingError(
            f"{address}: the client needs the `{error.name}` package: {pip_install('serving')}"
        ) from error
