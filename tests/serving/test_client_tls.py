"""Encrypted connections, to real servers with certificates that the test makes."""

import pytest

from keras_transformer.serving import TranslationClient
from keras_transformer.toolkit.serving.connection import ServerUnreachable, checked_connection
from tests.serving.servers.certificates import Certificates
from tests.serving.servers.messages import is_one_line
from tests.serving.servers.scripted_server import ScriptedServer, answer

APIS = ("rest", pytest.param("grpc", marks=pytest.mark.tensorflow))
STATES = {"model_version_status": [{"version": "1", "state": "AVAILABLE", "status": {}}]}


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(autouse=True)
def _authorities_of_the_environment(certificates, monkeypatch):
    """What is given to a client is stronger than these."""
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.setenv(name, str(certificates.other_authority))


@pytest.fixture(params=APIS)
def new_server(request, certificates):
    """A function that makes a server; with `asks_clients` one that wants their certificates."""

    def new_server(asks_clients=False):
        if request.param == "rest":
            return ScriptedServer(
                answer(body=STATES), tls=certificates.server_context(asks_clients)
            )
        from tensorflow_serving.apis.get_model_status_pb2 import GetModelStatusResponse

        from tests.serving.servers.scripted_grpc_server import ScriptedGrpcServer

        states = GetModelStatusResponse()
        states.model_version_status.add(version=1, state="AVAILABLE")
        credentials = certificates.grpc_credentials(asks_clients)
        return ScriptedGrpcServer(states.SerializeToString(), credentials)

    return new_server


def test_the_right_authority(new_server, certificates):
    with new_server() as server:
        authority = certificates.authority
        with TranslationClient(server.address, "en_de", ca_certificates=authority) as client:
            assert client.ready()
        assert server.address.startswith(("https://", "grpcs://"))


@pytest.mark.parametrize("authority", ["other_authority", None])
def test_another_authority(new_server, certificates, authority, pauses):
    path = authority and getattr(certificates, authority)
    with (
        new_server() as server,
        TranslationClient(server.address, "en_de", ca_certificates=path) as client,
    ):
        assert not client.ready()
        with pytest.raises(ServerUnreachable) as caught:
            client.translate(["one"])
    assert is_one_line(caught, server.address, "CERTIFICATE_VERIFY_FAILED", "`ca_certificates`")
    assert pauses == []  # it will not pass


def test_a_server_that_asks_for_a_certificate(new_server, certificates):
    options = {"ca_certificates": certificates.authority, "retries": 0}
    with new_server(asks_clients=True) as server:
        with (
            TranslationClient(server.address, "en_de", **options) as client,
            pytest.raises(ServerUnreachable) as caught,
        ):
            client.translate(["one"])
        assert is_one_line(
            caught, server.address, "does the server require a `client_certificate`?"
        )
        options["client_certificate"] = certificates.client
        with TranslationClient(server.address, "en_de", **options) as client:
            assert client.ready()


def test_a_server_with_another_name(new_server, certificates, pauses):
    with (
        new_server() as server,
        TranslationClient(
            server.address.replace("127.0.0.1", "localhost"),
            "en_de",
            ca_certificates=certificates.authority,
        ) as client,
        pytest.raises(ServerUnreachable, match="Is its certificate issued for exactly this host"),
    ):
        client.translate(["one"])
    assert pauses == []


def test_a_client_without_encryption(new_server):
    with new_server() as server:
        address = server.address.replace("https:", "http:").replace("grpcs:", "grpc:")
        with (
            TranslationClient(address, "en_de", retries=0) as client,
            pytest.raises(ServerUnreachable, match="no model server answers there"),
        ):
            client.translate(["one"])


@pytest.mark.tensorflow
def test_a_grpc_server_without_encryption(pauses):
    from tests.serving.servers.scripted_grpc_server import ScriptedGrpcServer

    with (
        ScriptedGrpcServer(b"") as server,
        TranslationClient(server.address.replace("grpc:", "grpcs:"), "en_de") as client,
        pytest.raises(ServerUnreachable, match="handshake"),
    ):
        client.translate(["one"])
    assert pauses == []


@pytest.mark.parametrize("address", ["http://localhost:1", "grpc://localhost:1", "localhost:1"])
@pytest.mark.parametrize("name", ["ca_certificates", "client_certificate"])
def test_certificates_need_encryption(address, name):
    with pytest.raises(ValueError, match=f"`{name}` needs an address with https:// or grpcs://"):
        TranslationClient(address, "en_de", **{name: "x"})


def test_wrong_files(certificates, tmp_path):
    (tmp_path / "empty").touch()
    certificate, key = certificates.client
    authorities = "ca_certificates", "the path of a PEM file"
    pair = "client_certificate", "the paths of .* no password on the key"
    for (name, rule), value, reason in (
        (authorities, tmp_path / "missing", "is not a file"),
        (authorities, tmp_path, "is not a file"),
        (authorities, "/dev/zero", "is not a file"),
        (authorities, "a\0b", "is not a file"),
        (authorities, b"path", "is not a file"),
        (authorities, 3, "not int"),
        (authorities, tmp_path / "empty", "NO_CERTIFICATE"),
        (authorities, key, "NO_CERTIFICATE"),
        (pair, certificate, "not a pair"),
        (pair, (certificate,), "expected 2, got 1"),
        (pair, (certificate, tmp_path / "missing"), "is not a file"),
        (pair, (certificate, certificates.server[1]), "KEY_VALUES_MISMATCH"),
        (pair, (key, certificate), "PEM lib"),
        # OpenSSL would ask for the password at the terminal.
        (pair, (certificate, certificates.encrypted_key("pass")), "PEM lib"),
    ):
        with pytest.raises(ValueError, match=f"`{name}` must be {rule}") as caught:
            checked_connection("https://localhost:1", **{name: value})
        assert is_one_line(caught, reason, f"Received: {name}={repr(value)[:300]}")
