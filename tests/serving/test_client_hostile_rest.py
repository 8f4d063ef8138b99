"""A client before a REST server that means it ill: one line of a `ServingError`, or the truth."""

import gzip
import json
import random

import pytest

from keras_transformer.serving import ServingError, TranslationClient
from keras_transformer.serving.serving_errors import InvalidAnswer
from tests.serving.servers.messages import is_one_line
from tests.serving.servers.scripted_server import Endless, ScriptedServer, answer

pytestmark = pytest.mark.usefixtures("no_garbage_collection")  # brackets are nested deep

METHODS = {
    "translate": {"outputs": {"outputs": ["eins"], "scores": [-0.5]}},
    "translate_nbest": {"outputs": {"outputs": [["eins", "zwei"]], "scores": [[-0.5, -1.5]]}},
    "score": {"outputs": [-0.5]},
    "tokenize": {"outputs": {"ids": [[5, 6, 0]], "lengths": [2]}},
    "translate_ids": {"outputs": {"output_ids": [[7, 0]], "output_lengths": [1]}},
    "metadata": {
        "model_spec": {"version": "1"},
        "metadata": {
            "signature_def": {
                "signature_def": {
                    "translate": {
                        "inputs": {
                            "inputs": {
                                "dtype": "DT_STRING",
                                "tensor_shape": {"dim": [{"size": "-1"}], "unknown_rank": False},
                            }
                        }
                    }
                }
            }
        },
    },
    "ready": {
        "model_version_status": [
            {"version": "1", "state": "LOADING", "status": {"error_message": "Not yet"}}
        ]
    },
}
ARGUMENTS = {
    "translate": [["one"]],
    "translate_nbest": [["one"]],
    "score": [["one"], ["eins"]],
    "tokenize": [["one"]],
    "translate_ids": [[[5]]],
}
# In place of a number, as JSON.
NUMBERS = [
    "1" + "0" * 400, "-1" + "0" * 400, "1" * 4000, "1" * 5000, "1e999", "-1e999", "NaN", "Infinity",
    "true", "null", '"x"', f'"{"1" * 5000}"', "[]", "{}", "[" * 500 + "]" * 500,
]  # fmt: skip


def call(client, method):
    return getattr(client, method)(*ARGUMENTS.get(method, []))


def test_what_the_answers_are_where_nothing_is_wrong():
    found = {}
    for method, body in METHODS.items():
        with ScriptedServer(answer(body=body)) as server:
            found[method] = call(TranslationClient(server.address, "en_de"), method)
    assert found.pop("metadata")["version"] == 1
    assert found == {
        "translate": ["eins"],
        "translate_nbest": [[("eins", -0.5), ("zwei", -1.5)]],
        "score": [-0.5],
        "tokenize": [[5, 6]],
        "translate_ids": [[7]],
        "ready": False,
    }


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 100_000 + b"]" * 100_000,
        b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
        b"[" * 100_000,
        b'{"outputs": ' + b"[" * 900 + b"]" * 900 + b"}",
        b'{"outputs": "' + b"\\u0041" * 3 + b'", "model_spec": ' + b"[" * 900 + b"]" * 900 + b"}",
        b"1" * 5000,
        b'{"outputs": ' + b"1" * 4000 + b"}",
        b'"x"',
        b"NaN",
        b'{"outputs": {"outputs": {}, "scores": {}}}',
        b'{"model_spec": 1, "model_version_status": {"0": 1}, "metadata": []}',
        b'{"model_version_status": [[]], "metadata": {"signature_def": {"signature_def": []}}}',
        b'{"model_version_status": [{"version": "1", "state": ["AVAILABLE"]}]}',
        b'{"model_version_status": [{"version": "1", "state": "X", "status": null}]}',
        b'{"model_version_status": [{"version": 1, "state": "X", "status": {"error_message": 1}}]}',
    ],
    ids=range(15),
)
@pytest.mark.parametrize("method", METHODS)
def test_wrong_bodies(body, method):
    with ScriptedServer(answer(body=body)) as server:
        with pytest.raises(InvalidAnswer) as caught:
            call(TranslationClient(server.address, "en_de"), method)
        assert is_one_line(caught, server.address, "en_de")


