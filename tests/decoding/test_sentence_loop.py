"""Sentences leave a search when they are done: nothing changes but the number of steps."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer.decoding import ForcedPrefix, MinimumLength, NoRepeatNgrams
from keras_transformer.decoding.constraints import LimitedRepeats
from keras_transformer.decoding.sentence_loop import search_loop
from keras_transformer.decoding.sequence_generator import SequenceGenerator
from keras_transformer.models import build_transformer
from keras_transformer.search_options import SearchOptions
from keras_transformer.types import SpecialTokens
from tests.models.compiled_function import by_xla

pytestmark = pytest.mark.core

TOKENS, VOCABULARY_SIZE = SpecialTokens(), 12


def counted(limits, sizes, with_xla=False):
    """The squares of `limits` times 10 by a search loop, which notes the sizes of its steps."""

    def advance(state, rows):
        count, total = state
        own = limits if rows is None else ops.take(limits, rows)
        sizes.append(own.shape[0])
        return count + 1, total + ops.where(count < own, 10 * own, 0)

    def is_open(state, rows):
        return state[0] < (limits if rows is None else ops.take(limits, rows))

    state = ops.zeros((), "int32"), ops.zeros_like(limits)
    return search_loop(
        advance, is_open, lambda s: s[1], state, limits, may_leave=True, with_xla=with_xla
    )


def in_a_graph(function, *arrays, num_sentences=None):
    """Run a function of arrays (batch, ...) in a graph that knows the batch's size or not."""
    import tensorflow as tf

    specs = [tf.TensorSpec((num_sentences, *array.shape[1:]), array.dtype) for array in arrays]
    return tf.function(function, input_signature=specs, autograph=False)(*arrays)


@pytest.mark.tensorflow
def test_each_sentence_leaves_with_its_own_result():
    limits = np.array([3, 1, 9, 1, 4, 2, 9, 1, 5, 5, 1, 2, 8], "int32")

    def run(limits):
        return counted(limits, [])

    for num_sentences in (None, len(limits)):
        found = in_a_graph(run, limits, num_sentences=num_sentences)
        assert found.numpy().tolist() == (10 * limits * limits).tolist()
    assert in_a_graph(run, limits[:0]).shape == (0,)


@pytest.mark.parametrize(
    ("num", "expected"), [(15, {15}), (16, {16, 4}), (70, {70, 17, 4}), (0, {0})]
)
def test_with_xla_a_large_batch_goes_on_with_its_open_quarter(num, expected):
    limits, sizes = np.random.default_rng(num).integers(0, 9, num).astype("int32"), []
    found = by_xla(lambda limits: counted(limits, sizes, with_xla=True))(limits)
    assert np.array(found).tolist() == (10 * limits * limits).tolist()
    assert set(sizes) == expected


@pytest.fixture(scope="module")
def generator():
    keras.utils.set_random_seed(2)  # with others, rounding grows to a thousandth of a score
    sizes = {"num_encoder_layers": 1, "num_decoder_layers": 2, "hidden_dim": 16, "num_heads": 2}
    model = build_transformer("tiny", vocabulary_size=VOCABULARY_SIZE, **sizes)
    for weight in model.trainable_variables:  # opinions, so that outputs end at different places
        weight.assign(3 * weight)
    return SequenceGenerator(model)


def sentences(num):
    """Source ids and prefixes."""
    random = np.random.default_rng(0)
    lengths = random.integers(1, 8, num)
    source_ids = random.integers(4, VOCABULARY_SIZE, (num, 9)).astype("int32")
    source_ids[np.arange(9) > lengths[:, None]] = TOKENS.pad
    source_ids[np.arange(num), lengths] = TOKENS.eos
    prefix_ids = random.integers(4, VOCABULARY_SIZE, (num, 2)).astype("int32")
    prefix_ids[::3] = TOKENS.pad
    return source_ids, prefix_ids


def searching(generator, beam_size, has_rules):
    """A search as a function of the arrays of `sentences`."""
    rules = {"min_length": 2, "no_repeat_ngram": 2} if has_rules else {}
    options = SearchOptions(beam_size=beam_size, extra_length=6, **rules)
    return lambda source_ids, prefix_ids: generator.search(
        source_ids, prefix_ids if has_rules else None, options=options
    )


CASES = [(1, False), (4, True)] + [
    pytest.param(*case, marks=pytest.mark.slow) for case in [(1, True), (4, False), (9, True)]
]


@pytest.mark.tensorflow
@pytest.mark.parametrize(("beam_size", "has_rules"), CASES)
def test_a_search_finds_what_it_finds_with_all_sentences_to_the_end(
    generator, beam_size, has_rules
):
    search = searching(generator, beam_size, has_rules)
    leaving, staying = (in_a_graph(search, *sentences(19), num_sentences=num) for num in (None, 19))
    ends = np.argmax(np.asarray(staying[0])[:, 0] == TOKENS.eos, axis=-1)
    assert len(set(ends.tolist())) > 3
    np.testing.assert_array_equal(leaving[0], staying[0])
    np.testing.assert_allclose(leaving[1], staying[1], rtol=2e-5)  # sums of other sizes


@pytest.mark.slow
@pytest.mark.parametrize(("beam_size", "has_rules"), CASES)
def test_a_search_of_many_finds_what_searches_of_few_find(generator, beam_size, has_rules):
    search, arrays = searching(generator, beam_size, has_rules), sentences(19)
    ids, scores = map(ops.convert_to_numpy, search(*arrays))
    few = [search(*(array[part] for array in arrays)) for part in (slice(10), slice(10, 19))]
    few_ids, few_scores = (np.concatenate(parts) for parts in zip(*few, strict=True))
    # The last of several hypotheses may be one that nearly ties with it: rounding decides.
    sure = max(1, beam_size - 1)
    np.testing.assert_array_equal(ids[:, :sure], few_ids[:, :sure])
    np.testing.assert_allclose(scores[:, :sure], few_scores[:, :sure], rtol=2e-5)
    np.testing.assert_allclose(scores, few_scores, rtol=1e-4)


def test_constraints_of_some_sentences():
    ids = np.zeros((3, 1, 4), "int32")
    rows = np.array([2, 0])
    for constraint in (
        ForcedPrefix(np.array([[4, 5], [5, 6], [6, 0]]), TOKENS, VOCABULARY_SIZE),
        MinimumLength(np.array([1, 2, 3]), TOKENS, VOCABULARY_SIZE),
        MinimumLength(2, TOKENS, VOCABULARY_SIZE),
        NoRepeatNgrams(2, VOCABULARY_SIZE),
        LimitedRepeats.of(1, np.array([[5, 6], [6, 6], [6, 0]]), TOKENS.pad, VOCABULARY_SIZE),
    ):
        whole = np.broadcast_to(constraint(ids, 1), (3, 1, VOCABULARY_SIZE))
        chosen = np.broadcast_to(
            constraint.of_sentences(rows)(ids[rows], 1), (2, 1, VOCABULARY_SIZE)
        )
        np.testing.assert_array_equal(chosen, whole[rows])
