"""Plans of any and of few padded shapes: every sentence once, inside the budget, little padding."""

import itertools

import numpy as np
import pytest

from keras_transformer.data import BatchPlan, fit_batches, plan_batches
from keras_transformer.data.batch_cells import cut_shape_cells
from keras_transformer.types import SpecialTokens
from tests.data.corpora import random_corpus


def news_lengths(pairs, seed=0):
    """Invented lengths with the means and spreads of newstest2013 in 32,000 subwords."""
    generator = np.random.default_rng(seed)
    sources = np.exp(generator.normal(3.0, 0.57, pairs))
    targets = sources * np.exp(generator.normal(0, 0.168, pairs))
    return [np.clip(np.round(side), 2, 250).astype("int32") for side in (sources, targets)]


def plan_of(pairs=20_000, *, batch_tokens=2048, seed=1, shapes=16, **settings):
    lengths = news_lengths(pairs)
    return BatchPlan(*lengths, batch_tokens=batch_tokens, seed=seed, shapes=shapes, **settings)


def steps_of(plan, epochs=1):
    return range(epochs * plan.steps_per_epoch)


@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("shapes", [None, 1, 4, 16])
@pytest.mark.parametrize(
    ("pairs", "batch_tokens"), [(1, 250), (7, 250), (3000, 256), (3000, 4096), (3000, 10**6)]
)
def test_every_sentence_once_in_batches_inside_the_budget(pairs, batch_tokens, shapes, shuffle):
    plan = plan_of(pairs, batch_tokens=batch_tokens, shapes=shapes, shuffle=shuffle)
    for epoch in range(2):
        np.testing.assert_array_equal(np.sort(np.concatenate(plan.epoch(epoch))), np.arange(pairs))
    seen = set()
    for step in steps_of(plan, epochs=2):
        batch, (rows, source_length, target_length) = plan.batch(step), plan.padded_shape(step)
        assert 1 <= len(batch) <= rows
        assert plan.source_lengths[batch].max() <= source_length
        assert plan.target_lengths[batch].max() <= target_length
        assert rows * max(source_length, target_length) <= batch_tokens
        seen.add((rows, source_length, target_length))
    if shapes:
        assert set(plan.shapes) == seen
        assert len(plan.shapes) == len(seen) <= shapes


@pytest.mark.parametrize(("batch_tokens", "most"), [(4096, 0.145), (25_000, 0.145)])
def test_lengths_of_news_pad_little_in_16_shapes(batch_tokens, most):
    plan = plan_of(300_000, batch_tokens=batch_tokens)
    least = np.maximum(plan.source_lengths, plan.target_lengths).sum() / batch_tokens
    assert len(plan.shapes) == 16
    assert plan.padding_share <= most
    # Batches are full: every cell leaves some of the budget to its shorter sides.
    assert plan.steps_per_epoch <= 1.12 * least


def test_more_shapes_pad_less():
    shares = [plan_of(shapes=shapes).padding_share for shapes in (1, 2, 4, 8, 16)]
    assert all(more < fewer for fewer, more in itertools.pairwise(shares))


def test_shapes_pad_least():
    """Against all ways to cut lengths of one cell each, with as many pairs as make full batches."""
    lengths = np.array([3, 4, 7, 9, 14, 20, 31])
    pairs = np.repeat(lengths, np.array([50, 10, 40, 30, 5, 20, 10]) * 12)
    for shapes in (1, 2, 3, 4):
        _, found = cut_shape_cells(np.stack([pairs, pairs]), 31, shapes, least_batches=1)
        cuts = itertools.combinations(lengths[:-1].tolist(), shapes - 1)
        ways = [np.array([*cut, 31]) for cut in cuts]
        places = [int(way[np.searchsorted(way, pairs)].sum()) for way in ways]
        assert [length for _, length, _ in found] == ways[int(np.argmin(places))].tolist()


