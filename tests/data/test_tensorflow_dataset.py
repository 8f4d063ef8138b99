"""The `tf.data` form gives the batches of the plain reader."""

import itertools

import pytest
import tensorflow as tf

from keras_transformer.data import plan_batches
from keras_transformer.data.fit_input import as_dataset
from keras_transformer.types import SpecialTokens
from tests.data.corpora import assert_same, random_corpus


@pytest.fixture(scope="module")
def reader():
    return plan_batches(random_corpus(100), SpecialTokens(), batch_tokens=200, seed=1)


def test_its_spec_is_fixed_it_is_infinite_and_no_autotuner_keeps_an_iterator_open(reader):
    dataset = as_dataset(reader)
    inputs, labels, weights = dataset.element_spec
    ids = tf.TensorSpec([None, None], tf.int32)
    assert inputs == {"source_ids": ids, "target_ids": ids}
    assert labels == ids
    assert weights == tf.TensorSpec([None, None], tf.float32)
    assert dataset.cardinality() == tf.data.INFINITE_CARDINALITY
    assert dataset.options().autotune.enabled is False


def test_batches_equal_the_reader_and_can_be_read_twice(reader):
    dataset = as_dataset(reader, start_step=3)
    for _ in range(2):
        batches = itertools.islice(dataset.as_numpy_iterator(), 2 * reader.plan.steps_per_epoch)
        for step, batch in enumerate(batches, start=3):
            assert_same(batch, reader.batch(step))
