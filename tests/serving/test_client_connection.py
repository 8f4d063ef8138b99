"""What a client sends to prove who asks: to its server alone, and shown nowhere."""

import base64
import traceback

import pytest

from keras_transformer.serving import TranslationClient
from keras_transformer.toolkit.serving.connection import (
    InvalidAnswer,
    RequestRefused,
    ServingError,
    checked_connection,
)
from tests.serving.servers.messages import chain_text, is_one_line
from tests.serving.servers.scripted_server import RESET, ScriptedServer, answer

GOOD = answer(body={"outputs": {"outputs": ["eins"], "scores": [-0.5]}})
PASSWORD, TOKEN = "pass:w@rd/1", "token-1234=="
QUOTED = "pass:w%40rd%2F1"
PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch):
    for name in PROXIES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


def headers_sent(server):
    """The headers of the last request, by name in small letters."""
    pairs = (line.partition(": ") for line in server.heads[-1].splitlines()[1:])
    return {name.lower(): value for name, _, value in pairs}


def with_user(server, user=f"me:{QUOTED}"):
    return server.address.replace("://", f"://{user}@")


def basic(user):
    return f"Basic {base64.b64encode(user.encode()).decode()}"


@pytest.mark.parametrize(
    ("user", "expected"),
    [
        (f"me:{QUOTED}", f"me:{PASSWORD}"),
        ("me", "me:"),
        ("m%C3%A9:p%E2%82%AC", "mé:p€"),
        ("me:a@b", "me:a@b"),
    ],
)
def test_a_user_in_the_address_is_basic_authorization(user, expected):
    with ScriptedServer(GOOD) as server:
        client = TranslationClient(with_user(server, user), "en_de")
        assert client.translate(["one"]) == ["eins"]
        assert client.address == server.address
        assert headers_sent(server)["authorization"] == basic(expected)


def test_a_token_and_headers():
    with ScriptedServer(GOOD) as server:
        client = TranslationClient(
            server.address, "en_de", token=TOKEN, headers={"X-Api-Key": "a b", "User-Agent": "me"}
        )
        client.translate(["one"])
        sent = headers_sent(server)
    assert sent["authorization"] == f"Bearer {TOKEN}"
    assert (sent["x-api-key"], sent["user-agent"]) == ("a b", "me")


@pytest.mark.tensorflow
def test_grpc_sends_them_as_metadata():
    from tests.serving.servers.scripted_grpc_server import ScriptedGrpcServer

    with ScriptedGrpcServer(b"") as server:
        for address, options, expected in (
            (server.address, {"token": TOKEN}, f"Bearer {TOKEN}"),
            (with_user(server), {}, basic(f"me:{PASSWORD}")),
            (server.address, {"headers": {"Authorization": "Own x"}}, "Own x"),
        ):
            with TranslationClient(address, "en_de", **options) as client:
                assert not client.ready()
            assert server.metadata[-1]["authorization"] == expected


@pytest.mark.parametrize("address", [8501, "http://me:secret@host:port", "http://me:12/secret@h:80",
                                     "http://me:secret@[::1", "me:secret@host", "ftp://secret@host",
                                     "grpc://me:secret@host", "http://me:secret@host\\x:80",
                                     "http://me:secret\u2100@\u2100:80"])  # fmt: skip
def test_a_wrong_address_shows_no_password(address):
    with pytest.raises(ValueError, match="`address` must be .*Received: address=") as caught:
        TranslationClient(address, "en_de")
    assert is_one_line(caught)
    assert "secret" not in "".join(traceback.format_exception(caught.value)).split("Error: ", 1)[1]
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("failure", "error"),
    [
        (answer(403, {"error": f"{PASSWORD} {TOKEN} key-5678 !"}), RequestRefused),
        (answer(200, f"who is {TOKEN} {PASSWORD}?".encode()), InvalidAnswer),
        (answer(200, f"<b>{basic(f'me:{PASSWORD}')}</b>".encode()), InvalidAnswer),
        (answer(400).replace(b"Reason", f"{TOKEN} {PASSWORD}".encode()), InvalidAnswer),
        (TOKEN.encode() + b"\r\n\r\n", ServingError),
        (RESET, ServingError),
    ],
    ids=["error", "page", "encoded", "reason", "no HTTP", "reset"],
)
def test_no_message_shows_what_the_server_repeats(failure, error):
    for options in ({"token": TOKEN}, {}):
        with ScriptedServer(failure) as server:
            address = server.address if options else with_user(server)
            options["headers"] = {"X-Key": "key-5678"}
            client = TranslationClient(address, "en_de", retries=0, **options)
            with pytest.raises(error) as caught:
                client.translate(["one"])
        assert is_one_line(caught, server.address)
        mine = [TOKEN] if "token" in options else [PASSWORD, basic(f"me:{PASSWORD}")[6:]]
        assert [one for one in [*mine, "key-5678"] if one in str(caught.value)] == []


def test_neither_reprs_nor_chains_show_a_secret():
    with ScriptedServer(RESET) as server:
        for address, options in ((with_user(server), {}), (server.address, {"token": TOKEN})):
            connection = checked_connection(address, headers={"X-Key": "key-5678"}, **options)
            client = TranslationClient(address, "en_de", retries=1, backoff=0.0, **options)
            with pytest.raises(ServingError) as caught:
                client.translate(["one"])
            shown = f"{connection!r} {vars(client)!r} {chain_text(caught)}"
            for secret in (PASSWORD, QUOTED, TOKEN, "key-5678", basic(f"me:{PASSWORD}")[6:]):
                assert secret not in shown


