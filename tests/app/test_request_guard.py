"""Who may ask, how much, and what every answer says to a browser."""

import json
import socket

import httpx
import pytest

from keras_transformer.toolkit.app import AppLimits
from keras_transformer.toolkit.app.request_guard import RequestGuard
from tests.app.fake_run import FakeRun

ASK = {"text": "a house"}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


def code_of(response):
    return response.status_code, response.json()["error"]["code"]


@pytest.mark.parametrize(
    "path",
    ["", "page/main.js", "attention/attention.css", "api/runs", "api/openapi.json", "api/no", "no"],
)
def test_every_answer_has_the_headers_of_a_closed_page(fake_app, path):
    headers = fake_app.get(path).headers
    assert headers["content-security-policy"] == POLICY
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert headers["cache-control"] == ("no-store" if path.startswith("api") else "no-cache")
    assert headers.keys().isdisjoint({"set-cookie", "server", "access-control-allow-origin"})


def test_a_refusal_has_them_too(fake_app):
    refused = fake_app.post("api/translate", content=b"{")
    assert refused.headers["content-security-policy"] == POLICY


@pytest.mark.parametrize(
    ("host", "is_answered"),
    [
        ("localhost:80", True),
        ("LOCALHOST", True),
        ("127.0.0.1:1", True),
        ("[::1]:8080", True),
        ("localhost.:80", True),
        ("attacker.example", False),
        ("attacker.example:8080", False),
        ("127.0.0.1.attacker.example", False),
        ("localhost.attacker.example", False),
        ("192.168.1.1", False),
        ("user@localhost@attacker.example", False),
        ("attacker.example@localhost", False),
        ("localhost/attacker.example", False),
        ("localhost:80:80", False),
        ("[::1", False),
        ("", False),
    ],
)
def test_only_loopback_names_reach_an_app_on_loopback(fake_app, host, is_answered):
    for response in (
        fake_app.get("api/runs", headers={"Host": host}),
        fake_app.post("api/translate", json=ASK, headers={"Host": host}),
    ):
        assert response.status_code == (200 if is_answered else 403)
        assert is_answered or code_of(response) == (403, "host_refused")


@pytest.mark.parametrize(
    ("bound", "host", "is_answered"),
    [
        ("0.0.0.0", "192.168.1.7:8080", True),
        ("0.0.0.0", "localhost", True),
        ("0.0.0.0", socket.gethostname(), True),
        ("0.0.0.0", "attacker.example", False),
        ("192.168.1.7", "192.168.1.7:8080", True),
        ("192.168.1.7", "attacker.example", False),
        ("::1", "192.168.1.7", False),
    ],
)
def test_names_that_reach_an_app_elsewhere(bound, host, is_answered):
    assert status_of(RequestGuard(answer, AppLimits(), bound), host) == (
        200 if is_answered else 403
    )


@pytest.mark.parametrize("bound", ["127.0.0.1", "0.0.0.0"])
def test_a_proxy_may_give_the_app_a_name(bound):
    guard = RequestGuard(answer, AppLimits(), bound, ["Translate.example"])
    assert status_of(guard, "translate.example") == status_of(guard, "TRANSLATE.example:443") == 200
    assert status_of(guard, "a.translate.example") == status_of(guard, "example") == 403


async def answer(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b""})


def status_of(guard, host):
    """The status of the answer to a request that names a host."""
    sent = []

    async def send(message):
        sent.append(message)

    async def receive():
        return {"type": "http.disconnect"}

    headers = [(b"host", host.encode())]
    scope = {"type": "http", "method": "GET", "path": "/", "headers": headers}
    with pytest.raises(StopIteration):
        guard(scope, receive, send).send(None)
    return sent[0]["status"]


@pytest.mark.parametrize(
    ("headers", "is_answered"),
    [
        ({"Origin": "{address}"}, True),
        ({"Origin": "{address}", "Sec-Fetch-Site": "same-origin"}, True),
        ({"Sec-Fetch-Site": "none"}, True),
        ({"Origin": "http://attacker.example"}, False),
        ({"Origin": "{address}.attacker.example"}, False),
        ({"Origin": "http://127.0.0.1:1"}, False),
        ({"Origin": "null"}, False),
        ({"Origin": ""}, False),
        ({"Origin": "http://[", "Sec-Fetch-Site": "none"}, False),
        ({"Sec-Fetch-Site": "cross-site"}, False),
        ({"Origin": "{address}", "Sec-Fetch-Site": "same-site"}, False),
    ],
)
def test_pages_of_other_sites_may_not_post(fake_app, headers, is_answered):
    address = str(fake_app.base_url).rstrip("/")
    headers = {name: value.format(address=address) for name, value in headers.items()}
    response = fake_app.post("api/translate", json=ASK, headers=headers)
    assert response.status_code == (200 if is_answered else 403)
    assert is_answered or code_of(response) == (403, "cross_origin")


