"""The client's side of gRPC, where no server is to blame."""

import concurrent.futures
import socket

import pytest

from keras_transformer.toolkit.serving.connection import ClientClosed, Connection
from keras_transformer.toolkit.serving.served_model import ServedModel

pytestmark = pytest.mark.tensorflow


@pytest.fixture
def silent_address():
    """Of a server that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"grpc://127.0.0.1:{server.getsockname()[1]}"


def served_model(address, version=None):
    connection = Connection(address)
    return ServedModel(connection, "en_de", version, timeout=60, retries=0, backoff=0.0)


def test_a_request_that_cannot_be_made_is_no_answer_of_the_server(silent_address):
    with pytest.raises(UnicodeEncodeError):
        served_model(silent_address).predict("translate", {"inputs": ["\ud800"]})
    with pytest.raises(ValueError, match="out of range") as caught:
        served_model(silent_address, version=2**70).metadata()
    assert "server" not in str(caught.value)


def test_a_channel_that_is_closed_just_before_a_request(silent_address):
    from keras_transformer.toolkit.serving.tensorflow_grpc_transport import GrpcTransport

    transport = GrpcTransport(Connection(silent_address), "en_de", None)
    transport.close()
    for request in (lambda: transport.status(True, 1.0), lambda: transport.metadata(1.0)):
        with pytest.raises(ClientClosed, match="en_de`: the client is closed"):
            request()


def test_closing_while_a_request_runs(silent_address):
    model = served_model(silent_address)
    with concurrent.futures.ThreadPoolExecutor(1) as threads:
        found = threads.submit(model.metadata)
        with pytest.raises(TimeoutError):
            found.result(0.3)
        model.close()
        with pytest.raises(ClientClosed, match="en_de`: the client is closed"):
            found.result()
