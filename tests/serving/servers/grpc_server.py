"""The gRPC API of a model server, over `Servables`: PredictionService and ModelService."""

import concurrent.futures

import grpc
import tensorflow as tf
from tensorflow_serving.apis import (
    get_model_metadata_pb2,
    get_model_status_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
)

from tests.serving.servers.servables import DEFAULT_SIGNATURE, StatusError

CODES = {code.value[0]: code for code in grpc.StatusCode}
MOST_REQUESTS = 40  # at the same time


class GrpcServer:
    """Answers on a port of the loop-back device until it is closed.

    Args:
        servables: the `Servables`.
        port: 0 takes a free one.
    """

    def __init__(self, servables, port=0):
        self._server = grpc.server(
            concurrent.futures.ThreadPoolExecutor(MOST_REQUESTS),
            options=[
                ("grpc.max_send_message_length", -1),
                ("grpc.max_receive_message_length", -1),
                ("grpc.so_reuseport", 0),
            ],
        )
        service = _Service(servables)
        prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(service, self._server)
        model_service_pb2_grpc.add_ModelServiceServicer_to_server(service, self._server)
        port = self._server.add_insecure_port(f"127.0.0.1:{port}")
        self.address = f"grpc://127.0.0.1:{port}"
        self._server.start()

    def close(self):
        self._server.stop(grace=None).wait()


def _answered(method):
    """A service's method whose `StatusError` is the call's status."""

    def call(self, request, context):
        try:
            return method(self, request)
        except StatusError as error:
            context.abort(CODES[error.code], error.message)

    return call


def _version(request):
    spec = request.model_spec
    return spec.version.value if spec.HasField("version") else None


class _Service(
    prediction_service_pb2_grpc.PredictionServiceServicer,
    model_service_pb2_grpc.ModelServiceServicer,
):
    def __init__(self, servables):
        self._servables = servables

    @_answered
    def Predict(self, request):
        spec = request.model_spec
        version, servable = self._servables.find(spec.name, _version(request))
        inputs = {name: tf.make_ndarray(tensor) for name, tensor in request.inputs.items()}
        outputs = self._servables.predict(servable, spec.signature_name, inputs)
        answer = predict_pb2.PredictResponse()
        answer.model_spec.name = spec.name
        answer.model_spec.version.value = version
        answer.model_spec.signature_name = spec.signature_name or DEFAULT_SIGNATURE
        types = servable.signature(spec.signature_name).outputs
        for name, array in outputs.items():
            tensor = tf.make_tensor_proto(array, dtype=types[name].dtype, shape=array.shape)
            answer.outputs[name].CopyFrom(tensor)
        return answer

    @_answered
    def GetModelMetadata(self, request):
        version, servable = self._servables.find(request.model_spec.name, _version(request))
        answer = get_model_metadata_pb2.GetModelMetadataResponse()
        answer.model_spec.name = request.model_spec.name
        answer.model_spec.version.value = version
        answer.metadata["signature_def"].Pack(
            get_model_metadata_pb2.SignatureDefMap(signature_def=servable.signatures)
        )
        return answer

    @_answered
    def GetModelStatus(self, request):
        answer = get_model_status_pb2.GetModelStatusResponse()
        found = self._servables.status(request.model_spec.name, _version(request))
        for one, state, code, message in found:
            status = answer.model_version_status.add(version=one, state=state)
            status.status.error_code = code
            status.status.error_message = message
        return answer
