"""A client before a server that means it ill: one line of a `ServingError`, or the truth."""

import gzip
import json
import random

import pytest

from keras_transformer.serving import ServingError, TranslationClient
from keras_transformer.toolkit.serving.connection import InvalidAnswer, RequestRefused
from tests.serving.servers import grpc_answers
from tests.serving.servers.grpc_answers import description, prediction, states, tensor
from tests.serving.servers.messages import is_one_line, told
from tests.serving.servers.scripted_server import Endless, ScriptedServer, answer

pytestmark = pytest.mark.usefixtures("no_garbage_collection")  # brackets are nested deep
needs_grpc = pytest.mark.tensorflow
APIS = ("rest", pytest.param("grpc", marks=needs_grpc))

# The answers of a REST server where nothing is wrong, by method.
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
            {"version": "1", "state": "AVAILABLE", "status": {"error_message": "Not yet"}}
        ]
    },
}
BRACKETS = b"[" * 900 + b"]" * 900


def rest(method, body):
    """What a method gives for the body of an answer."""
    reply = body if isinstance(body, Endless) else answer(body=body)
    with ScriptedServer(reply) as server:
        return grpc_answers.call(server, method, timeout=3600)


def grpc(method, message, **options):
    """What a method gives for a message, or its bytes."""
    content = message if isinstance(message, bytes) else message.SerializeToString()
    with grpc_answers.serving(content, **options) as server:
        return grpc_answers.call(server, method)


@pytest.mark.parametrize("api", APIS)
def test_what_the_answers_are_where_nothing_is_wrong(api):
    if api == "rest":
        found = {method: rest(method, body) for method, body in METHODS.items()}
    else:
        found = {
            method: grpc(method, message) for method, message in grpc_answers.good_answers().items()
        }
    tensors = {"inputs": {"inputs": {"dtype": "DT_STRING", "shape": [-1]}}, "outputs": {}}
    assert found == {
        "translate": ["eins"],
        "translate_nbest": [[("eins", -0.5), ("zwei", -1.5)]],
        "score": [-0.5],
        "tokenize": [[5, 6]],
        "translate_ids": [[7]],
        "metadata": {"name": "en_de", "version": 1, "signatures": {"translate": tensors}},
        "ready": True,
    }


# Bodies that are no method's answer.
WRONG_BODIES = [
    b"<html>Hello</html>", b"", b"[]", b"\xff\xfe", b"{}", b'"x"', b"NaN", b"1" * 5000,
    b"[" * 100_000 + b"]" * 100_000, b'{"a":' * 100_000 + b"1" + b"}" * 100_000, b"[" * 100_000,
    b'{"outputs": ' + BRACKETS + b"}", b'{"outputs": ' + b"1" * 4000 + b"}",
    b'{"outputs": "' + b"\\u0041" * 3 + b'", "model_spec": ' + BRACKETS + b"}",
    b'{"outputs": null}', b'{"outputs": {}}', b'{"outputs": {"outputs": {}, "scores": {}}}',
    b'{"model_spec": 1, "model_version_status": {"0": 1}, "metadata": []}',
    b'{"model_version_status": [[]], "metadata": {"signature_def": {"signature_def": []}}}',
    b'{"model_version_status": [{"version": "1", "state": ["AVAILABLE"]}]}',
    b'{"model_version_status": [{"version": "1", "state": "X", "status": null}]}',
    b'{"model_version_status": [{"version": 1, "state": "X", "status": {"error_message": 1}}]}',
]  # fmt: skip
# What stands in the place of a number, of these methods.
NUMBERS = [
    "1" + "0" * 400, "-1" + "0" * 400, "1" * 4000, "1" * 5000, "1e999", "-1e999", "NaN", "Infinity",
    "true", "null", '"x"', f'"{"1" * 5000}"', "[]", "{}", "[" * 500 + "]" * 500,
]  # fmt: skip
PLACES = [
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
]
# Outputs of which each is right alone.
OUTPUTS = [
    ("translate", {"outputs": ["eins"]}),
    ("translate", {"outputs": [], "scores": []}),
    ("translate", {"outputs": ["eins", "zwei"], "scores": [-1.0, -2.0]}),
    ("translate", {"outputs": [1], "scores": [-1.0]}),
    ("translate", {"outputs": "e", "scores": [-1.0]}),
    ("translate_nbest", {"outputs": [["eins"]], "scores": [["a"]]}),
    ("translate_nbest", {"outputs": ["eins"], "scores": [-1.0]}),
    ("translate_nbest", {"outputs": [["a", "b"]], "scores": [[-1]]}),
    ("translate_nbest", {"outputs": [["a"]], "scores": [[-1, -2]]}),
    ("translate_nbest", {"outputs": [[]], "scores": [[]]}),
    ("tokenize", {"ids": [1], "lengths": [1]}),
    ("tokenize", {"ids": [[5, 6]], "lengths": [3]}),
    ("tokenize", {"ids": [[5, 6]], "lengths": [-1]}),
    ("tokenize", {"ids": [[5, 2**31]], "lengths": [2]}),
    ("tokenize", {"ids": [[5, 6]], "lengths": [1.5]}),
    ("translate_ids", {"output_ids": [[7]], "output_lengths": [2**31 - 1]}),
]
CHUNK = b"Transfer-Encoding: chunked\r\n\r\n10\r\n" + b" " * 16 + b"\r\n" + b"F" * 9 + b"\r\n"
ENDLESS = [("translate", Endless(b"HTTP/1.1 200 OK\r\n" + rest)) for rest in (b"\r\n", CHUNK)]
REST_TABLE = [
    *((method, body) for body in WRONG_BODIES for method in METHODS),
    *((method, (place % number).encode()) for method, place in PLACES for number in NUMBERS),
    *((method, {"outputs": outputs}) for method, outputs in OUTPUTS),
    *ENDLESS,
]

