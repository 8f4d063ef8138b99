"""Requests to a model server through its gRPC API; its message types need TensorFlow."""

import math
import pathlib
from collections.abc import Mapping
from typing import Any

import grpc
import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError
from tensorflow_serving.apis import get_model_metadata_pb2, get_model_status_pb2, predict_pb2

from keras_transformer.serving.answer_values import (
    Outputs,
    Signatures,
    VersionState,
    whole_number,
)
from keras_transformer.serving.connection import Connection
from keras_transformer.serving.serving_errors import (
    MOST_ANSWER_BYTES,
    AnswerTooLarge,
    ClientClosed,
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

OPTIONS = {
    # A batch of long sentences may be larger than gRPC's 4 MB.
    "grpc.max_send_message_length": -1,
    "grpc.max_receive_message_length": MOST_ANSWER_BYTES,
    # A returning server is noticed soon: gRPC's first pause is a second by default.
    "grpc.initial_reconnect_backoff_ms": 100,
    "grpc.max_reconnect_backoff_ms": 2000,
}
# Number of 4-byte elements that an answer can hold: a tensor's shape may promise any number, which
# would all take memory.
MOST_ELEMENTS = MOST_ANSWER_BYTES // 4
MOST_DIMENSIONS = 8


class GrpcTransport:
    """Access to one model of a model server, by default at its latest version; thread-safe.

    Reference: tensorflow_serving/apis/prediction_service.proto and model_service.proto
    """

    def __init__(self, connection: Connection, model: str, version: int | None) -> None:
        self._connection = connection
        self._place = f"{connection.address}, model `{model}`"
        self._model, self._version = model, version
        self._channel = _channel(connection)
        self._metadata = tuple(connection.headers.items())
        self._is_closed = False

    def predict(self, signature: str, inputs: Mapping[str, list[Any]], timeout: float) -> Outputs:
        """The outputs of a signature as nested lists."""
        request = predict_pb2.PredictRequest()
        self._name_model(request.model_spec, self._version)
        request.model_spec.signature_name = signature
        for name, values in inputs.items():
            request.inputs[name].CopyFrom(_tensor(values))
        answer = self._call("PredictionService/Predict", request, timeout)
        with reading_answer(self._place):
            outputs = _message(predict_pb2.PredictResponse, answer).outputs
            if sum(map(_num_elements, outputs.values())) > MOST_ELEMENTS:
                raise ValueError("more elements than any answer has")
            return {name: _nested_list(tensor) for name, tensor in outputs.items()}

    def status(self, timeout: float) -> list[VersionState]:
        """The states of the versions that may answer."""
        return self._status(self._version, timeout)

    def every_status(self, timeout: float) -> list[VersionState]:
        """The states of all versions of the model."""
        return self._status(None, timeout)

    def metadata(self, timeout: float) -> tuple[int, Signatures]:
        """The version that answers, and the signatures."""
        request = get_model_metadata_pb2.GetModelMetadataRequest()
        self._name_model(request.model_spec, self._version)
        request.metadata_field.append("signature_def")
        content = self._call("PredictionService/GetModelMetadata", request, timeout)
        with reading_answer(self._place):
            answer = _message(get_model_metadata_pb2.GetModelMetadataResponse, content)
            packed, kind = answer.metadata["signature_def"], get_model_metadata_pb2.SignatureDefMap
            if not packed.Is(kind.DESCRIPTOR):
                raise ValueError(f"signatures of the type {packed.type_url!r}")
            signatures = _message(kind, packed.value).signature_def
            return whole_number(answer.model_spec.version.value), {
                name: {"inputs": _tensors(one.inputs), "outputs": _tensors(one.outputs)}
                for name, one in signatures.items()
            }

    def close(self) -> None:
        """Close the channel; running requests end with `ClientClosed`."""
        self._is_closed = True
        self._channel.close()

    def _name_model(self, model_spec, version):
        model_spec.name = self._model
        if version is not None:
            model_spec.version.value = version

    def _status(self, version, timeout):
        request = get_model_status_pb2.GetModelStatusRequest()
        self._name_model(request.model_spec, version)
        content = self._call("ModelService/GetModelStatus", request, timeout)
        states = get_model_status_pb2.ModelVersionStatus.State
        with reading_answer(self._place):
            answer = _message(get_model_status_pb2.GetModelStatusResponse, content)
            return [
                (whole_number(one.version), states.Name(one.state), one.status.error_message)
                for one in answer.model_version_status
            ]

    def _call(self, method: str, request: Any, timeout: float) -> bytes:
        """The bytes of an answer: if gRPC parsed them, it would log tracebacks of damaged ones."""
        call = self._channel.unary_unary(f"/tensorflow.serving.{method}")
        content = request.SerializeToString()
        try:
            return call(content, timeout=timeout, metadata=self._metadata)
        except (ValueError, grpc.RpcError) as error:
            code, details = None, None
            if isinstance(error, grpc.RpcError):
                code, details = error.code(), error.details()
            # Another thread closed the channel, before or during the request.
            if self._is_closed and code in (None, grpc.StatusCode.CANCELLED):
                raise ClientClosed(f"{self._place}: the client is closed.") from error
            if code is None:
                raise
            message = one_line(self._connection.without_secrets(details or ""))
            raise self._failure(code, message, timeout) from error

    def _failure(self, code: grpc.StatusCode, message: str, timeout: float) -> ServingError:
        """The error for a gRPC status."""
        if code == grpc.StatusCode.DEADLINE_EXCEEDED:
            return RequestTimedOut(
                f"{self._place}: no answer within {timeout:g} s ({message}). Raise `timeout`, or "
                "lower `batch_size`."
            )
        # The server uses the same words for requests.
        if "larger than max" in message and "SERVER" not in message:
            return InvalidAnswer(f"{self._place}: {AnswerTooLarge()} ({message}).")
        # gRPC has one code for a missing and for an overloaded server.
        if code == grpc.StatusCode.UNAVAILABLE and _is_of_the_connection(message):
            failure = ServerUnreachable(
                f"{self._place}: no model server answers there ({message}). Is it running, and is "
                f"this its gRPC port (--port, 8500 as a rule)?{self._connection.hint}"
            )
            failure.may_pass = not any(word in message for word in ("handshake", "Verification"))
            return failure
        kind = {
            grpc.StatusCode.NOT_FOUND: NotFound,
            grpc.StatusCode.RESOURCE_EXHAUSTED: ServerUnavailable,
            grpc.StatusCode.UNAVAILABLE: ServerUnavailable,
        }.get(code, RequestRefused)
        return kind(f"{self._place}: the server answers with {code.name}: {message}.")


def _is_of_the_connection(message: str) -> bool:
    message = message.lower()
    return any(word in message for word in ("connect", "socket", "dns", "stream", "transport"))


def _tensor(values: list[Any]) -> Any:
    """A string tensor for strings, otherwise an int32 tensor."""
    if values and isinstance(values[0], str):
        return tf.make_tensor_proto([value.encode() for value in values], dtype=tf.string)
    return tf.make_tensor_proto(np.array(values, "int32"))


def _channel(connection: Connection) -> grpc.Channel:
    """The channel to a server, encrypted if its address says so."""
    scheme, _, target = connection.address.partition("://")
    options = list(OPTIONS.items())
    if scheme == "grpc":
        return grpc.insecure_channel(target, options=options)
    certificate_path, key_path = connection.client_certificate or (None, None)
    # None: gRPC's own authorities.
    authorities, key, certificate = (
        None if path is None else pathlib.Path(path).read_bytes()
        for path in (connection.ca_certificates, key_path, certificate_path)
    )
    credentials = grpc.ssl_channel_credentials(authorities, key, certificate)
    return grpc.secure_channel(target, credentials, options=options)


def _message(kind: Any, content: bytes) -> Any:
    """A message of a protocol buffer's class, from bytes."""
    try:
        return kind.FromString(content)
    except DecodeError as error:
        raise ValueError(f"not a {kind.DESCRIPTOR.name}") from error


def _num_elements(tensor: Any) -> int:
    """Number of elements and empty lists of a tensor, whose shape may be wrong."""
    sizes = [dimension.size for dimension in tensor.tensor_shape.dim[: MOST_DIMENSIONS + 1]]
    if len(sizes) > MOST_DIMENSIONS or min(sizes, default=0) < 0:
        raise ValueError("not the shape of an array")
    return math.prod(max(size, 1) for size in sizes)


def _nested_list(tensor: Any) -> list[Any]:
    values = tf.make_ndarray(tensor)
    if values.dtype != object:
        return values.tolist()
    flat = [value.decode("utf-8", "replace") for value in values.ravel()]
    return np.array(flat, dtype=object).reshape(values.shape).tolist()


def _tensors(infos: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    return {
        name: {"dtype": _type_name(info), "shape": _shape(info.tensor_shape)}
        for name, info in infos.items()
    }


def _type_name(info: Any) -> str:
    """The name of the type as in the REST API, such as `DT_STRING`."""
    return info.DESCRIPTOR.fields_by_name["dtype"].enum_type.values_by_number[info.dtype].name


def _shape(shape: Any) -> list[int] | None:
    return (
        None
        if shape.unknown_rank
        else [whole_number(dimension.size, least=-1) for dimension in shape.dim]
    )