def test_a_browser_learns_that_it_may_not_ask_for_another_site(fake_app):
    headers = {"Origin": "http://a.example", "Access-Control-Request-Method": "POST"}
    response = fake_app.options("api/translate", headers=headers)
    assert code_of(response) == (403, "cross_origin")


def answer_to(client, length_and_body):
    """All that a client is sent for a request whose body may be missing."""
    address = (client.base_url.host, client.base_url.port)
    with socket.create_connection(address, timeout=60) as connection:
        connection.sendall(
            b"POST /api/translate HTTP/1.1\r\nHost: localhost\r\n"
            b"Content-Type: application/json\r\nContent-Length: " + length_and_body
        )
        return connection.makefile("rb").read()


def test_a_body_that_announces_too_much_is_refused_unread(start):
    limits = AppLimits(characters=10)
    client = start(FakeRun(), limits=limits)
    answer = answer_to(client, b"99999999999999999999\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert json.loads(answer.split(b"\r\n\r\n")[1])["error"]["code"] == "body_too_large"


def test_a_body_that_goes_on_is_refused_where_it_is_too_large(start):
    limits = AppLimits(characters=10)
    client = start(FakeRun(), limits=limits)
    sent = []

    def parts():
        for _ in range(10_000):
            sent.append(1)
            yield b" " * 10_000

    try:
        response = client.post(
            "api/translate", content=parts(), headers={"Content-Type": "application/json"}
        )
    except httpx.TransportError:  # the connection was closed before the client had sent all
        pass
    else:
        assert code_of(response) == (413, "body_too_large")
    assert len(sent) < 10_000
    assert client.post("api/translate", json={"text": "ok"}).json()["text"] == "OK"


def test_a_body_that_never_comes_does_not_wait_for_ever(start):
    client = start(FakeRun(), limits=AppLimits(body_seconds=1))
    answer = answer_to(client, b"9\r\n\r\n{")
    assert answer.startswith(b"HTTP/1.1 408 ")


@pytest.mark.parametrize("refused", [{"Host": "evil.example"}, {"Origin": "http://evil.example"}])
def test_a_refusal_does_not_wait_for_the_body(fake_app, refused):
    headers = {"Host": "localhost", "Content-Length": "9"} | refused
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    address = (fake_app.base_url.host, fake_app.base_url.port)
    with socket.create_connection(address, timeout=60) as connection:
        connection.sendall(f"POST /api/translate HTTP/1.1\r\n{lines}\r\n".encode())
        assert connection.makefile("rb").read().startswith(b"HTTP/1.1 403 ")


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_request_has_one_length(fake_app, method):
    headers = {"Content-Length": "2", "Transfer-Encoding": "chunked"}
    response = fake_app.request(method, "api/runs", content=b"{}", headers=headers)
    assert code_of(response) == (400, "two_lengths")


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le"])
def test_a_body_is_utf8(fake_app, encoding):
    content = '{"text": "one"}'.encode(encoding)
    headers = {"Content-Type": "application/json"}
    response = fake_app.post("api/translate", content=content, headers=headers)
    assert code_of(response) == (400, "not_utf8")


def test_bad_requests_leave_no_lines_in_the_log(fake_app, caplog):
    address = (fake_app.base_url.host, fake_app.base_url.port)
    upgrade = b"Connection: upgrade\r\nUpgrade: websocket\r\n"
    for sent in (
        b"no request\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: evil@localhost\r\nConnection: close\r\n\r\n",
        b"GET /api/runs HTTP/1.1\r\nHost: localhost\r\n" + upgrade + b"\r\n",
    ):
        with socket.create_connection(address, timeout=60) as connection:
            connection.sendall(sent)
            connection.shutdown(socket.SHUT_WR)
            assert connection.makefile("rb").read()
    assert caplog.records == []
