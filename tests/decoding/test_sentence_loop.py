"""Sentences leave a search when they are done: nothing changes but the number of steps."""

import numpy as np
import pytest
from keras import ops

from keras_transformer.decoding import ForcedPrefix, MinimumLength, NoRepeatNgrams
from keras_transformer.decoding.sentence_loop import search_loop
from keras_transformer.models import build_transformer
from keras_transformer.models.sequence_generator import SequenceGenerator
from keras_transformer.search_options import SearchOptions
from keras_transformer.special_tokens import SpecialTokens

pytestmark = pytest.mark.tensorflow

TOKENS, VOCABULARY_SIZE = SpecialTokens(), 12


def in_a_graph(function, *arrays, num_sentences=None):
    """Run a function of arrays (batch, ...) in a graph that knows the batch's size or not."""
    import tensorflow as tf

    specs = [tf.TensorSpec((num_sentences, *array.shape[1:]), array.dtype) for array in arrays]
    return tf.function(function, input_signature=specs, autograph=False)(*arrays)


def test_each_sentence_leaves_with_its_own_result():
    limits = np.array([3, 1, 9, 1, 4, 2, 9, 1, 5, 5, 1, 2, 8], "int32")
    sizes = []

    def run(limits):
        def advance(state, rows):
            count, total = state
            own = limits if rows is None else ops.take(limits, rows)
            sizes.append(None if rows is None else rows.shape[0])
            return count + 1, total + ops.where(count < own, 10 * own, 0)

        def is_open(state, rows):
            return state[0] < (limits if rows is None else ops.take(limits, rows))

        state = ops.zeros((), "int32"), ops.zeros_like(limits)
        return search_loop(advance, is_open, lambda s: s[1], state, limits, may_leave=True)

    for num_sentences in (None, len(limits)):
        found = in_a_graph(run, limits, num_sentences=num_sentences)
        assert found.numpy().tolist() == (10 * limits * limits).tolist()
    assert in_a_graph(run, limits[:0]).shape == (0,)


@pytest.fixture(scope="module")
def generator():
    sizes = {"num_encoder_layers": 1, "num_decoder_layers": 2, "hidden_dim": 16, "num_heads": 2}
    model = build_transformer("tiny", vocabulary_size=VOCABULARY_SIZE, **sizes)
    for weight in model.trainable_variables:  # opinions, so that outputs end at different places
        weight.assign(3 * weight)
    return SequenceGenerator(model)


@pytest.mark.parametrize(
    ("beam_size", "has_rules"),
    [(1, False), (4, True)]
    + [pytest.param(*case, marks=pytest.mark.slow) for case in [(1, True), (4, False), (9, True)]],
)
def test_a_search_finds_what_it_finds_with_all_sentences_to_the_end(
    generator, beam_size, has_rules
):
    random = np.random.default_rng(0)
    lengths = random.integers(1, 8, 19)
    source_ids = random.integers(4, VOCABULARY_SIZE, (19, 9)).astype("int32")
    source_ids[np.arange(9) > lengths[:, None]] = TOKENS.pad
    source_ids[np.arange(19), lengths] = TOKENS.eos
    prefix_ids = random.integers(4, VOCABULARY_SIZE, (19, 2)).astype("int32")
    prefix_ids[::3] = TOKENS.pad
    rules = {"min_length": 2, "no_repeat_ngram": 2} if has_rules else {}
    options = SearchOptions(beam_size=beam_size, extra_length=6, **rules)

    def search(source_ids, prefix_ids):
        prefix_ids = prefix_ids if has_rules else None
        return generator.search(source_ids, prefix_ids, options=options)

    leaving, staying = (
        in_a_graph(search, source_ids, prefix_ids, num_sentences=num) for num in (None, 19)
    )
    ends = np.argmax(np.asarray(staying[0])[:, 0] == TOKENS.eos, axis=-1)
    assert len(set(ends.tolist())) > 3
    np.testing.assert_array_equal(leaving[0], staying[0])
    np.testing.assert_allclose(leaving[1], staying[1], atol=1e-5)


def test_constraints_of_some_sentences():
    ids = np.zeros((3, 1, 4), "int32")
    rows = np.array([2, 0])
    for constraint in (
        ForcedPrefix(np.array([[4, 5], [5, 6], [6, 0]]), TOKENS, VOCABULARY_SIZE),
        MinimumLength(np.array([1, 2, 3]), TOKENS, VOCABULARY_SIZE),
        MinimumLength(2, TOKENS, VOCABULARY_SIZE),
        NoRepeatNgrams(2, VOCABULARY_SIZE),
    ):
        whole = np.broadcast_to(constraint(ids, 1), (3, 1, VOCABULARY_SIZE))
        chosen = np.broadcast_to(
            constraint.of_sentences(rows)(ids[rows], 1), (2, 1, VOCABULARY_SIZE)
        )
        np.testing.assert_array_equal(chosen, whole[rows])
