"""Requests to a model server through its gRPC API; its message types need TensorFlow."""

import math
import pathlib

import grpc
import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError
from tensorflow_serving.apis import get_model_metadata_pb2, get_model_status_pb2, predict_pb2

from keras_transformer.serving.answer_values import whole_number
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
    one_line,
    reading_answer,
)

OPTIONS = {
    # A batch of long sentences may be larger than gRPC's 4 MB.
    "grpc.max_send_message_length": -1,
    "grpc.max_receive_message_length": MOST_ANSWER_BYTES,
    # A server that comes back is seen soon: gRPC's own first pause is a second.
    "grpc.initial_reconnect_backoff_ms": 100,
    "grpc.max_reconnect_backoff_ms": 2000,
}
# A tensor's shape may promise any number of elements, which all take memory: those of 4 bytes that
# an answer can hold.
MOST_ELEMENTS = MOST_ANSWER_BYTES // 4
MOST_DIMENSIONS = 8


class GrpcTransport:
    """One model of a model server, at its latest version if None is named, for many threads.

    Reference: tensorflow_serving/apis/prediction_service.proto and model_service.proto
    """

    def __init__(self, connection, model, version):
        self._connection = connection
        self._place = f"{connection.address}, model `{model}`"
        self._model, self._version = model, version
        self._channel = _channel(connection)
        self._metadata = tuple(connection.headers.items())
        self._is_closed = False

    def predict(self, signature, inputs, timeout):
        """The outputs of a signature, by name, as nested lists; strings are `str`."""
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

    def status(self, timeout):
        """`(version, state, error message)` of the versions that may answer."""
        return self._status(self._version, timeout)

    def every_status(self, timeout):
        """The same of all versions of the model."""
        return self._status(None, timeout)

    def metadata(self, timeout):
        """The version that answers, and the signatures: see `TranslationClient.metadata`."""
        request = get_model_metadata_pb2.GetModelMetadataRequest()
        self._name_model(request.model_spec, self._version)
        request.metadata_field.append("signature_def")
        content = self._call("PredictionService/GetModelMetadata", request, timeout)
        with reading_answer(self._place):
            answer = _message(get_model_metadata_pb2.GetModelMetadataResponse, content)
            packed, kind = answer.metadata["signature_def"], get_model_metadata_pb2.SignatureDefMap
            if not packed.Is(kind.DESCRIPTOR):
                raise ValueError(f"no signatures, but {packed.type_url!r}")
            signatures = _message(kind, packed.value).signature_def
            return whole_number(answer.model_spec.version.value), {
                name: {"inputs": _tensors(one.inputs), "outputs": _tensors(one.outputs)}
                for name, one in signatures.items()
            }

    def close(self):
        """Close the channel; requests that run end with `ClientClosed`."""
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

    def _call(self, method, request, timeout):
        """The bytes of an answer; as a message, gRPC would log a traceback if they are none.

        Args:
            method: such as `PredictionService/Predict`.
            request: the message.
            timeout: seconds.
        """
        call = self._channel.unary_unary(f"/tensorflow.serving.{method}")
        content = request.SerializeToString()
        try:
            return call(content, timeout=timeout, metadata=self._metadata)
        except (ValueError, grpc.RpcError) as error:
            code = error.code() if isinstance(error, grpc.RpcError) else None
            # Another thread closed the channel, before the request or while it ran.
            if self._is_closed and code in (None, grpc.StatusCode.CANCELLED):
                raise ClientClosed(f"{self._place}: the client is closed.") from error
            if code is None:
                raise
            message = one_line(self._connection.without_secrets(error.details() or ""))
            raise self._failure(code, message, timeout) from error

    def _failure(self, code, message, timeout):
        """The `ServingError` of a gRPC status."""
        if code == grpc.StatusCode.DEADLINE_EXCEEDED:
            return RequestTimedOut(
                f"{self._place}: no answer within {timeout:g} s ({message}). Raise `timeout`, or "
                "lower `batch_size`."
            )
        # Of what the server gets, it says so in the same words.
        if "larger than max" in message and "SERVER" not in message:
            return InvalidAnswer(f"{self._place}: {AnswerTooLarge()} ({message}).")
        # gRPC has one code for a server that is not there and for one that has too much to do.
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


def _is_of_the_connection(message):
    message = message.lower()
    return any(word in message for word in ("connect", "socket", "dns", "stream", "transport"))


def _tensor(values):
    """A string tensor of str, an int32 tensor of anything else."""
    if values and isinstance(values[0], str):
        return tf.make_tensor_proto([value.encode() for value in values], dtype=tf.string)
    return tf.make_tensor_proto(np.array(values, "int32"))


def _channel(connection):
    """The channel to a server, encrypted if its address says so."""
    scheme, _, target = connection.address.partition("://")
    options = list(OPTIONS.items())
    if scheme == "grpc":
        return grpc.insecure_channel(target, options=options)
    certificate, key = connection.client_certificate or (None, None)
    # None: gRPC's own authorities.
    authorities, key, certificate = (
        path and pathlib.Path(path).read_bytes()
        for path in (connection.ca_certificates, key, certificate)
    )
    credentials = grpc.ssl_channel_credentials(authorities, key, certificate)
    return grpc.secure_channel(target, credentials, options=options)


def _message(kind, content):
    """A message of a protocol buffer's class, from bytes."""
    try:
        return kind.FromString(content)
    except DecodeError as error:
        raise ValueError(f"no {kind.DESCRIPTOR.name}") from error


def _num_elements(tensor):
    """How many elements or empty lists a tensor has; its shape is not the sender's to invent."""
    sizes = [dimension.size for dimension in tensor.tensor_shape.dim[: MOST_DIMENSIONS + 1]]
    if len(sizes) > MOST_DIMENSIONS or min(sizes, default=0) < 0:
        raise ValueError("no shape of an array")
    return math.prod(max(size, 1) for size in sizes)


def _nested_list(tensor):
    values = tf.make_ndarray(tensor)
    if values.dtype != object:
        return values.tolist()
    flat = [value.decode("utf-8", "replace") for value in values.ravel()]
    return np.array(flat, dtype=object).reshape(values.shape).tolist()


def _tensors(infos):
    return {
        name: {"dtype": _type_name(info), "shape": _shape(info.tensor_shape)}
        for name, info in infos.items()
    }


def _type_name(info):
    """Such as `DT_STRING`, as the REST API writes it."""
    return info.DESCRIPTOR.fields_by_name["dtype"].enum_type.values_by_number[info.dtype].name


def _shape(shape):
    return (
        None
        if shape.unknown_rank
        else [whole_number(dimension.size, least=-1) for dimension in shape.dim]
    )
