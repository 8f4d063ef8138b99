"""A client among servers that fail: every failure is one clear line, what may pass is retried."""

import concurrent.futures
import socket
import subprocess
import sys
import textwrap

import pytest

from keras_transformer.errors import UserInputError
from keras_transformer.installation import pip_install
from keras_transformer.serving import ServingError, TranslationClient
from keras_transformer.toolkit.serving import served_model
from keras_transformer.toolkit.serving.connection import (
    MESSAGE_LENGTH,
    InvalidAnswer,
    ModelNotFound,
    ModelNotReady,
    RequestRefused,
    RequestTimedOut,
    ServerUnavailable,
    ServerUnreachable,
    VersionNotFound,
    one_line,
)
from tests.serving.servers.certificates import Certificates
from tests.serving.servers.messages import is_one_line, told
from tests.serving.servers.scripted_server import (
    RESET,
    SILENT,
    BrokenOff,
    Dripping,
    Endless,
    Held,
    ScriptedServer,
    answer,
)
from tests.waiting import wait_until

GOOD = answer(body={"outputs": {"outputs": ["eins"], "scores": [-0.5]}})
NO_SERVABLE = answer(404, {"error": "Servable not found for request: Latest(en_de)"})
NO_VERSIONS = answer(404, {"error": "Could not find any versions of model en_de"})


def status(*states):
    """The answer of a status request: `(version, state, error message)` each."""
    versions = [
        {
            "version": str(version),
            "state": state,
            "status": {"error_code": "UNKNOWN" if message else "OK", "error_message": message},
        }
        for version, state, message in states
    ]
    return answer(body={"model_version_status": versions})


@pytest.fixture
def unused_address():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{one.getsockname()[1]}"


@pytest.mark.parametrize(
    "failure",
    [
        answer(429, {"error": "Too many"}),
        answer(502, b"<html>Bad gateway</html>", "text/html"),
        answer(503, {"error": "The batch scheduling queue is full"}),
        answer(504, b"<html>Gateway timeout</html>", "text/html"),
        RESET,
        BrokenOff(b""),
        BrokenOff(GOOD[:-5]),
    ],
    ids=["429", "502", "503", "504", "reset", "nothing", "cut short"],
)
def test_what_may_pass_is_retried(failure, pauses):
    with ScriptedServer(failure, failure, failure, GOOD) as server:
        client = TranslationClient(server.address, "en_de", retries=3)
        assert client.translate(["one"]) == ["eins"]
        assert len(server.requests) == 4
        assert len(pauses) == 3


