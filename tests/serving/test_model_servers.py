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
    assert post({"inputs": [{"b64": "?"}]})[0] == 400


def test_an_empty_batch(post):
    assert post({"inputs": []}) == (200, {"outputs": {"outputs": [], "scores": []}})


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        {"inputs": ["a"], "instances": ["a"]},
        {"signature_name": "score", "inputs": ["a"]},
        {"signature_name": "x", "inputs": ["a"]},
    ],
    ids=str,
)
def test_wrong_bodies(post, body):
    code, answer = post(body)
    assert (code, list(answer)) == (400, ["error"])


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


@pytest.fixture(scope="module")
def predict(server):
    """A function that sends a gRPC request."""
    import grpc
    import tensorflow as tf
    from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

    with grpc.insecure_channel(server.grpc_address.removeprefix("grpc://")) as channel:
        stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)

        def predict(inputs, name="en_de", version=None, signature=""):
            request = predict_pb2.PredictRequest()
            request.model_spec.name = name
            request.model_spec.signature_name = signature
            if version is not None:
                request.model_spec.version.value = version
            for key, values in inputs.items():
                request.inputs[key].CopyFrom(tf.make_tensor_proto(values))
            return stub.Predict(request, timeout=60)

        yield predict


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ({"name": "x"}, "NOT_FOUND", "Servable not found for request: Latest(x)"),
        ({"version": 9}, "NOT_FOUND", "Specific(en_de, 9)"),
        ({"signature": "x"}, "FAILED_PRECONDITION", 'Serving signature key "x" not found.'),
        ({"signature": "score"}, "INVALID_ARGUMENT", "Missing but required: {'targets'}."),
        ({"inputs": {"inputs": [["a"]]}}, "INVALID_ARGUMENT", ""),
    ],
)
def test_grpc_errors(predict, arguments, code, message):
    import grpc

    with pytest.raises(grpc.RpcError) as caught:
        predict(**{"inputs": {"inputs": ["a"]}} | arguments)
    assert caught.value.code().name == code
    assert message in caught.value.details()
