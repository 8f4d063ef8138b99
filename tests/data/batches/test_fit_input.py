"""From prepared corpora to the input of `fit`: mixing by weights, and reading from any step."""

import collections
import itertools

import numpy as np
import pytest

from keras_transformer.data import BatchPlan, BatchReader, fit_batches
from keras_transformer.types import SpecialTokens
from tests.data.corpora import assert_same, random_corpus, reader_of


def sentences(reader, epoch):
    """How often an epoch's batches hold each pair of sentences, as counted from their ids."""
    first = epoch * reader.plan.steps_per_epoch
    counts = collections.Counter()
    for step in range(first, first + reader.plan.steps_per_epoch):
        inputs, labels, _ = reader.batch(step)
        rows = zip(inputs["source_ids"].tolist(), labels.tolist(), strict=True)
        counts.update((tuple(filter(None, a)), tuple(filter(None, b))) for a, b in rows)
    return counts


def pairs_of(corpus):
    return [
        ((*corpus.source(i).tolist(), 2), (*corpus.target(i).tolist(), 2))
        for i in range(len(corpus))
    ]


@pytest.mark.parametrize("settings", [{}, {"weights": [1]}, {"weights": [1.0], "shuffle": False}])
def test_one_corpus_is_read_as_by_its_plan(settings):
    corpus = random_corpus()
    shuffle = settings.get("shuffle", True)
    single = BatchPlan.of(corpus, batch_tokens=256, seed=1, shuffle=shuffle)
    expected = BatchReader(corpus, single, SpecialTokens())
    for corpora in (corpus, [corpus]):
        reader = reader_of(corpora, **settings)
        assert reader.plan.steps_per_epoch == single.steps_per_epoch
        for step in range(2 * single.steps_per_epoch):
            assert_same(reader.batch(step), expected.batch(step))


def test_an_epoch_holds_each_corpus_by_its_weight():
    corpora = [random_corpus(100, 1), random_corpus(20, 2), random_corpus(30, 3)]
    reader = reader_of(corpora, weights=[0.5, 3, 1])
    halves = []
    for epoch in range(2):
        counts = sentences(reader, epoch)
        halves.append([counts[pair] for pair in pairs_of(corpora[0])])
        assert sum(halves[-1]) == 50
        assert [counts[pair] for pair in pairs_of(corpora[1])] == [3] * 20
        assert [counts[pair] for pair in pairs_of(corpora[2])] == [1] * 30
        assert counts.total() == 50 + 60 + 30
    assert np.add(*halves).tolist() == [1] * 100


@pytest.mark.parametrize("shuffle", [True, False])
def test_mixed_batches_keep_the_budget_and_the_steps(shuffle):
    reader = reader_of(
        [random_corpus(300, 1), random_corpus(50, 2)], weights=[0.3, 2.5], shuffle=shuffle
    )
    steps = reader.plan.steps_per_epoch
    for epoch in range(4):
        batches = [reader.batch(epoch * steps + step) for step in range(steps)]
        assert sum(len(labels) for _, labels, _ in batches) == 90 + 125
        for inputs, labels, weights in batches:
            assert inputs["source_ids"].size <= 256
            assert labels.size <= 256
            assert weights.sum() == pytest.approx(1, abs=1e-6)


def test_mixed_corpora_share_batches():
    reader = reader_of([random_corpus(200, 1), random_corpus(200, 2)], batch_tokens=1024)
    kinds = [set(batch // 200) for batch in reader.plan.epoch(0)]
    assert sum(kind == {0, 1} for kind in kinds) > len(kinds) / 2


def test_without_shuffle_every_epoch_of_a_mixture_is_the_same():
    reader = reader_of(
        [random_corpus(100, 1), random_corpus(40, 2)], weights=[0.4, 1.5], shuffle=False
    )
    assert sentences(reader, 0) == sentences(reader, 1)


@pytest.mark.parametrize("form", [{}, {"shapes": 3}, {"packing": True}])
def test_figures_of_a_mixture_are_those_of_its_batches(form):
    reader = reader_of([random_corpus(100, 1), random_corpus(40, 2)], weights=[0.4, 1.5], **form)
    tokens = places = 0
    for step in range(2 * reader.plan.steps_per_epoch):
        inputs, labels, _ = reader.batch(step)
        sides = inputs["source_ids"], labels
        real = [np.count_nonzero(side) for side in sides]
        assert reader.plan.target_tokens(step) == real[1]
        expected = 1 - sum(real) / sum(side.size for side in sides)
        assert reader.plan.padding_share_of(step) == pytest.approx(expected, abs=1e-12)
        if step < reader.plan.steps_per_epoch:
            tokens, places = tokens + sum(real), places + sum(side.size for side in sides)
    assert reader.plan.padding_share == pytest.approx(1 - tokens / places, abs=1e-12)


@pytest.mark.parametrize("start_step", [0, 5])
def test_fit_reads_from_any_step(start_step):
    reader, again = (
        reader_of([random_corpus(100, 1), random_corpus(40, 2)], weights=[0.4, 1.5])
        for _ in range(2)
    )
    steps = range(3 * reader.plan.steps_per_epoch)
    expected = [reader.batch(step) for step in steps]
    batches = list(itertools.islice(fit_batches(again, start_step), 4))
    assert_same(batches, expected[start_step : start_step + 4])
    assert_same(again.batch(steps[-1]), expected[-1])


def test_rows_are_filled_up_and_shared():
    reader = reader_of(random_corpus(100, 1))
    streams = [fit_batches(reader, 1, row_multiple=6, shard=(index, 3)) for index in range(3)]
    for step, shares in enumerate(itertools.islice(zip(*streams, strict=False), 6), start=1):
        inputs, labels, weights = reader.batch(step, row_multiple=6)
        for name in ("source_ids", "target_ids"):
            parts = [part[name] for part, _, _ in shares]
            np.testing.assert_array_equal(np.concatenate(parts), inputs[name])
        np.testing.assert_array_equal(np.concatenate([part for _, part, _ in shares]), labels)
        np.testing.assert_array_equal(np.concatenate([part for *_, part in shares]), weights)
        assert len({part.shape for _, part, _ in shares}) == 1


@pytest.mark.parametrize(
    ("sharing", "message"),
    [
        ({"row_multiple": 0}, "`row_multiple` must be a positive integer"),
        ({"row_multiple": 3, "shard": (0, 2)}, "must be a multiple of the number of processes"),
        ({"row_multiple": 2, "shard": (2, 2)}, "with index < count. Received: shard=.2, 2."),
        ({"row_multiple": 2, "shard": (-1, 2)}, "must be an integer >= 0"),
    ],
)
def test_wrong_sharing(sharing, message):
    with pytest.raises(ValueError, match=message):
        fit_batches(reader_of(random_corpus(20)), **sharing)