INT32, FLOAT, STRING = 3, 1, 7
TENSORS = {
    "content too short": ([2], {"dtype": INT32, "tensor_content": b"\0" * 4}),
    "content of no whole number": ([1], {"dtype": INT32, "tensor_content": b"\0" * 3}),
    "content too long": ([1], {"dtype": INT32, "tensor_content": b"\0" * 8}),
    "content of strings": ([1], {"dtype": STRING, "tensor_content": b"\0" * 8}),
    "many of one": ([2**40], {"dtype": FLOAT, "float_val": [1.0]}),
    "a few of one": ([1000], {"dtype": FLOAT, "float_val": [1.0]}),
    "a few strings of one": ([1000], {"dtype": STRING, "string_val": [b"a"]}),
    "many of none": ([2**40], {"dtype": FLOAT}),
    "many strings of none": ([2**40], {"dtype": STRING}),
    "many empty rows": ([2**40, 0], {"dtype": FLOAT}),
    "beyond all numbers": ([2**62, 2**62, 2**62], {"dtype": FLOAT, "float_val": [1.0]}),
    "beyond, to nothing": ([2**32, 2**32], {"dtype": INT32, "int_val": [1]}),
    "negative": ([-1], {"dtype": FLOAT, "float_val": [1.0]}),
    "very negative": ([-(2**63)], {"dtype": FLOAT, "float_val": [1.0]}),
    "many dimensions": ([1] * 100, {"dtype": FLOAT, "float_val": [1.0]}),
    "very many dimensions": ([2**62] * 100_000, {"dtype": FLOAT, "float_val": [1.0]}),
    "too many values": ([1], {"dtype": FLOAT, "float_val": [1.0, 2.0]}),
    "a string that is missing": ([1], {"dtype": STRING}),
    "an unknown type": ([1], {"dtype": 9999, "float_val": [1.0]}),
    "no type": ([1], {"float_val": [1.0]}),
    "a resource": ([1], {"dtype": 20}),
    "a variant": ([1], {"dtype": 21}),
    "a reference": ([1], {"dtype": 101, "float_val": [1.0]}),
    "complex": ([1], {"dtype": 8, "scomplex_val": [1.0, 2.0]}),
    "bool": ([1], {"dtype": 10, "bool_val": [True]}),
    "a scalar": ([], {"dtype": FLOAT, "float_val": [1.0]}),
    "no rows": ([0], {"dtype": FLOAT}),
    "not a number": ([1], {"dtype": FLOAT, "float_val": [float("nan")]}),
    "infinite": ([1], {"dtype": FLOAT, "float_val": [float("inf")]}),
}


def metadata_of(change):
    """A description of a model with something wrong in it."""
    message = description(**change) if isinstance(change, dict) else description()
    packed = message.metadata["signature_def"]
    if change == "another":
        packed.Pack(states())
    elif change == "broken":
        packed.value = b"\xff" + packed.value
    elif change == "missing":
        del message.metadata["signature_def"]
    elif change == "no url":
        packed.type_url = "\n" * 1000
    return message


