"""Requests to a model server through its gRPC API. The message types require TensorFlow."""

import math
import pathlib
from collections.abc import Mapping
from typing import Any

import grpc
import numpy as np
import tensorflow as tf
from google.protobuf import json_format
from google.protobuf.message import DecodeError
from tensorflow_serving.apis import get_model_metadata_pb2, get_model_status_pb2, predict_pb2

from keras_transformer.toolkit.serving.connection import (
    MOST_ANSWER_BYTES,
    TOO_LARGE,
    ClientClosed,
    Connection,
    InvalidAnswer,
    NotFound,
    RequestRefused,
    ServerUnavailable,
    ServingError,
    Transport,
    one_line,
)

OPTIONS = {
    # A batch of long sentences may exceed gRPC's limit of 4 MB.
    "grpc.max_send_message_length": -1,
    "grpc.max_receive_message_length": MOST_ANSWER_BYTES,
    # Detect a restarted server quickly. By default, gRPC first waits one second.
    "grpc.initial_reconnect_backoff_ms": 100,
    "grpc.max_reconnect_backoff_ms": 2000,
}
# Maximum number of 4-byte elements in a response. A tensor's shape may claim any number of
# elements, which would all take memory.
MOST_ELEMENTS = MOST_ANSWER_BYTES // 4
MOST_DIMENSIONS = 8
_VALUES = ("string_val", "float_val", "int_val", "int64_val")


class GrpcTransport(Transport):
    """Thread-safe access to a model on a model server.

    Reference: tensorflow_serving/apis/prediction_service.proto and model_service.proto
    """

    def __init__(self, connection: Connection, model: str, version: int | None) -> None:
        super().__init__(connection, model)
        self._model, self._version = model, version
        self._channel = _channel(connection)
        self._metadata = tuple(connection.headers.items())
        self._is_closed = False

    def predict(self, signature: str, inputs: Mapping[str, list[Any]], timeout: float) -> Any:
        """Return the outputs of a signature as nested lists, keyed by name."""
        request = predict_pb2.PredictRequest()
        request.model_spec.signature_name = signature
        for name, values in inputs.items():
            request.inputs[name].CopyFrom(_tensor(values))
        content = self._call("PredictionService/Predict", request, self._version, timeout)
        try:
            outputs = predict_pb2.PredictResponse.FromString(content).outputs
            if sum(map(_num_elements, outputs.values())) > MOST_ELEMENTS:
                raise ValueError("more elements than an answer can contain")
            return {name: _nested_list(tensor) for name, tensor in outputs.items()}
        except (AttributeError, DecodeError, LookupError, TypeError, ValueError) as error:
            raise self._no_answer(error) from error

    def status(self, of_every_version: bool, timeout: float) -> dict[str, Any]:
        """Return the states of all versions, or only of the versions that may answer."""
        request = get_model_status_pb2.GetModelStatusRequest()
        version = None if of_every_version else self._version
        content = self._call("ModelService/GetModelStatus", request, version, timeout)
        answer = self._as_in_rest(get_model_status_pb2.GetModelStatusResponse, content)
        return {"model_version_status": [], **answer}  # empty lists are not sent

    def metadata(self, timeout: float) -> dict[str, Any]:
        """Return the version that answers and its signatures."""
        request = get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=["signature_def"])
        content = self._call("PredictionService/GetModelMetadata", request, self._version, timeout)
        return self._as_in_rest(get_model_metadata_pb2.GetModelMetadataResponse, content)

    def close(self) -> None:
        """Close the channel. Running requests fail with `ClientClosed`."""
        self._is_closed = True
        self._channel.close()

    def _call(self, method: str, request: Any, version: int | None, timeout: float) -> bytes:
        """Call a method and return the unparsed response.

        If gRPC parsed responses, it would log a traceback for each malformed response.
        """
        request.model_spec.name = self._model
        if version is not None:
            request.model_spec.version.value = version
        content = request.SerializeToString()
        try:
            call = self._channel.unary_unary(f"/tensorflow.serving.{method}")
            return call(content, timeout=timeout, metadata=self._metadata)
        except (ValueError, grpc.RpcError) as error:
            code, details = None, None
            if isinstance(error, grpc.RpcError):
                code, details = error.code(), error.details()
            # Another thread closed the channel before or during the request.
            if self._is_closed and code in (None, grpc.StatusCode.CANCELLED):
                raise ClientClosed(f"{self.place}: the client is closed.") from error
            if code is None:
                raise
            message = self._said(details or "")
            raise self._failure(code, message, timeout) from error

    def _failure(self, code: grpc.StatusCode, message: str, timeout: float) -> ServingError:
        """Return the error for a gRPC status."""
        if code == grpc.StatusCode.DEADLINE_EXCEEDED:
            return self._late(timeout, f" ({message})")
        # The server uses the same message for requests that are too large.
        if "larger than max" in message and "SERVER" not in message:
            return InvalidAnswer(f"{self.place}: {TOO_LARGE} ({message}).")
        # gRPC uses the same code for missing and overloaded servers.
        if code == grpc.StatusCode.UNAVAILABLE and _is_of_the_connection(message):
            may_pass = not any(word in message for word in ("handshake", "Verification"))
            return self._unreachable(message, "gRPC port (--port, 8500", may_pass)
        kind = {
            grpc.StatusCode.NOT_FOUND: NotFound,
            grpc.StatusCode.RESOURCE_EXHAUSTED: ServerUnavailable,
            grpc.StatusCode.UNAVAILABLE: ServerUnavailable,
        }.get(code, RequestRefused)
        return kind(f"{self.place}: the server answered with {code.name}: {message}.")

    def _as_in_rest(self, kind: Any, content: bytes) -> dict[str, Any]:
        """Convert the bytes of a message to the format of the REST API."""
        try:
            return json_format.MessageToDict(
                kind.FromString(content), preserving_proto_field_name=True
            )
        except (DecodeError, json_format.Error, LookupError, TypeError, ValueError) as error:
            raise self._no_answer(error) from error

    def _no_answer(self, error: Exception) -> InvalidAnswer:
        return InvalidAnswer(
            f"{self.place}: not the answer of a model server: {one_line(repr(error))}."
        )


