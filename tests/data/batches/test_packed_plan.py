"""Batches of one shape, whose rows hold several pairs."""

import pickle

import numpy as np
import pytest

from benchmarks.wmt_lengths import wmt_lengths
from keras_transformer.data import PackedPlan, SubwordSampling, plan_batches
from keras_transformer.types import SpecialTokens
from tests.data.corpora import (
    CuttingTokenizer,
    corpus_of,
    random_corpus,
    random_lengths,
    with_text,
)


def plan_of(pairs=500, batch_tokens=1024, **options):
    return PackedPlan(*random_lengths(pairs), batch_tokens=batch_tokens, **{"seed": 3, **options})


@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize(("pairs", "batch_tokens"), [(1, 40), (7, 64), (500, 1024), (3000, 2048)])
def test_every_epoch_has_every_pair_once_in_rows_that_hold_it(pairs, batch_tokens, shuffle):
    sources, targets = random_lengths(pairs)
    plan = PackedPlan(sources, targets, batch_tokens=batch_tokens, seed=3, shuffle=shuffle)
    (shape,) = plan.shapes
    rows, *most = shape
    assert rows * max(most) <= batch_tokens
    for epoch in range(2):
        assert sorted(np.concatenate(plan.epoch(epoch))) == list(range(pairs))
        for step in range(epoch * plan.steps_per_epoch, (epoch + 1) * plan.steps_per_epoch):
            in_batch, row = plan.batch(step), plan.rows(step)
            assert plan.padded_shape(step) == shape
            assert row[0] == 0
            assert set(np.diff(row)) <= {0, 1}
            assert row[-1] < rows
            for side, length in zip((sources, targets), most, strict=True):
                assert np.bincount(row, side[in_batch]).max() <= length


@pytest.mark.parametrize(("batch_tokens", "pairs"), [(25_000, 50_000), (4096, 5_000)])
def test_lengths_of_news_pad_little(batch_tokens, pairs):
    sources, targets = wmt_lengths(pairs)
    plan = PackedPlan(sources + 1, targets + 1, batch_tokens=batch_tokens, seed=1)
    assert plan.padding_share <= 0.05
    assert plan.report() == f"1 shape, {plan.padding_share:.1%} padding"
    tokens = int(sources.sum() + targets.sum()) + 2 * pairs
    rows, source_length, target_length = plan.shapes[0]
    padded = plan.steps_per_epoch * rows * (source_length + target_length)
    assert plan.padding_share == pytest.approx(1 - tokens / padded)


def test_any_step_is_reached_directly_and_epochs_differ():
    plan, again, other = plan_of(), pickle.loads(pickle.dumps(plan_of())), plan_of(seed=4)
    step = plan.steps_per_epoch + 2
    np.testing.assert_array_equal(plan.batch(step), again.batch(step))
    np.testing.assert_array_equal(plan.rows(step), again.rows(step))
    assert plan.fingerprint == again.fingerprint != other.fingerprint
    assert plan.batch(2).tolist() != plan.batch(step).tolist()
    assert plan.batch(2).tolist() != other.batch(2).tolist()
    unshuffled = plan_of(shuffle=False)
    assert unshuffled.batch(2).tolist() == unshuffled.batch(2 + unshuffled.steps_per_epoch).tolist()


def test_a_row_has_other_pairs_in_the_next_epoch():
    plan = plan_of(3000)

    def companions(epoch):
        steps = range(epoch * plan.steps_per_epoch, (epoch + 1) * plan.steps_per_epoch)
        found = set()
        for step in steps:
            for row in np.split(plan.batch(step), np.flatnonzero(np.diff(plan.rows(step))) + 1):
                found |= {(a, b) for a in row for b in row if a < b}
        return found

    first, second = companions(0), companions(1)
    assert len(first & second) < 0.5 * len(first)


def test_packed_rows_have_one_shape():
    with pytest.raises(ValueError, match="`shapes` must be None if rows are packed"):
        PackedPlan([3, 7], [4, 4], batch_tokens=64, seed=1, shapes=2)


@pytest.mark.parametrize("row_multiple", [1, 8])
def test_batches_hold_the_pairs_one_after_the_other(row_multiple):
    corpus = random_corpus(300)
    reader = plan_batches(corpus, SpecialTokens(), batch_tokens=512, seed=2, packing=True)
    rows, source_length, target_length = reader.plan.shapes[0]
    for step in range(reader.plan.steps_per_epoch):
        inputs, labels, weights = reader.batch(step, row_multiple)
        padded_rows = -(-rows // row_multiple) * row_multiple
        assert inputs["source_ids"].shape == (padded_rows, source_length)
        assert labels.shape == weights.shape == inputs["target_ids"].shape
        assert labels.shape == (padded_rows, target_length)
        assert weights.sum() == pytest.approx(1)
        np.testing.assert_array_equal(weights > 0, labels != 0)
        pairs, row_of = reader.plan.batch(step), reader.plan.rows(step)
        for row in range(rows):
            sources, targets, expected = [], [], []
            for pair in pairs[row_of == row]:
                sources += [*corpus.source(pair), 2]
                targets += [1, *corpus.target(pair)]
                expected += [*corpus.target(pair), 2]
            for ids, tokens in (
                (inputs["source_ids"], sources),
                (inputs["target_ids"], targets),
                (labels, expected),
            ):
                assert ids[row].tolist() == tokens + [0] * (ids.shape[1] - len(tokens))


def test_several_corpora_by_weight():
    corpora = [random_corpus(100, seed=1), random_corpus(100, seed=2)]
    reader = plan_batches(
        corpora, SpecialTokens(), weights=[0.5, 2], batch_tokens=256, seed=2, packing=True
    )
    pairs = np.concatenate(reader.plan.epoch(1))
    assert (pairs < 100).sum() == 50
    assert np.bincount(pairs, minlength=200)[100:].tolist() == [2] * 100
    for step in range(reader.plan.steps_per_epoch):
        reader.batch(step)


def test_sampled_pieces_keep_to_their_room():
    corpus = with_text(random_corpus(100))
    sampling = SubwordSampling(CuttingTokenizer(), CuttingTokenizer(), alpha=0.3, seed=5)
    reader = plan_batches(
        corpus, SpecialTokens(), batch_tokens=256, subword_sampling=sampling, packing=True
    )
    (shape,) = reader.plan.shapes
    cut = 0
    for step in range(reader.plan.steps_per_epoch):
        inputs, labels, _ = reader.batch(step)
        assert (len(labels), inputs["source_ids"].shape[1], labels.shape[1]) == shape
        cut += int((labels == CuttingTokenizer.PIECE).sum())
        assert (labels == 2).sum() == len(reader.plan.batch(step))
    assert cut > 50


def test_one_pair_a_row_where_no_two_fit():
    corpus = corpus_of([[5] * 200] * 3, [[6] * 190] * 3)
    reader = plan_batches(corpus, SpecialTokens(), batch_tokens=201, packing=True)
    assert reader.plan.steps_per_epoch == 3
    assert [reader.plan.rows(step).tolist() for step in range(3)] == [[0]] * 3
