"""The `tf.data` form gives the batches of the plain reader."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.data import BatchPlan, BatchReader, ParallelCorpus
from keras_transformer.data.fit_input import as_dataset
from keras_transformer.types import SpecialTokens


@pytest.fixture(scope="module")
def reader():
    generator = np.random.default_rng(0)
    sides = []
    for _ in range(2):
        offsets = np.cumsum([0, *generator.integers(1, 30, 100)])
        sides += [generator.integers(4, 900, offsets[-1]).astype("int32"), offsets]
    corpus = ParallelCorpus(*sides, np.arange(1, 101), metadata={})
    plan = BatchPlan.of(corpus, batch_tokens=200, seed=1)
    return BatchReader(corpus, plan, SpecialTokens())


def assert_equal(batch, expected):
    tf.nest.map_structure(np.testing.assert_array_equal, batch, expected)


def test_fixed_spec(reader):
    inputs, labels, weights = as_dataset(reader).element_spec
    ids = tf.TensorSpec([None, None], tf.int32)
    assert inputs == {"source_ids": ids, "target_ids": ids}
    assert labels == ids
    assert weights == tf.TensorSpec([None, None], tf.float32)


def test_batches_equal_the_reader_and_can_be_read_twice(reader):
    dataset = as_dataset(reader, start_step=3)
    for _ in range(2):
        batches = itertools.islice(dataset.as_numpy_iterator(), 2 * reader.plan.steps_per_epoch)
        for step, batch in enumerate(batches, start=3):
            assert_equal(batch, reader.batch(step))


def test_it_is_infinite_and_says_so(reader):
    assert as_dataset(reader).cardinality() == tf.data.INFINITE_CARDINALITY


def test_no_autotuner_keeps_an_iterator_open(reader):
    assert as_dataset(reader).options().autotune.enabled is False