@pytest.mark.parametrize(
    ("method", "place"),
    [
        ("translate", '{"outputs": {"outputs": ["eins"], "scores": [%s]}}'),
        ("translate_nbest", '{"outputs": {"outputs": [["a", "b"]], "scores": [[-1, %s]]}}'),
        ("translate_nbest", '{"outputs": {"outputs": [["a", "b"]], "scores": [[%s, -2]]}}'),
        ("score", '{"outputs": [%s]}'),
        ("tokenize", '{"outputs": {"ids": [[5, 6]], "lengths": [%s]}}'),
        ("tokenize", '{"outputs": {"ids": [[5, %s]], "lengths": [2]}}'),
        ("translate_ids", '{"outputs": {"output_ids": [[7]], "output_lengths": [%s]}}'),
        ("translate_ids", '{"outputs": {"output_ids": [[%s]], "output_lengths": [1]}}'),
        ("metadata", json.dumps(METHODS["metadata"]).replace('"1"', "%s")),
        ("metadata", json.dumps(METHODS["metadata"]).replace('"-1"', "%s")),
        ("ready", json.dumps(METHODS["ready"]).replace('"1"', "%s")),
    ],
)
@pytest.mark.parametrize("number", NUMBERS, ids=lambda number: number[:8])
def test_what_is_no_number_of_its_place(method, place, number):
    with ScriptedServer(answer(body=(place % number).encode())) as server:
        with pytest.raises(InvalidAnswer) as caught:
            call(TranslationClient(server.address, "en_de"), method)
        assert is_one_line(caught, server.address, "en_de")


@pytest.mark.parametrize(
    ("method", "outputs"),
    [
        ("tokenize", {"ids": [[5, 6]], "lengths": [3]}),
        ("tokenize", {"ids": [[5, 6]], "lengths": [-1]}),
        ("tokenize", {"ids": [[5, 2**31]], "lengths": [2]}),
        ("tokenize", {"ids": [[5, 6]], "lengths": [1.0]}),
        ("translate_ids", {"output_ids": [[7]], "output_lengths": [2**31 - 1]}),
        ("translate_nbest", {"outputs": [["a", "b"]], "scores": [[-1]]}),
        ("translate_nbest", {"outputs": [["a"]], "scores": [[-1, -2]]}),
        ("translate_nbest", {"outputs": [[]], "scores": [[]]}),
    ],
)
def test_outputs_that_do_not_fit(method, outputs):
    with (
        ScriptedServer(answer(body={"outputs": outputs})) as server,
        pytest.raises(InvalidAnswer, match="en_de"),
    ):
        call(TranslationClient(server.address, "en_de"), method)


def test_half_a_surrogate_pair_is_the_replacement_character():
    halves = rb'["\ud800", "a\udfffb", "\ud83c\udf89", "\\ud800", "' + b'\xff\xed\xa0\x80"]'
    scores = b"[-1, -1, -1, -1, -1]"
    body = b'{"outputs": {"outputs": %s, "scores": %s}}' % (halves, scores)
    with ScriptedServer(answer(body=body)) as server:
        found = TranslationClient(server.address, "en_de").translate(["one"] * 5)
    assert found == ["\ufffd", "a\ufffdb", "🎉", "\\ud800", "\ufffd" * 4]
    metadata = json.dumps(METHODS["metadata"]).replace("DT_", r"\ud800").encode()
    with ScriptedServer(answer(body=metadata)) as server:
        metadata = TranslationClient(server.address, "en_de").metadata()
    assert metadata["signatures"]["translate"]["inputs"]["inputs"]["dtype"] == "\ufffdSTRING"
    error = answer(400, rb'{"error": "bad \ud800\u001b[31m\u2028"}')
    with ScriptedServer(error) as server, pytest.raises(ServingError) as caught:
        TranslationClient(server.address, "en_de").translate(["one"])
    assert is_one_line(caught, "bad \ufffd\ufffd[31m")