def _is_of_the_connection(message: str) -> bool:
    message = message.lower()
    return any(word in message for word in ("connect", "socket", "dns", "stream", "transport"))


def _channel(connection: Connection) -> grpc.Channel:
    """Return a channel to a server, encrypted if the address requires encryption."""
    scheme, _, target = connection.address.partition("://")
    options = list(OPTIONS.items())
    if scheme == "grpc":
        return grpc.insecure_channel(target, options=options)
    certificate_path, key_path = connection.client_certificate or (None, None)
    # None means gRPC's default authorities.
    authorities, key, certificate = (
        None if path is None else pathlib.Path(path).read_bytes()
        for path in (connection.ca_certificates, key_path, certificate_path)
    )
    credentials = grpc.ssl_channel_credentials(authorities, key, certificate)
    return grpc.secure_channel(target, credentials, options=options)


def _tensor(values: list[Any]) -> Any:
    """Return a string tensor for strings, or an int32 tensor otherwise."""
    if values and isinstance(values[0], str):
        return tf.make_tensor_proto([value.encode() for value in values], dtype=tf.string)
    return tf.make_tensor_proto(np.array(values, "int32"))


def _num_elements(tensor: Any) -> int:
    """Count the elements and empty lists of a tensor, whose shape may be wrong.

    A tensor may repeat its last value, but responses of model servers never do this.
    """
    sizes = [dimension.size for dimension in tensor.tensor_shape.dim[: MOST_DIMENSIONS + 1]]
    if len(sizes) > MOST_DIMENSIONS or min(sizes, default=0) < 0:
        raise ValueError("not the shape of an array")
    values = sum(len(value) for field, value in tensor.ListFields() if field.name in _VALUES)
    if math.prod(sizes) > max(values, len(tensor.tensor_content)):
        raise ValueError("more elements than values")
    return math.prod(max(size, 1) for size in sizes)


def _nested_list(tensor: Any) -> Any:
    values = tf.make_ndarray(tensor)
    if values.dtype != object:
        return values.tolist()
    flat = [value.decode("utf-8", "replace") for value in values.ravel()]
    return np.array(flat, dtype=object).reshape(values.shape).tolist()
