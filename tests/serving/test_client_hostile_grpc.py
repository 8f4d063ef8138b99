"""A client before a gRPC server that means it ill: one line of a `ServingError`, or the truth."""

import random

import pytest

from keras_transformer.serving import ServingError, TranslationClient
from keras_transformer.serving.serving_errors import InvalidAnswer, RequestRefused
from tests.serving.servers.grpc_answers import (
    ARGUMENTS,
    call,
    description,
    good_answers,
    serving,
    states,
)
from tests.serving.servers.messages import is_one_line

pytestmark = pytest.mark.tensorflow


def test_what_the_answers_are_where_nothing_is_wrong():
    found = {}
    for method, answer in good_answers().items():
        with serving(answer.SerializeToString()) as server:
            found[method] = call(server, method)
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


@pytest.mark.parametrize("method", ARGUMENTS)
@pytest.mark.parametrize(
    "body",
    [b"\xff\xff\xff", b"<html>", b"\n\xff\xff\xff\xff\x07", b"\x0a\x02\x08", b"\n\x02\xff\xff"],
)
def test_bytes_that_are_no_message(method, body, caplog):
    with serving(body) as server, pytest.raises(InvalidAnswer) as caught:
        call(server, method)
    assert is_one_line(caught, server.address, "en_de")
    assert caplog.records == []  # gRPC would log a traceback


@pytest.mark.parametrize("method", [one for one in ARGUMENTS if one != "ready"])
def test_an_empty_message(method):
    with serving(b"") as server, pytest.raises(InvalidAnswer, match="en_de"):
        call(server, method)


@pytest.mark.parametrize(
    ("version", "state"), [(-1, 30), (-(2**63), 30), (1, 99), (1, -5), (1, 2**31 - 1)]
)
def test_states_that_are_none(version, state):
    with serving(states(version, state).SerializeToString()) as server:
        with pytest.raises(InvalidAnswer) as caught:
            call(server, "ready")
        assert is_one_line(caught, server.address, "en_de")


@pytest.mark.parametrize("wrong", [{"version": -1}, {"size": -2}, {"dtype": 9999}, {"dtype": -1}])
def test_wrong_metadata(wrong):
    with serving(description(**wrong).SerializeToString()) as server:
        with pytest.raises(InvalidAnswer) as caught:
            call(server, "metadata")
        assert is_one_line(caught, server.address, "en_de")


def test_metadata_of_another_type_or_broken():
    for change in ("another", "broken", "missing", "no url"):
        answer = description()
        packed = answer.metadata["signature_def"]
        if change == "another":
            packed.Pack(states())
        elif change == "broken":
            packed.value = b"\xff" + packed.value
        elif change == "missing":
            del answer.metadata["signature_def"]
        else:
            packed.type_url = "\n" * 1000
        with serving(answer.SerializeToString()) as server:
            with pytest.raises(InvalidAnswer) as caught:
                call(server, "metadata")
            assert is_one_line(caught, server.address, "en_de")


@pytest.mark.parametrize(
    "details", ["", "two\nlines\x1b[31m", b"\xff\xfe\x00", "x" * 5000, "\u2028\u202e", "%00%0A%"]
)
@pytest.mark.parametrize("code", ["UNKNOWN", "NOT_FOUND", "UNAVAILABLE", "CANCELLED", "ABORTED"])
@pytest.mark.parametrize("method", ["translate", "metadata", "ready"])
def test_odd_details(method, code, details):
    import grpc

    from tests.serving.servers.scripted_grpc_server import Status

    with serving(Status(grpc.StatusCode[code], details)) as server:
        if method == "ready" and code in ("NOT_FOUND", "UNAVAILABLE"):
            assert not call(server, method)
            return
        with pytest.raises(ServingError) as caught:
            call(server, method)
        assert is_one_line(caught, server.address, "en_de")
        assert len(str(caught.value)) < 1000


@pytest.mark.parametrize("compression", ["NoCompression", "Gzip"])
def test_an_answer_that_is_too_large_is_not_asked_for_again(compression, pauses):
    import grpc

    options = {"compression": grpc.Compression[compression]}
    with (
        serving(b"\0" * (65 * 2**20), **options) as server,
        TranslationClient(server.address, "en_de", timeout=3600) as client,
        pytest.raises(InvalidAnswer) as caught,
    ):
        client.translate(["one"])
    assert is_one_line(caught, server.address, "larger than 64 MiB")
    assert pauses == []


def test_no_message_shows_what_the_server_repeats():
    import grpc

    from tests.serving.servers.scripted_grpc_server import Status

    status = Status(grpc.StatusCode.PERMISSION_DENIED, "not for token-1234 and key-5678")
    with serving(status) as server, pytest.raises(RequestRefused) as caught:
        call(server, "translate", token="token-1234", headers={"x-key": "key-5678"})
    assert is_one_line(caught, r"not for *** and ***")


def changed(content, generator):
    """The bytes of a message, with one or two changes."""
    content = bytearray(content)
    for _ in range(generator.randint(1, 2)):
        start = generator.randrange(len(content))
        end = start + generator.choice([0, 1, 1, 1, 5])
        new = bytes(generator.randrange(256) for _ in range(generator.randint(0, 3)))
        content[start:end] = generator.choice([new, content[end : end + 20]])
    return bytes(content)


def test_changed_answers(random_seed):
    """Whatever is changed in an answer, the result has the right types or there is none."""
    generator = random.Random(random_seed)
    good = {method: answer.SerializeToString() for method, answer in good_answers().items()}
    answers, num_errors = {}, 0
    with (
        serving(answers) as server,
        TranslationClient(server.address, "en_de", retries=0) as client,
    ):
        for _ in range(300):
            method = generator.choice(list(good))
            content = changed(good[method], generator)
            answers |= dict.fromkeys(("Predict", "GetModelStatus", "GetModelMetadata"), content)
            try:
                result = getattr(client, method)(*ARGUMENTS[method])
            except ServingError:
                num_errors += 1
            else:
                assert repr(result).encode()
    assert 0 < num_errors < 300