@pytest.mark.parametrize(
    "failure",
    [
        answer(400, b'{"error": ' + b"[" * 900 + b"]" * 900 + b"}"),
        answer(404, {"error": {"a": 1}}),
        answer(500, b"[" * 100_000),
        answer(500).replace(b"Reason", b"\x1b[31mred"),
        answer(200, b"{", "application/json; charset=idna"),
        answer(200, b"{", "application/json; charset=\x00"),
        answer(200, b"x" * 2**20),
        answer(200, b"\x1b[31m\n" * 1000),
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 5\r\n\r\nhello",
        b"HTTP/1.1 99999 \xff\r\n\r\n",
    ],
    ids=range(10),
)
def test_strange_failures(failure):
    with ScriptedServer(failure) as server, pytest.raises(ServingError) as caught:
        TranslationClient(server.address, "en_de", retries=0).translate(["one"])
    assert is_one_line(caught, server.address, "en_de")
    assert len(str(caught.value)) < 1000


HEAD = b"HTTP/1.1 200 OK\r\n"
CHUNK = b"Transfer-Encoding: chunked\r\n\r\n10\r\n"


@pytest.mark.parametrize(
    "reply",
    [Endless(HEAD + b"\r\n"), Endless(HEAD + CHUNK + b" " * 16 + b"\r\n" + b"F" * 9 + b"\r\n")],
    ids=["body", "chunk"],
)
def test_an_answer_without_an_end(reply):
    with ScriptedServer(reply) as server, pytest.raises(InvalidAnswer) as caught:
        TranslationClient(server.address, "en_de", timeout=3600).translate(["one"])
    assert is_one_line(caught, server.address, "larger than 64 MiB")


class Lines(Endless):
    """An answer whose head has no end."""

    PART = b"HTTP/1.1 100 " + b" " * 60_000 + b"\r\n\r\n"


def test_a_head_without_an_end():
    with ScriptedServer(Lines(Lines.PART)) as server, pytest.raises(InvalidAnswer) as caught:
        TranslationClient(server.address, "en_de", timeout=3600).translate(["one"])
    assert is_one_line(caught, server.address, "larger than 64 MiB")


@pytest.mark.parametrize("times", [1, 2])
def test_a_compressed_answer_that_grows(times):
    body, encodings = b" " * (65 * 2**20), ", ".join(["gzip"] * times).encode()
    head = b"\r\nContent-Encoding: " + encodings + b"\r\n\r\n"
    for _ in range(times):
        body = gzip.compress(body, compresslevel=1)
    reply = answer(body=body).replace(b"\r\n\r\n", head, 1)
    with ScriptedServer(reply) as server, pytest.raises(InvalidAnswer, match="larger than 64 MiB"):
        TranslationClient(server.address, "en_de", timeout=3600).translate(["one"])


def test_many_versions_are_a_short_line():
    missing = answer(404, {"error": "Not found"})
    for state in ("END\n" * 100, "AVAILABLE"):
        states = [{"version": n, "state": state} for n in range(10_000)]
        with (
            ScriptedServer(missing, answer(body={"model_version_status": states})) as server,
            pytest.raises(ServingError) as caught,
        ):
            TranslationClient(server.address, "en_de", version=10_001).translate(["one"])
        assert is_one_line(caught)
        assert len(str(caught.value)) < 1000


def changed(body, generator):
    """The bytes of a body in JSON, with one or two changes."""
    content = bytearray(json.dumps(body).encode())
    for _ in range(generator.randint(1, 2)):
        start = generator.randrange(len(content))
        end = start + generator.choice([0, 1, 1, 1, 5])
        content[start:end] = generator.choice([
            bytes([generator.randrange(256)]), b"", b"7", b"e", b"[", b"{}", b'"', b"null",
            b"1e999", b"NaN", b"\\ud800", b"\\", b"-", b"9" * 50, content[end : end + 20],
        ])  # fmt: skip
    return bytes(content)


def test_changed_answers(random_seed):
    """Whatever is changed in an answer, the result has the right types or there is none."""
    generator = random.Random(random_seed)
    methods = generator.choices(list(METHODS), k=300)
    replies = [answer(body=changed(METHODS[method], generator)) for method in methods]
    num_errors = 0
    with ScriptedServer(*replies, b"") as server:
        client = TranslationClient(server.address, "en_de", retries=0)
        for method in methods:
            try:
                result = call(client, method)
            except ServingError:
                num_errors += 1
            else:
                json.dumps(result, ensure_ascii=False, allow_nan=False).encode()
    assert 0 < num_errors < 300
