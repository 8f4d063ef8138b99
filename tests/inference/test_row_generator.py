"""Calls two at a time, which do not wait for each other."""

import threading

import keras
import pytest

from keras_transformer.errors import UserInputError
from keras_transformer.inference import row_generator
from keras_transformer.inference.row_generator import (
    call_at_once,
    calls_at_once,
    default_batch_size,
)
from keras_transformer.inference.translator import Translator


def test_two_run_at_once():
    both = threading.Barrier(2, timeout=60)

    def call(item):
        both.wait()  # returns when two calls have come here
        return item

    assert sorted(call_at_once(call, range(4), at_once=2)) == [(i, i) for i in range(4)]


def test_a_long_call_delays_no_other():
    others_have_ended = threading.Event()

    def call(item):
        if item == 0:
            assert others_have_ended.wait(timeout=60)

    ended = []
    for item, _ in call_at_once(call, range(5), at_once=2):
        ended.append(item)
        if len(ended) == 4:
            others_have_ended.set()
    assert ended == [1, 2, 3, 4, 0]


@pytest.mark.parametrize("at_once", [1, 2])
def test_results_are_not_computed_far_ahead(at_once):
    taken = []
    results = call_at_once(lambda item: item, (taken.append(i) or i for i in range(99)), at_once)
    next(results)
    assert len(taken) <= 2 * at_once


@pytest.mark.parametrize("at_once", [1, 2])
def test_an_error_reaches_the_caller(at_once):
    results = call_at_once(lambda item: 1 / (item - 3), range(9), at_once)
    with pytest.raises(ZeroDivisionError):
        list(results)


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    ("threads", "cores", "expected"), [(0, 1, 1), (0, 16, 2), (1, 2, 2), (1, 16, 8), (4, 16, 4)]
)
def test_as_many_batches_as_cores_where_an_operation_has_one(monkeypatch, threads, cores, expected):
    monkeypatch.setattr(row_generator, "num_cores", lambda: cores)
    monkeypatch.setattr("tensorflow.config.threading.get_intra_op_parallelism_threads", lambda: 0)
    monkeypatch.setenv("TF_NUM_INTRAOP_THREADS", str(threads))
    assert calls_at_once() == expected
    assert calls_at_once(jit_compile=True) == 1


def test_with_xla_batches_are_smaller():
    on_cpu = 32 if keras.backend.backend() == "jax" else 128
    assert default_batch_size(jit_compile=False) == on_cpu
    if keras.backend.backend() == "tensorflow":
        assert default_batch_size(jit_compile=True) == 32


def test_a_search_that_cannot_fit_into_memory_is_refused_before_it_starts(trained_run):
    translator = Translator.load(trained_run, beam_size=100, extra_length=1_000_000)
    with pytest.raises(UserInputError, match=r"100 hypotheses of up to 1,000,00\d tokens take"):
        translator.translate(["one two"])


def test_batches_are_as_small_as_the_memory_wants(trained_run, monkeypatch):
    translator = Translator.load(trained_run, beam_size=4, extra_length=6)
    texts = ["one two", "two", "three four five", "six", "seven one"]
    expected = translator.translate(texts)
    width = 2 * 4 * 2 * 64  # bytes of keys and values of two layers
    monkeypatch.setattr(row_generator, "machine_memory", lambda: 2 * width * 4 * (6 + 8))
    rows = translator.source_tokenizer.encode(texts)
    sizes = [len(batch) for batch in translator._generator.batches(rows)]
    assert sum(sizes) == 5
    assert 1 <= max(sizes) <= 4
    assert translator.translate(texts) == expected