def test_padding_share_counts_empty_rows():
    # Three pairs of 5 and 5 tokens where a batch has room for two: one row of four is empty.
    plan = BatchPlan([5, 5, 5], [5, 5, 5], batch_tokens=10, seed=1, shapes=1)
    assert plan.shapes == [(2, 5, 5)]
    assert plan.padding_share == pytest.approx(1 / 4)
    assert sorted(map(plan.padding_share_of, range(2))) == pytest.approx([0, 1 / 2])
    assert plan.report() == "1 shape, 25.0% padding"


def test_longer_sides_are_multiples_of_8_but_for_the_longest():
    lengths = {length for shape in plan_of().shapes for length in shape[1:] if length >= 32}
    longest = {int(side.max()) for side in news_lengths(20_000)}
    assert lengths - longest
    assert all(length % 8 == 0 for length in lengths - longest)


def test_without_shapes_there_are_none():
    plan = plan_of(3000, shapes=None)
    assert plan.shapes is None
    assert plan.report() == f"{plan.padding_share:.1%} padding"
    for step in steps_of(plan):
        batch = plan.batch(step)
        sides = plan.source_lengths[batch].max(), plan.target_lengths[batch].max()
        assert plan.padded_shape(step) == (len(batch), *sides)


@pytest.mark.parametrize("shapes", [0, 2.0, True])
def test_wrong_number_of_shapes(shapes):
    with pytest.raises(ValueError, match="`shapes` must be a positive integer. Received: shapes="):
        plan_of(10, shapes=shapes)


@pytest.mark.parametrize("shapes", [None, 4])
def test_largest_step_needs_the_most_memory(shapes):
    # One budget: the longest sentences attend to the most.
    lengths = np.array([10] * 80 + [100] * 4 + [99] * 4)
    plan = BatchPlan(lengths, lengths, batch_tokens=400, seed=3, shuffle=True, shapes=shapes)
    assert plan.batch(plan.largest_step).max() >= 80


def test_targets_need_more_memory_than_sources():
    long_sources, long_targets = np.repeat([50, 10], 8), np.repeat([10, 50], 8)
    plan = BatchPlan(long_sources, long_targets, batch_tokens=50, seed=3)
    assert plan.batch(plan.largest_step).min() >= 8


@pytest.mark.parametrize("shapes", [None, 16])
def test_no_step_is_larger_than_the_largest_in_all_ways(shapes):
    plan = plan_of(3000, shapes=shapes)
    largest = plan.padded_shape(plan.largest_step)
    others = {plan.padded_shape(step) for step in steps_of(plan)} - {largest}
    assert others
    assert not any(np.all(np.array(other) >= largest) for other in others)


@pytest.mark.parametrize("row_multiple", [1, 6])
def test_batches_have_the_shapes_of_the_plan(row_multiple):
    corpus = random_corpus(300)
    options = {"batch_tokens": 256, "seed": 1}
    reader = plan_batches(corpus, SpecialTokens(), shapes=3, **options)
    shapes, sentences = set(), []
    stream = itertools.islice(
        fit_batches(reader, row_multiple=row_multiple), reader.plan.steps_per_epoch
    )
    for inputs, labels, weights in stream:
        labels, weights = np.asarray(labels), np.asarray(weights)
        source_ids, target_ids = np.asarray(inputs["source_ids"]), np.asarray(inputs["target_ids"])
        assert target_ids.shape == labels.shape == weights.shape
        assert len(labels) % row_multiple == 0
        assert weights.sum() == pytest.approx(1, abs=1e-6)
        np.testing.assert_array_equal(weights > 0, labels != 0)
        shapes.add((*source_ids.shape, labels.shape[1]))
        sentences += [tuple(row[row > 0].tolist()) for row in labels if row.any()]
    assert len(shapes) == len(reader.plan.shapes) == 3
    assert sorted(sentences) == sorted((*corpus.target(i).tolist(), 2) for i in range(300))
