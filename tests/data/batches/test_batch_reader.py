"""Batches as arrays, against a reference that walks from sentence to sentence."""

import itertools

import numpy as np
import pytest

from keras_transformer.data import BatchPlan, BatchReader, batch_stream, token_weights
from keras_transformer.types import SpecialTokens
from tests.data.corpora import assert_same, corpus_of, random_corpus, reader_of
from tests.python_programs import run_python


def padded(rows, pad):
    width = max(map(len, rows))
    return [[*row, *[pad] * (width - len(row))] for row in rows]


@pytest.mark.parametrize("empty", [0, 1])
def test_a_batch_by_hand(empty):
    corpus = corpus_of([[5, 6, 7], [8]], [[9], [10, 11]])
    inputs, labels, weights = reader_of(corpus, shuffle=False).batch(0, row_multiple=2 + empty)
    assert sorted(inputs) == ["source_ids", "target_ids"]
    expected = [[8, 2, 0, 0], [5, 6, 7, 2], *[[0] * 4] * empty]
    assert inputs["source_ids"].tolist() == expected
    assert inputs["target_ids"].tolist() == [[1, 10, 11], [1, 9, 0], *[[0] * 3] * empty]
    assert labels.tolist() == [[10, 11, 2], [9, 2, 0], *[[0] * 3] * empty]
    expected = [[0.2, 0.2, 0.2], [0.2, 0.2, 0], *[[0] * 3] * empty]
    np.testing.assert_allclose(weights, expected, rtol=1e-6)
    assert {array.dtype for array in (*inputs.values(), labels)} == {np.dtype("int32")}
    assert weights.dtype == "float32"


@pytest.mark.parametrize("special_tokens", [SpecialTokens(), SpecialTokens(903, 902, 901, 900)])
def test_batches_equal_the_sentences(special_tokens):
    corpus = random_corpus()
    reader = reader_of(corpus, special_tokens)
    pad, bos, eos = special_tokens.pad, special_tokens.bos, special_tokens.eos
    for step in range(2 * reader.plan.steps_per_epoch):
        inputs, labels, weights = reader.batch(step)
        indices = reader.plan.batch(step)
        sources = [[*corpus.source(i), eos] for i in indices]
        assert inputs["source_ids"].tolist() == padded(sources, pad)
        starts = [[bos, *corpus.target(i)] for i in indices]
        assert inputs["target_ids"].tolist() == padded(starts, pad)
        ends = [[*corpus.target(i), eos] for i in indices]
        assert labels.tolist() == padded(ends, pad)
        np.testing.assert_array_equal(weights > 0, labels != pad)
        assert weights.sum(dtype="float64") == pytest.approx(1, abs=1e-6)
        assert reader.plan.target_tokens(step) == np.count_nonzero(weights)


def test_end_of_sentence_inside_a_sentence_is_kept():
    inputs, labels, _ = reader_of(corpus_of([[5]], [[6, 2, 7]])).batch(0)
    assert inputs["target_ids"].tolist() == [[1, 6, 2, 7]]
    assert labels.tolist() == [[6, 2, 7, 2]]


def test_empty_rows_hold_the_padding_of_the_vocabulary():
    reader = reader_of(corpus_of([[5]], [[6]]), SpecialTokens(903, 902, 901, 900))
    inputs, labels, weights = reader.batch(0, row_multiple=4)
    assert inputs["source_ids"].tolist() == [[5, 901], *[[903, 903]] * 3]
    assert labels.tolist() == [[6, 901], *[[903, 903]] * 3]
    assert weights.tolist() == [[0.5, 0.5], *[[0, 0]] * 3]


def test_token_weights_by_hand():
    weights = token_weights(np.array([[7, 9, 9], [9, 9, 9], [1, 2, 3]]), padding_id=9)
    np.testing.assert_array_equal(weights, [[0.25, 0, 0], [0, 0, 0], [0.25, 0.25, 0.25]])


def test_plan_of_another_corpus_is_refused():
    corpus = random_corpus()
    without_end = BatchPlan(corpus.source_lengths, corpus.target_lengths, batch_tokens=256, seed=1)
    with pytest.raises(ValueError, match=r"`BatchPlan.of\(corpus, ...\)`"):
        BatchReader(corpus, without_end, SpecialTokens())


def test_stream_runs_from_start_to_stop():
    reader = reader_of(random_corpus())
    stop = reader.plan.steps_per_epoch + 2
    batches = list(batch_stream(reader, start_step=4, stop_step=stop))
    assert len(batches) == stop - 4
    for step, batch in enumerate(batches, start=4):
        assert_same(batch, reader.batch(step))


def test_stream_without_stop_runs_over_epochs():
    reader = reader_of(random_corpus(20))
    steps = 3 * reader.plan.steps_per_epoch
    *_, last = itertools.islice(batch_stream(reader), steps)
    assert_same(last, reader.batch(steps - 1))


def test_data_and_text_need_no_tensorflow():
    program = (
        "import sys, keras_transformer.data, keras_transformer.text\n"
        "print([name for name in ('tensorflow', 'tensorflow_text') if name in sys.modules])\n"
    )
    assert run_python("-c", program, KERAS_BACKEND="jax").stdout == "[]\n"