def test_a_redirect_carries_nothing_to_another_server():
    with ScriptedServer(GOOD) as other:
        to_other = answer(302).replace(
            b"Content-Type", f"Location: {other.address}/\r\nContent-Type".encode()
        )
        with ScriptedServer(to_other) as server, pytest.raises(InvalidAnswer, match="HTTP 302"):
            TranslationClient(server.address, "en_de", token=TOKEN).translate(["one"])
        assert other.num_connections == 0


@pytest.fixture
def netrc(tmp_path, monkeypatch):
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login me password from-netrc")
    (tmp_path / "netrc").chmod(0o600)
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))


@pytest.mark.usefixtures("netrc")
def test_a_netrc_is_read_where_it_is_asked_for_alone():
    with ScriptedServer(GOOD) as server:
        for options, expected in (
            ({}, None),
            ({"netrc": True}, basic("me:from-netrc")),
            ({"token": TOKEN}, f"Bearer {TOKEN}"),
            ({"token": TOKEN, "netrc": True}, f"Bearer {TOKEN}"),
            ({"headers": {"AUTHORIZATION": "Own x"}, "netrc": True}, "Own x"),
        ):
            TranslationClient(server.address, "en_de", **options).translate(["one"])
            assert headers_sent(server).get("authorization") == expected


def test_a_proxy_of_the_environment(monkeypatch):
    with ScriptedServer(GOOD) as proxy:
        monkeypatch.setenv("http_proxy", with_user(proxy, "you:proxys"))
        client = TranslationClient("http://nowhere.example:80", "en_de", token=TOKEN)
        assert client.translate(["one"]) == ["eins"]
        assert proxy.heads[0].startswith("POST http://nowhere.example:80/v1/models/en_de:predict")
        assert headers_sent(proxy)["proxy-authorization"] == basic("you:proxys")
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        TranslationClient(proxy.address, "en_de").translate(["one"])
        assert proxy.heads[1].startswith("POST /v1/models/en_de:predict")


@pytest.mark.parametrize(
    "proxy", ["http://me:secret@", "::::secret@", "http://me:secret/1@host:1", "http://secret@h:x"]
)
def test_what_is_no_address_of_a_proxy(proxy, monkeypatch):
    monkeypatch.setenv("http_proxy", proxy)
    with pytest.raises(ServingError) as caught:
        TranslationClient("http://nowhere.example:80", "en_de")
    assert is_one_line(caught, "nowhere.example", "http_proxy")
    assert "secret" not in chain_text(caught)


BROKEN = "secret-value\n"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"token": BROKEN}, "`token` must be None or a string of printable ASCII"),
        ({"token": ""}, "`token` must be"),
        ({"token": "sécret"}, "`token` must be"),
        ({"token": b"secret"}, "`token` must be"),
        ({"token": "a secret"}, "`token` must be"),
        ({"headers": [("a", "secret")]}, "`headers` must be None or a dict"),
        ({"headers": {"X-A": BROKEN}}, r"`headers` must have values .*headers\['X-A'\]"),
        ({"headers": {"X-A": " secret"}}, r"`headers` must have values .*headers\['X-A'\]"),
        ({"headers": {"X-A": "sécret"}}, r"`headers` must have values .*headers\['X-A'\]"),
        ({"headers": {"X-A": b"secret"}}, r"`headers` must have values .*headers\['X-A'\]"),
        ({"headers": {"X-A": ""}}, r"`headers` must have values .*headers\['X-A'\]"),
        ({"headers": {"X\nA": "secret"}}, r"`headers` must have names .*Received: 'X\\nA'"),
        ({"headers": {"X-A": "secret", "x-a": "b"}}, "`headers` must have names .*: 'x-a'"),
        ({"headers": {"": "secret"}}, "`headers` must have names"),
        ({"headers": {3: "secret"}}, "`headers` must have names .*Received: 3"),
        ({"headers": {"Content-Length": "1"}}, "`headers` must have names"),
        ({"headers": {"Transfer-Encoding": "chunked"}}, "`headers` must have names"),
        ({"headers": {"Host": "elsewhere"}}, "`headers` must have names"),
        ({"headers": {"grpc-timeout": "1"}}, "`headers` must have names"),
        ({"headers": {"x-bin": "secret"}}, "`headers` must have names"),
        ({"headers": {"authorization": "secret"}, "token": "secret"}, "mutually exclusive"),
        ({"address": "http://me:secret@host:1", "token": "secret"}, "mutually exclusive"),
        ({"netrc": 1}, "`netrc` must be True or False. Received: netrc=1"),
        ({"netrc": True, "address": "grpc://host:1"}, "`netrc` must be False for gRPC"),
    ],
)
def test_wrong_credentials(options, message):
    with pytest.raises(ValueError, match=message) as caught:
        TranslationClient(**{"address": "http://localhost:1", "model": "en_de"} | options)
    assert is_one_line(caught)
    assert "secret" not in chain_text(caught)
