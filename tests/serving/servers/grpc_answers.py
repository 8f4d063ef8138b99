"""Answers of the gRPC API, made by hand, for servers that send them as they are."""

from keras_transformer.serving import TranslationClient

ARGUMENTS = {
    "translate": [["one"]],
    "translate_nbest": [["one"]],
    "score": [["one"], ["eins"]],
    "tokenize": [["one"]],
    "translate_ids": [[[5]]],
    "metadata": [],
    "ready": [],
}


def call(server, method, **options):
    with TranslationClient(server.address, "en_de", retries=0, **options) as client:
        return getattr(client, method)(*ARGUMENTS[method])


def serving(answers, **options):
    from tests.serving.servers.scripted_grpc_server import ScriptedGrpcServer

    return ScriptedGrpcServer(answers, **options)


def prediction(**outputs):
    """The answer to `Predict` with these tensors."""
    import tensorflow as tf
    from tensorflow_serving.apis import predict_pb2

    answer = predict_pb2.PredictResponse()
    for name, value in outputs.items():
        is_tensor = hasattr(value, "tensor_shape")
        answer.outputs[name].CopyFrom(value if is_tensor else tf.make_tensor_proto(value))
    return answer


def tensor(sizes, **fields):
    """A tensor with these sizes, and with whatever else it says of itself."""
    from tensorflow.core.framework import tensor_pb2

    message = tensor_pb2.TensorProto(**fields)
    for size in sizes:
        message.tensor_shape.dim.add(size=size)
    return message


def states(version=1, state=30):
    from tensorflow_serving.apis import get_model_status_pb2

    answer = get_model_status_pb2.GetModelStatusResponse()
    answer.model_version_status.add(version=version, state=state)
    return answer


def description(version=1, size=-1, dtype=7):
    """The answer to `GetModelMetadata`."""
    from tensorflow_serving.apis import get_model_metadata_pb2

    signatures = get_model_metadata_pb2.SignatureDefMap()
    info = signatures.signature_def["translate"].inputs["inputs"]
    info.dtype = dtype
    info.tensor_shape.dim.add(size=size)
    answer = get_model_metadata_pb2.GetModelMetadataResponse()
    answer.model_spec.version.value = version
    answer.metadata["signature_def"].Pack(signatures)
    return answer


def good_answers():
    """By method, answers where nothing is wrong."""
    return {
        "translate": prediction(outputs=[b"eins"], scores=[-0.5]),
        "translate_nbest": prediction(outputs=[[b"eins", b"zwei"]], scores=[[-0.5, -1.5]]),
        "score": prediction(log_probs=[-0.5]),
        "tokenize": prediction(ids=[[5, 6, 0]], lengths=[2]),
        "translate_ids": prediction(output_ids=[[7, 0]], output_lengths=[1]),
        "metadata": description(),
        "ready": states(),
    }
