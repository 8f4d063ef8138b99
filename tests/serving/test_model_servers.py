"""The tests' model server answers as TensorFlow Serving's documentation and sources say."""

import base64

import pytest
import requests

pytestmark = pytest.mark.tensorflow

MODEL = "/v1/models/en_de"


@pytest.fixture
def post(server):
    """A function that sends a body to the model; it returns the code and the answer."""

    def post(body, path=f"{MODEL}:predict"):
        data = {"data": body} if isinstance(body, bytes) else {"json": body}
        answer = requests.post(server.rest_address + path, **data, timeout=60)
        assert answer.headers["Content-Type"] == "application/json"
        return answer.status_code, answer.json()

    return post


def test_columns(post):
    code, answer = post({"inputs": ["one two three four", ""]})
    assert code == 200
    assert answer["outputs"]["outputs"] == ["eins zwei drei vier", ""]
    assert len(answer["outputs"]["scores"]) == 2
    named = {"signature_name": "translate", "inputs": {"inputs": ["one two three four", ""]}}
    assert post(named) == (200, answer)


def test_rows(post):
    code, answer = post({"instances": ["one two three four", ""]})
    assert code == 200
    assert [row["outputs"] for row in answer["predictions"]] == ["eins zwei drei vier", ""]
    assert post({"instances": [{"inputs": "one two three four"}, {"inputs": ""}]}) == (200, answer)


def test_one_output_has_no_name(post):
    row = {"inputs": "one", "targets": "eins"}
    body = {"signature_name": "score", "instances": [row]}
    code, answer = post(body)
    assert code == 200
    (score,) = answer["predictions"]
    assert score < 0
    columns = {name: [value] for name, value in row.items()}
    answer = {"outputs": [score]}
    assert post({"signature_name": "score", "inputs": columns}) == (200, answer)


def test_bytes_in_base64(post):
    encoded = base64.b64encode(b"one two three four").decode()
    _, answer = post({"inputs": [{"b64": encoded}]})
    assert answer["outputs"]["outputs"] == ["eins zwei drei vier"]
    broken = base64.b64encode(b"one \xff").decode()
    assert post({"inputs": [{"b64": broken}]}) == post({"inputs": ["one \ufffd"]})
    assert post(b'{"inputs": ["one \xff"]}') == post({"inputs": ["one \ufffd"]})
    assert post({"inputs": [{"b64": "?"}]}) == (400, {"error": "Unable to base64 decode"})


def test_an_empty_batch(post):
    assert post({"inputs": []}) == (200, {"outputs": {"outputs": [], "scores": []}})
    assert post({"instances": []})[0] == 400


@pytest.mark.parametrize(
    ("body", "code", "message"),
    [
        (b"", 400, "JSON Parse error: The document is empty"),
        (b"{", 400, "JSON Parse error"),
        (b"[]", 400, "Is not object"),
        (b"{}", 400, "Missing 'inputs' or 'instances' key"),
        ({"inputs": ["a"], "instances": ["a"]}, 400, "expecting only one of"),
        ({"inputs": [1]}, 400, "is not of expected type: string"),
        ({"inputs": ["a", ["b"]]}, 400, "unexpected level"),
        ({"inputs": {"text": ["a"]}}, 400, "Missing named input: inputs in 'inputs' object."),
        ({"instances": [{"text": "a"}]}, 400, "keys must be equal to: inputs"),
        ({"signature_name": "score", "inputs": ["a"]}, 400, "expecting an object"),
        ({"signature_name": "score", "instances": ["a"]}, 400, "expecting list of objects"),
        (
            {"signature_name": "x", "inputs": ["a"]},
            400,
            'Serving signature name: "x" not found in signature def',
        ),
        (b'{"inputs": ["\\ud800"]}', 400, "The surrogate pair in string is invalid."),
    ],
)
def test_wrong_bodies(post, body, code, message):
    found, answer = post(body)
    assert found == code
    assert message in answer["error"]


@pytest.mark.parametrize(
    ("path", "code", "message"),
    [
        ("/v1/models/x:predict", 404, "Servable not found for request: Latest(x)"),
        (f"{MODEL}/versions/9:predict", 404, "Servable not found for request: Specific(en_de, 9)"),
        (f"{MODEL}:translate", 400, f"Malformed request: POST {MODEL}:translate"),
        (MODEL, 400, f"Malformed request: POST {MODEL}"),
    ],
)
def test_wrong_paths(post, path, code, message):
    assert post({"inputs": ["one"]}, path) == (code, {"error": message})