def grpc_table():
    """Yield `(method, message or bytes)` of answers that are wrong."""
    for body in (b"\xff\xff\xff", b"<html>", b"\n\xff\xff\xff\xff\x07", b"\x0a\x02\x08", b""):
        for method in grpc_answers.ARGUMENTS:
            if body or method != "ready":  # an empty message has no versions
                yield method, body
    for sizes, fields in TENSORS.values():
        wrong = tensor(sizes, **fields)
        yield "translate", prediction(outputs=[b"eins"], scores=wrong)
        yield "translate", prediction(outputs=wrong, scores=[-0.5])
        yield "score", prediction(log_probs=wrong)
        yield "tokenize", prediction(ids=[[5, 6]], lengths=wrong)
        yield "tokenize", prediction(ids=wrong, lengths=[1])
    outputs = {f"x{i}": tensor([2**23], dtype=FLOAT, float_val=[1.0]) for i in range(1000)}
    yield "translate", prediction(**outputs)  # large together
    yield "score", prediction(log_probs=tensor([1], dtype=STRING, string_val=[b"a", b"b"]))
    for length in (3, -1, 2**31 - 1, -(2**31)):
        yield "tokenize", prediction(ids=[[5, 6]], lengths=[length])
    for large in (
        tensor([1], dtype=9, int64_val=[2**62]),
        tensor([1], dtype=23, uint64_val=[2**63]),
    ):
        yield "tokenize", prediction(ids=[[5, 6]], lengths=large)
    for version, state in ((-1, 30), (-(2**63), 30), (1, 99), (1, -5), (1, 2**31 - 1)):
        yield "ready", states(version, state)
    for change in (
        {"version": -1}, {"size": -2}, {"dtype": 9999}, {"dtype": -1},
        "another", "broken", "missing", "no url",
    ):  # fmt: skip
        yield "metadata", metadata_of(change)
    yield "translate", b"\0" * (17 * 2**20)


def failures(table, call):
    """What a table's answers lead to, other than an `InvalidAnswer` of a short line."""
    found = []
    for i, (method, wrong) in enumerate(table):
        try:
            found.append(f"{i}, {method}: {call(method, wrong)!r}")
        except InvalidAnswer as error:
            text = str(error)
            is_right = text.isprintable() and "127.0.0.1" in text and "en_de" in text
            if not is_right or len(text) > 1000:
                found.append(f"{i}, {method}: {text!r}")
    return found


def test_wrong_answers_of_rest():
    assert failures(REST_TABLE, rest) == []


def test_a_chunk_of_negative_size_is_no_answer():
    reply = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\nhello\r\n0\r\n\r\n"
    told(ServingError, reply, timeout=5)


@needs_grpc
def test_wrong_answers_of_grpc(caplog):
    assert failures(grpc_table(), grpc) == []
    assert caplog.records == []  # gRPC would log a traceback


@pytest.mark.parametrize("times", [1, 2])
def test_a_compressed_answer_that_grows(times):
    body, encodings = b" " * (17 * 2**20), ", ".join(["gzip"] * times).encode()
    head = b"\r\nContent-Encoding: " + encodings + b"\r\n\r\n"
    for _ in range(times):
        body = gzip.compress(body, compresslevel=1)
    reply = answer(body=body).replace(b"\r\n\r\n", head, 1)
    assert "larger than 16 MiB" in told(InvalidAnswer, reply, timeout=3600)


@needs_grpc
@pytest.mark.parametrize("compression", ["NoCompression", "Gzip"])
def test_an_answer_that_is_too_large_is_not_asked_for_again(compression, pauses):
    import grpc as library

    options = {"compression": library.Compression[compression]}
    with pytest.raises(InvalidAnswer, match="larger than 16 MiB"):
        grpc("translate", b"\0" * (17 * 2**20), **options)
    assert pauses == []


def test_half_a_surrogate_pair_is_the_replacement_character():
    halves = rb'["\ud800", "a\udfffb", "\ud83c\udf89", "\\ud800", "' + b'\xff\xed\xa0\x80"]'
    scores = b"[-1, -1, -1, -1, -1]"
    body = b'{"outputs": {"outputs": %s, "scores": %s}}' % (halves, scores)
    with ScriptedServer(answer(body=body)) as server:
        found = TranslationClient(server.address, "en_de").translate(["one"] * 5)
    assert found == ["\ufffd", "a\ufffdb", "🎉", "\\ud800", "\ufffd" * 4]
    metadata = json.dumps(METHODS["metadata"]).replace("DT_", r"\ud800").encode()
    signatures = rest("metadata", metadata)["signatures"]
    assert signatures["translate"]["inputs"]["inputs"]["dtype"] == "\ufffdSTRING"
    error = answer(400, rb'{"error": "bad \ud800\u001b[31m\u2028"}')
    assert "bad \ufffd\ufffd[31m" in told(ServingError, error)