BODY = b'{"outputs": {"outputs": ["eins"], "scores": [-0.5]}}'
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (
    len(BODY),
    BODY,
)
UNENDING = b"HTTP/1.1 200 OK\r\n\r\n" + b" " * 100
LOADED = status((2, "AVAILABLE", ""), (10, "AVAILABLE", ""), (1, "END", ""))
LONG = "Graph execution error:\n\n" + "\t[[node]]\n" * 1000
# The answers, options of the client, the error, and what its message has.
WILL_NOT_PASS = {
    "400": ([answer(400, {"error": "No good"})], {}, RequestRefused, ["No good"]),
    "500": ([answer(500, {"error": "Internal"})], {}, RequestRefused, ["Internal"]),
    "504": ([answer(504, {"error": "Timed out"})], {}, RequestTimedOut, ["Timed out"]),
    "404": ([answer(404, b"<html>Not here</html>", "text/html")], {}, InvalidAnswer, []),
    "301": ([answer(301, b"")], {}, InvalidAnswer, []),
    "silent": ([SILENT], {"timeout": 0.2}, RequestTimedOut, ["0.2 s", "`timeout`"]),
    "falls silent": ([GOOD[:-5]], {"timeout": 0.2}, RequestTimedOut, ["0.2 s"]),
    # Each byte comes soon after that before it: 0.02 s, together at least 2 s.
    "known length": ([Dripping(GOOD)], {"timeout": 0.3}, RequestTimedOut, ["0.3 s"]),
    "chunks": ([Dripping(CHUNKED)], {"timeout": 0.3}, RequestTimedOut, ["0.3 s"]),
    "until the end": ([Dripping(UNENDING)], {"timeout": 0.3}, RequestTimedOut, ["0.3 s"]),
    "no model": (
        [NO_SERVABLE, NO_VERSIONS], {}, ModelNotFound, ["no model `en_de`", "--model_name"],
    ),
    "no version": (
        [NO_SERVABLE, LOADED], {"version": 7}, VersionNotFound,
        ["no version 7", "Its versions are 2, 10."],
    ),
    "loading": (
        [NO_SERVABLE, status((1, "LOADING", ""))], {}, ModelNotReady, ["version 1 is LOADING"],
    ),
    "a long message": (
        [answer(400, {"error": LONG})], {}, RequestRefused, ["Graph execution error: [[node]]"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WILL_NOT_PASS)
def test_what_will_not_pass_is_told_and_not_retried(name, pauses):
    answers, options, error, parts = WILL_NOT_PASS[name]
    message = told(error, *answers, GOOD, **options)
    assert [part for part in parts if part not in message] == []
    assert pauses == []
    assert issubclass(error, UserInputError)


OK = b"HTTP/1.1 200 OK\r\n"
CONTINUE = b"HTTP/1.1 100 Continue\r\n"
DRIPS = {
    "status line": Endless(b"HTTP/1.1 200 O", b"K", 0.05),
    "header": Endless(OK + b"X: ", b"y", 0.05),
    "headers": Endless(OK, b"X: y\r\n", 0.05),
    "body": Endless(OK + b"\r\n", b" ", 0.05),
    "chunk": Endless(OK + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n", 0.05),
    "1xx": Endless(CONTINUE + b"\r\n", CONTINUE + b"\r\n", 0.05),
    "1xx without a pause": Endless(b"", (CONTINUE + b"\r\n") * 1000),
    "header of a 1xx": Endless(CONTINUE + b"X: ", b"y", 0.05),
}


@pytest.mark.parametrize("is_encrypted", [False, True])
@pytest.mark.parametrize("place", DRIPS)
def test_an_answer_that_drips_ends_with_the_timeout(place, is_encrypted, tmp_path):
    certificates = Certificates(tmp_path) if is_encrypted else None
    tls = certificates and certificates.server_context()
    authorities = certificates and certificates.authority
    with ScriptedServer(DRIPS[place], tls=tls) as server:
        client = TranslationClient(
            server.address, "en_de", timeout=0.5, ca_certificates=authorities
        )
        with pytest.raises(RequestTimedOut, match="no answer within 0.5 s"):  # it has no end
            client.translate(["one"])


def test_so_does_a_greeting_of_tls():
    record = Endless(b"\x16\x03\x03\x40\x00", b"\0", 0.05)
    with ScriptedServer(record) as server:
        client = TranslationClient(
            server.address.replace("http:", "https:"), "en_de", timeout=0.5, retries=0
        )
        with pytest.raises(ServingError, match="within 0.5 s"):
            client.translate(["one"])


FULL = answer(503, {"error": "Full"})


def test_pauses_double_up_to_a_limit(monkeypatch, pauses):
    monkeypatch.setattr(served_model.random, "uniform", lambda low, high: high)
    message = told(ServerUnavailable, FULL, retries=8, backoff=0.5)
    assert message.endswith("HTTP 503: Full. Tried 9 times.")
    assert pauses == [0.5, 1.0, 2.0, 4.0, 8.0, 10.0, 10.0, 10.0]


def test_pauses_are_spread(pauses):
    told(ServerUnavailable, FULL, retries=50, backoff=4.0)
    later = pauses[2:]
    assert all(5.0 <= pause <= 10.0 for pause in later)
    assert len(set(later)) == len(later)
    assert max(later) - min(later) > 2.0


def test_pauses_of_very_many_retries_and_of_none(pauses):
    assert told(ServerUnavailable, FULL, retries=0).endswith("HTTP 503: Full.")
    assert pauses == []
    message = told(ServerUnavailable, FULL, retries=1500, backoff=0.0)
    assert message.endswith("Full. Tried 1501 times.")
    assert set(pauses) == {0.0}


def test_a_refused_connection(unused_address, pauses):
    client = TranslationClient(unused_address, "en_de", retries=2)
    with pytest.raises(ServerUnreachable) as caught:
        client.translate(["one"])
    assert is_one_line(caught, unused_address, "en_de", "refused", "--rest_api_port", "3 times")
    assert not client.ready()


def test_slow_answers_in_time(monkeypatch):
    monkeypatch.setattr(Dripping, "PAUSE", 0.005)
    with ScriptedServer(Dripping(GOOD), Dripping(CHUNKED), GOOD) as server:
        client = TranslationClient(server.address, "en_de", timeout=60, retries=0)
        assert [client.translate(["one"]) for _ in range(3)] == [["eins"]] * 3
        assert server.num_connections == 1


@pytest.mark.parametrize("score", ["NaN", "Infinity", "-Infinity", "-1e9"])
def test_scores_that_are_no_numbers(score):
    """A damaged model must not pass for one that translates everything to nothing."""
    rows = [
        ("translate", b'{"outputs": {"outputs": [""], "scores": [%s]}}'),
        ("translate_nbest", b'{"outputs": {"outputs": [["", ""]], "scores": [[%s, -1]]}}'),
    ]
    for method, body in rows:
        with ScriptedServer(answer(body=body % score.encode())) as server:
            client = TranslationClient(server.address, "en_de")
            with pytest.raises(InvalidAnswer, match="scores are not finite"):
                getattr(client, method)(["one"])


def test_places_that_no_hypothesis_took_are_left_out():
    outputs = {
        "outputs": [["a", "", ""], ["b", "c", ""]],
        "scores": [[-1, -1e9, -1e9], [0, -2, -1e9]],
    }
    with ScriptedServer(answer(body={"outputs": outputs})) as server:
        client = TranslationClient(server.address, "en_de")
        assert client.translate_nbest(["one", "two"]) == [[("a", -1)], [("b", 0), ("c", -2)]]
        assert client.translate_nbest(["one", "two"], 1) == [[("a", -1)], [("b", 0)]]


def test_connections_are_kept():
    with ScriptedServer(GOOD) as server, TranslationClient(server.address, "en_de") as client:
        for _ in range(20):
            client.translate(["one"])
        assert server.num_connections == 1
        with concurrent.futures.ThreadPoolExecutor(4) as threads:
            assert list(threads.map(client.translate, [["one"]] * 100)) == [["eins"]] * 100
        assert server.num_connections <= 4
    assert len(server.requests) == 120


def test_a_closed_client():
    with ScriptedServer(GOOD) as server:
        with TranslationClient(server.address, "en_de") as client:
            client.translate(["one"])
        with pytest.raises(ServingError, match="en_de`: the client is closed"):
            client.translate(["one"])


def test_closing_while_a_request_runs():
    """It has its answer, and then its connection is closed too."""
    held = Held(GOOD)
    with (
        ScriptedServer(held) as server,
        concurrent.futures.ThreadPoolExecutor(1) as threads,
    ):
        client = TranslationClient(server.address, "en_de", timeout=3600)
        found = threads.submit(client.translate, ["one"])
        wait_until(lambda: server.requests)
        client.close()
        assert not found.done()
        held.released.set()
        assert found.result() == ["eins"]
        wait_until(lambda: server.num_open == 0)


def test_a_server_without_encryption(pauses):
    with ScriptedServer(GOOD) as server:
        client = TranslationClient(server.address.replace("http:", "https:"), "en_de")
        with pytest.raises(ServerUnreachable, match="SSL"):
            client.translate(["one"])
        with pytest.raises(ServerUnreachable, match="SSL"):
            client.wait_until_ready()
        assert not client.ready()
    assert pauses == []


def test_waiting_until_a_model_is_loaded(pauses):
    steps = [answer(503, {"error": "Starting"}), NO_VERSIONS, NO_VERSIONS]
    steps += [status((1, "START", "")), status((1, "LOADING", "")), status((1, "AVAILABLE", ""))]
    with ScriptedServer(*steps) as server:
        TranslationClient(server.address, "en_de").wait_until_ready(timeout=60)
        assert len(server.requests) == 6


def test_waiting_ends(pauses, unused_address):
    with pytest.raises(ServerUnreachable, match=r"Waited 3 s\.$"):
        TranslationClient(unused_address, "en_de").wait_until_ready(timeout=3)
    assert sum(pauses) == pytest.approx(3.0)
    with ScriptedServer(NO_VERSIONS) as server, pytest.raises(ModelNotFound, match=r"Waited 1 s\."):
        TranslationClient(server.address, "en_de").wait_until_ready(timeout=1)


def test_nobody_waits_for_a_model_that_failed_to_load(pauses):
    failed = status((1, "END", "Op type not registered 'SentencepieceOp'\nin binary"))
    with ScriptedServer(failed) as server, pytest.raises(ModelNotReady) as caught:
        TranslationClient(server.address, "en_de").wait_until_ready()
    with ScriptedServer(failed) as server:
        assert not TranslationClient(server.address, "en_de").ready()
    assert is_one_line(caught, "version 1 is END (Op type not registered 'SentencepieceOp' in")
    assert pauses == []


def test_the_latest_version_may_fail_where_another_serves():
    states = status((2, "END", "broken"), (1, "AVAILABLE", ""))
    with ScriptedServer(states) as server:
        assert TranslationClient(server.address, "en_de").ready()


@pytest.mark.parametrize(
    ("address", "package", "module"),
    [
        ("http://localhost:8501", "requests", "rest_transport"),
        ("grpc://localhost:8500", "tensorflow", "tensorflow_grpc_transport"),
        ("grpc://localhost:8500", "grpc", "tensorflow_grpc_transport"),
    ],
)
def test_a_missing_package(address, package, module, monkeypatch):
    monkeypatch.delitem(sys.modules, f"keras_transformer.toolkit.serving.{module}", raising=False)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ServingError) as caught:
        TranslationClient(address, "en_de")
    assert is_one_line(caught, address, f"`{package}`", pip_install("serving"))


def test_the_client_needs_neither_keras_nor_tensorflow():
    code = """
        import sys
        for name in ("keras", "tensorflow", "jax", "numpy"):
            sys.modules[name] = None
        from keras_transformer.serving import TranslationClient
        with TranslationClient(sys.argv[1], "en_de") as client:
            print(client.translate(["one"]))
    """
    with ScriptedServer(GOOD) as server:
        command = [sys.executable, "-c", textwrap.dedent(code), server.address]
        found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (found.stdout, found.stderr) == ("['eins']\n", "")


def test_bytes_of_another_protocol_are_no_control_characters():
    assert one_line("\x00\x04\x1b[31mü\ufffd") == "\ufffd\ufffd\ufffd[31mü\ufffd"


def test_a_long_message_is_cut():
    assert one_line("x" * 10 * MESSAGE_LENGTH) == "x" * MESSAGE_LENGTH + "..."