def test_the_status(server):
    version = {
        "version": "1",
        "state": "AVAILABLE",
        "status": {"error_code": "OK", "error_message": ""},
    }
    for path in (MODEL, f"{MODEL}/versions/1"):
        answer = requests.get(server.rest_address + path, timeout=10)
        assert (answer.status_code, answer.json()) == (200, {"model_version_status": [version]})
    for path, message in {
        "/v1/models/x": "Could not find any versions of model x",
        f"{MODEL}/versions/9": "Could not find version 9 of model en_de",
    }.items():
        answer = requests.get(server.rest_address + path, timeout=10)
        assert (answer.status_code, answer.json()) == (404, {"error": message})
    assert requests.get(f"{server.rest_address}/", timeout=10).status_code == 404


def test_the_metadata(server):
    answer = requests.get(f"{server.rest_address}{MODEL}/metadata", timeout=10).json()
    assert answer["model_spec"] == {"name": "en_de", "signature_name": "", "version": "1"}
    signature = answer["metadata"]["signature_def"]["signature_def"]["translate"]
    assert signature["method_name"] == "tensorflow/serving/predict"
    info = signature["inputs"]["inputs"]
    assert info["dtype"] == "DT_STRING"
    shape = {"dim": [{"size": "-1", "name": ""}], "unknown_rank": False}
    assert info["tensor_shape"] == shape


@pytest.fixture(scope="module")
def predict(server):
    """A function that sends a gRPC request."""
    import grpc
    import tensorflow as tf
    from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

    with grpc.insecure_channel(server.grpc_address.removeprefix("grpc://")) as channel:
        stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)

        def predict(inputs, name="en_de", version=None, signature="", output_filter=()):
            request = predict_pb2.PredictRequest(output_filter=output_filter)
            request.model_spec.name = name
            request.model_spec.signature_name = signature
            if version is not None:
                request.model_spec.version.value = version
            for key, values in inputs.items():
                request.inputs[key].CopyFrom(tf.make_tensor_proto(values))
            return stub.Predict(request, timeout=60)

        yield predict


def test_grpc_names_what_answered(predict):
    answer = predict({"inputs": ["one two three four"]})
    assert answer.model_spec.name == "en_de"
    assert answer.model_spec.version.value == 1
    assert answer.model_spec.signature_name == "serving_default"
    assert sorted(answer.outputs) == ["outputs", "scores"]
    assert answer.outputs["outputs"].string_val[0].decode() == "eins zwei drei vier"


def test_grpc_sends_the_outputs_that_are_wanted(predict):
    answer = predict({"inputs": ["one"]}, output_filter=["scores"])
    assert list(answer.outputs) == ["scores"]
    assert answer.outputs["scores"].float_val[0] < 0


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ({"name": "x"}, "NOT_FOUND", "Servable not found for request: Latest(x)"),
        ({"version": 9}, "NOT_FOUND", "Specific(en_de, 9)"),
        ({"signature": "x"}, "FAILED_PRECONDITION", 'Serving signature key "x" not found.'),
        ({"signature": "score"}, "INVALID_ARGUMENT", "Missing but required: {targets}."),
        ({"output_filter": ["x"]}, "INVALID_ARGUMENT", "output tensor alias not found"),
        ({"inputs": {"inputs": [1]}}, "INVALID_ARGUMENT", "string but int32"),
        ({"inputs": {"inputs": [["a"]]}}, "INVALID_ARGUMENT", ""),
    ],
)
def test_grpc_errors(predict, arguments, code, message):
    import grpc

    with pytest.raises(grpc.RpcError) as caught:
        predict(**{"inputs": {"inputs": ["a"]}} | arguments)
    assert caught.value.code().name == code
    assert message in caught.value.details()


def test_batches_of_rows_of_different_lengths():
    """As in TensorFlow Serving, they need `pad_variable_length_inputs`."""
    import numpy as np

    from tests.serving.servers.servables import Batching, StatusError

    tasks = [
        {"inputs": {"x": np.ones([1, 2], "int32"), "y": np.ones([1], "int32")}, "size": 1},
        {"inputs": {"x": np.full([2, 4], 7, "int32"), "y": np.ones([2], "int32")}, "size": 2},
    ]
    with pytest.raises(StatusError, match="different shapes and padding is turned off"):
        Batching().merged(tasks)
    merged = Batching(pad_variable_length_inputs=True).merged(tasks)
    assert merged["x"].tolist() == [[1, 1, 1, 1], [7, 7, 7, 7], [7, 7, 7, 7]]
    assert merged["y"].shape == (3,)
