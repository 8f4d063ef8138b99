"""Tensors of a gRPC server that means it ill: shapes, types and values that do not fit."""

import pytest

from keras_transformer.serving.serving_errors import InvalidAnswer
from tests.serving.servers.grpc_answers import call, prediction, serving, tensor
from tests.serving.servers.messages import is_one_line

pytestmark = pytest.mark.tensorflow

INT32, FLOAT, STRING = 3, 1, 7
TENSORS = {
    "content too short": ([2], {"dtype": INT32, "tensor_content": b"\0" * 4}),
    "content of no whole number": ([1], {"dtype": INT32, "tensor_content": b"\0" * 3}),
    "content too long": ([1], {"dtype": INT32, "tensor_content": b"\0" * 8}),
    "content of strings": ([1], {"dtype": STRING, "tensor_content": b"\0" * 8}),
    "many of one": ([2**40], {"dtype": FLOAT, "float_val": [1.0]}),
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
    "too many strings": ([1], {"dtype": STRING, "string_val": [b"a", b"b"]}),
    "a string that is missing": ([1], {"dtype": STRING}),
    "an unknown type": ([1], {"dtype": 9999, "float_val": [1.0]}),
    "no type": ([1], {"float_val": [1.0]}),
    "a resource": ([1], {"dtype": 20}),
    "a variant": ([1], {"dtype": 21}),
    "a reference": ([1], {"dtype": 101, "float_val": [1.0]}),
    "complex": ([1], {"dtype": 8, "scomplex_val": [1.0, 2.0]}),
    "bool": ([1], {"dtype": 10, "bool_val": [True]}),
    "quantized": ([1], {"dtype": 11, "int_val": [1]}),
    "a scalar": ([], {"dtype": FLOAT, "float_val": [1.0]}),
    "no rows": ([0], {"dtype": FLOAT}),
    "not a number": ([1], {"dtype": FLOAT, "float_val": [float("nan")]}),
    "infinite": ([1], {"dtype": FLOAT, "float_val": [float("inf")]}),
}


@pytest.mark.parametrize("name", TENSORS)
def test_tensors_that_are_wrong(name):
    sizes, fields = TENSORS[name]
    wrong = tensor(sizes, **fields)
    for method, answer in (
        ("translate", prediction(outputs=[b"eins"], scores=wrong)),
        ("translate", prediction(outputs=wrong, scores=[-0.5])),
        ("score", prediction(log_probs=wrong)),
        ("tokenize", prediction(ids=[[5, 6]], lengths=wrong)),
        ("tokenize", prediction(ids=wrong, lengths=[1])),
    ):
        strings = wrong.dtype == STRING and wrong.string_val
        if strings and method == "translate":
            continue
        with serving(answer.SerializeToString()) as server:
            with pytest.raises(InvalidAnswer) as caught:
                call(server, method)
            assert is_one_line(caught, server.address, "en_de")


def test_many_small_tensors_that_are_large_together():
    outputs = {f"x{i}": tensor([2**23], dtype=FLOAT, float_val=[1.0]) for i in range(1000)}
    with (
        serving(prediction(**outputs).SerializeToString()) as server,
        pytest.raises(InvalidAnswer, match="more elements than"),
    ):
        call(server, "translate")


@pytest.mark.parametrize("length", [3, -1, 2**31 - 1, -(2**31)])
def test_lengths_that_do_not_fit(length):
    with (
        serving(prediction(ids=[[5, 6]], lengths=[length]).SerializeToString()) as server,
        pytest.raises(InvalidAnswer, match=f"cannot have the length {length}"),
    ):
        call(server, "tokenize")


def test_numbers_that_are_too_large():
    for wrong in (
        tensor([1], dtype=9, int64_val=[2**62]),
        tensor([1], dtype=23, uint64_val=[2**63]),
    ):
        with (
            serving(prediction(ids=[[5, 6]], lengths=wrong).SerializeToString()) as server,
            pytest.raises(InvalidAnswer, match="must answer 1 rows of `lengths`"),
        ):
            call(server, "tokenize")


def test_strings_that_are_not_utf8():
    answer = prediction(outputs=[b"a\xff\xed\xa0\x80"], scores=[-0.5])
    with serving(answer.SerializeToString()) as server:
        assert call(server, "translate") == ["a" + "\ufffd" * 4]