@needs_grpc
def test_strings_that_are_not_utf8():
    message = prediction(outputs=[b"a\xff\xed\xa0\x80"], scores=[-0.5])
    assert grpc("translate", message) == ["a" + "\ufffd" * 4]


@pytest.mark.parametrize(
    "failure",
    [
        answer(400, b'{"error": ' + BRACKETS + b"}"),
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
    told(ServingError, failure, retries=0)


@needs_grpc
@pytest.mark.parametrize("method", ["translate", "metadata", "ready"])
def test_odd_details_of_a_status(method):
    import grpc as library

    from tests.serving.servers.scripted_grpc_server import Status

    odd = ("", "two\nlines\x1b[31m", b"\xff\xfe\x00", "x" * 5000, "\u2028\u202e", "%00%0A%")
    for code in ("UNKNOWN", "NOT_FOUND", "UNAVAILABLE", "CANCELLED", "ABORTED"):
        for details in odd:
            with grpc_answers.serving(Status(library.StatusCode[code], details)) as server:
                if method == "ready" and code in ("NOT_FOUND", "UNAVAILABLE"):
                    assert not grpc_answers.call(server, method)
                    continue
                with pytest.raises(ServingError) as caught:
                    grpc_answers.call(server, method)
                assert is_one_line(caught, server.address, "en_de")
                assert len(str(caught.value)) < 1000


@needs_grpc
def test_no_message_shows_what_the_server_repeats():
    import grpc as library

    from tests.serving.servers.scripted_grpc_server import Status

    details = "not for token-1234 and key-5678"
    status = Status(library.StatusCode.PERMISSION_DENIED, details)
    credentials = {"token": "token-1234", "headers": {"x-key": "key-5678"}}
    with grpc_answers.serving(status) as server, pytest.raises(RequestRefused) as caught:
        grpc_answers.call(server, "translate", **credentials)
    assert is_one_line(caught, r"not for *** and ***")


def test_many_versions_are_a_short_line():
    missing = answer(404, {"error": "Not found"})
    for state in ("END\n" * 100, "AVAILABLE"):
        versions = [{"version": n, "state": state} for n in range(10_000)]
        status = answer(body={"model_version_status": versions})
        told(ServingError, missing, status, version=10_001)


def changed(content, generator):
    """The bytes of an answer, with one or two changes."""
    content = bytearray(content)
    for _ in range(generator.randint(1, 2)):
        start = generator.randrange(len(content))
        end = start + generator.choice([0, 1, 1, 1, 5])
        content[start:end] = generator.choice([
            bytes(generator.randrange(256) for _ in range(generator.randint(0, 3))), b"7", b"e",
            b"[", b"{}", b'"', b"null", b"1e999", b"NaN", b"\\ud800", b"\\", b"-", b"9" * 50,
            content[end : end + 20],
        ])  # fmt: skip
    return bytes(content)


@pytest.mark.parametrize("api", APIS)
def test_changed_answers(api, random_seed):
    """Whatever is changed in an answer, the result has the right types or there is none."""
    generator = random.Random(random_seed)
    methods = generator.choices(list(METHODS), k=300)
    if api == "rest":
        good = {method: json.dumps(body).encode() for method, body in METHODS.items()}
    else:
        good = {
            method: message.SerializeToString()
            for method, message in grpc_answers.good_answers().items()
        }
    contents = [changed(good[method], generator) for method in methods]
    answers = {}
    server = (
        ScriptedServer(*(answer(body=one) for one in contents), b"")
        if api == "rest"
        else grpc_answers.serving(answers)
    )
    num_errors = 0
    with server, TranslationClient(server.address, "en_de", retries=0) as client:
        for method, content in zip(methods, contents, strict=True):
            answers |= dict.fromkeys(("Predict", "GetModelStatus", "GetModelMetadata"), content)
            try:
                result = getattr(client, method)(*grpc_answers.ARGUMENTS[method])
            except ServingError:
                num_errors += 1
            else:
                json.dumps(result, ensure_ascii=False, allow_nan=False).encode()
    assert 0 < num_errors < 300
