import numpy as np
import pytest

from keras_transformer.serving import TranslationClient
from keras_transformer.toolkit.serving.connection import checked_address
from tests.serving.servers.scripted_server import ScriptedServer, answer


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("localhost:8501", "http://localhost:8501"),
        ("http://localhost:8501/", "http://localhost:8501"),
        ("https://translate.example.org", "https://translate.example.org"),
        ("https://example.org/models/", "https://example.org/models"),
        ("http://[::1]:8501", "http://[::1]:8501"),
        ("grpc://10.0.0.7:8500", "grpc://10.0.0.7:8500"),
        ("grpc://[::1]:8500/", "grpc://[::1]:8500"),
        ("GRPC://localhost:8500", "grpc://localhost:8500"),
        ("grpcs://localhost:8500", "grpcs://localhost:8500"),
        ("Https://Example.org/Models", "https://Example.org/Models"),
    ],
)
def test_addresses(address, expected):
    assert checked_address(address) == (expected, None)


@pytest.mark.parametrize(
    "address",
    [
        "", "localhost", "grpc://localhost", "ftp://localhost:21", "http://", "localhost:port",
        "localhost:99999", "http://localhost:8501?x=1", "grpc://localhost:8500/x", "host :8501",
        "http://host\n:8501", "http://\ud800:8501", "http://host:8501/\udfff", 8501, None,
        "grpcs://localhost", "grpcs://localhost:8500/x", "http://host\\x:8501", "http://h\x7f:1",
    ],
)  # fmt: skip
def test_what_is_no_address(address):
    with pytest.raises(ValueError, match=r"`address` must be .*Received: address="):
        TranslationClient(address, "en_de")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("model", ""), ("model", None), ("model", "en/de"), ("model", "en:de"),
        ("model", "en_\ud800"), ("version", -1), ("version", 2**63), ("version", "1"),
        ("version", True), ("version", 1.0), ("timeout", 0), ("timeout", None),
        ("timeout", float("inf")), ("timeout", float("nan")), ("timeout", 1e12),
        ("timeout", 10**400), ("timeout", 24 * 60 * 60 + 1), ("timeout", True), ("retries", -1),
        ("retries", 1.5), ("backoff", -0.1), ("backoff", "1"), ("batch_size", 0),
        ("batch_size", True),
    ],
)  # fmt: skip
def test_wrong_options(name, value):
    with pytest.raises(ValueError, match=f"`{name}` must be .*Received: {name}="):
        TranslationClient(**{"address": "localhost:1", "model": "en_de", name: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [("model", "en de.ü-1"), ("version", 0), ("version", 2**63 - 1), ("timeout", 24 * 60 * 60)],
)
def test_options_up_to_their_limits(name, value):
    client = TranslationClient(**{"address": "localhost:1", "model": "en_de", name: value})
    assert getattr(client, name) == value


@pytest.mark.parametrize("timeout", [0, float("inf"), 1e12])
def test_wrong_timeouts_of_waiting(timeout):
    client = TranslationClient("localhost:1", "en_de")
    with pytest.raises(ValueError, match="`timeout` must be .*Received: timeout="):
        client.wait_until_ready(timeout)


@pytest.mark.parametrize("sentences", ["one", b"one", ["one", 2], [None], [b"one"]])
def test_wrong_sentences(sentences):
    client = TranslationClient("localhost:1", "en_de", retries=0)
    takes_one = [] if isinstance(sentences, str) else [client.translate, client]
    for method in (*takes_one, client.translate_nbest, client.tokenize):
        with pytest.raises(ValueError, match="`sentences` must be a list of strings"):
            method(sentences)
    with pytest.raises(ValueError, match="`targets` must be a list of strings"):
        client.score(["one"], sentences)


def test_pairs_must_be_as_many():
    client = TranslationClient("localhost:1", "en_de", retries=0)
    with pytest.raises(ValueError, match="Received: 2 sources, 1 targets"):
        client.score(["one", "two"], ["eins"])


@pytest.mark.parametrize("rows", [["ab"], [3], [[1.0]], [[True]], [["1"]], [[2**31]], [[[1]]]])
def test_wrong_rows(rows):
    client = TranslationClient("localhost:1", "en_de", retries=0)
    with pytest.raises(ValueError, match=r"`rows\[0\]` must be .*Received: rows\[0\]="):
        client.translate_ids(rows)


def test_nothing_is_asked_for_nothing():
    client = TranslationClient("localhost:1", "en_de", retries=0)  # where nobody answers
    assert client.translate([]) == []
    assert client.translate_nbest(iter([]), n=3) == []
    assert client.score([], []) == []
    assert client.tokenize([]) == []
    assert client.translate_ids([]) == []


@pytest.mark.parametrize("n", [0, -1, 1.0, True])
def test_wrong_n(n):
    with pytest.raises(ValueError, match="`n` must be a positive integer"):
        TranslationClient("localhost:1", "en_de").translate_nbest(["one"], n=n)


def test_rows_of_numpy_are_sent_as_integers():
    outputs = {"output_ids": [[7, 0], [8, 9]], "output_lengths": [1, 2]}
    with ScriptedServer(answer(body={"outputs": outputs | {"scores": [-1, -2]}})) as server:
        client = TranslationClient(server.address, "en_de")
        assert client.translate_ids(np.array([[5, 6], [7, 8]])) == [[7], [8, 9]]
        assert server.requests[0]["inputs"] == {
            "input_ids": [[5, 6], [7, 8]],
            "input_lengths": [2, 2],
        }
