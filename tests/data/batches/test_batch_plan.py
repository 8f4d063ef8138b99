"""The plan of batches: every sentence once, inside the budget, mixed, the same for all."""

import collections
import itertools

import numpy as np
import pytest

from keras_transformer.data import (
    BatchPlan,
    SentencePairs,
    find_text,
    prepare_corpus,
    read_parallel_text,
)
from keras_transformer.errors import UserInputError
from keras_transformer.text import SentencePieceTokenizer
from tests.data.corpora import corpus_of
from tests.external_data import MULTI30K, needs


def lengths(pairs, seed=0):
    """Lengths as those of translations: log-normal sources, targets that go along."""
    generator = np.random.default_rng(seed)
    sources = np.clip(generator.lognormal(2.8, 0.5, pairs), 1, 80).astype("int64")
    targets = np.clip(sources * generator.normal(1.1, 0.25, pairs), 1, 90).astype("int64")
    return sources, targets


def plan_of(pairs=3000, *, batch_tokens=512, seed=1, **settings):
    return BatchPlan(*lengths(pairs), batch_tokens=batch_tokens, seed=seed, **settings)


def padding(plan, batches):
    sources, targets = plan.source_lengths, plan.target_lengths
    slots = sum(len(b) * (sources[b].max() + targets[b].max()) for b in batches)
    tokens = sum(sources[b].sum() + targets[b].sum() for b in batches)
    return 1 - tokens / slots


def repeated_companions(plan):
    """Share of the pairs of sentences in one batch of epoch 0 that share one in epoch 1 too."""
    homes = []
    for epoch in (0, 1):
        home = np.empty(len(plan.source_lengths), dtype="int64")
        for number, batch in enumerate(plan.epoch(epoch)):
            home[batch] = number
        homes.append(home)
    first = collections.Counter(homes[0].tolist())
    both = collections.Counter(zip(homes[0].tolist(), homes[1].tolist(), strict=True))

    def companions(counts):
        return sum(count * (count - 1) for count in counts.values())

    return companions(both) / companions(first)


def test_budget_is_used():
    # No plan needs fewer steps than the longer sides of all pairs fill without any padding.
    plan = plan_of(20_000, batch_tokens=2048)
    least = np.maximum(plan.source_lengths, plan.target_lengths).sum() / 2048
    assert least <= plan.steps_per_epoch <= 1.1 * least


def test_padding_share_is_that_of_the_batches():
    plan = plan_of(20_000, batch_tokens=2048)
    assert plan.padding_share == pytest.approx(padding(plan, plan.epoch(0)), rel=1e-12)
    assert plan.padding_share == pytest.approx(padding(plan, plan.epoch(5)), abs=0.003)
    assert 0 < plan.padding_share < 0.1


def test_padding_share_by_hand():
    # Both in one batch: 2 x 3 source and 2 x 5 target places for 5 and 9 tokens.
    plan = BatchPlan([3, 2], [4, 5], batch_tokens=10, seed=1)
    assert plan.steps_per_epoch == 1
    assert plan.padding_share == pytest.approx(2 / 16)
    assert plan.padding_share_of(0) == pytest.approx(2 / 16)
    assert plan.target_tokens(0) == 9


def test_any_step_is_reached_directly():
    plan = plan_of()
    steps = range(2 * plan.steps_per_epoch)
    expected = [batch.tolist() for epoch in (0, 1) for batch in plan.epoch(epoch)]
    assert [plan.batch(step).tolist() for step in steps] == expected
    for step in (plan.steps_per_epoch + 3, 0, 2 * plan.steps_per_epoch - 1, 7):
        assert plan_of().batch(step).tolist() == expected[step]


def test_plan_depends_on_seed_and_epoch():
    first = [batch.tolist() for batch in plan_of(seed=1).epoch(0)]
    assert first == [batch.tolist() for batch in plan_of(seed=1).epoch(0)]
    assert first != [batch.tolist() for batch in plan_of(seed=2).epoch(0)]
    assert first != [batch.tolist() for batch in plan_of(seed=1).epoch(1)]


def test_without_shuffle_batches_run_from_short_to_long_in_every_epoch():
    plan = plan_of(shuffle=False)
    batches = [batch.tolist() for batch in plan.epoch(0)]
    assert batches == [batch.tolist() for batch in plan.epoch(3)]
    longest = np.maximum(plan.source_lengths, plan.target_lengths)
    bounds = [(longest[batch].min(), longest[batch].max()) for batch in batches]
    assert all(a[1] <= b[0] for a, b in itertools.pairwise(bounds))


def test_without_shuffle_padding_is_least():
    shuffled, unshuffled = plan_of(), plan_of(shuffle=False)
    assert unshuffled.padding_share < shuffled.padding_share
    assert unshuffled.steps_per_epoch <= shuffled.steps_per_epoch


def test_batches_of_all_lengths_are_mixed_over_the_epoch():
    plan = plan_of(20_000, batch_tokens=1024)
    for epoch in range(3):
        mean = [plan.target_lengths[batch].mean() for batch in plan.epoch(epoch)]
        # Independent draws have a correlation of 1 / sqrt(steps), here 0.06.
        assert abs(np.corrcoef(mean, np.arange(len(mean)))[0, 1]) < 0.2


def test_companions_change_from_epoch_to_epoch():
    # All pairs equal, ten full batches: an independent draw shares 9.9 of 99 companions.
    plan = BatchPlan(np.full(1000, 10), np.full(1000, 10), batch_tokens=1000, seed=1)
    assert plan.steps_per_epoch == 10
    assert repeated_companions(plan) == pytest.approx(0.1, abs=0.01)
    unshuffled = plan_of(shuffle=False)
    assert repeated_companions(unshuffled) == 1


def test_companions_change_even_where_an_epoch_has_few_batches():
    plan = plan_of(400, batch_tokens=2048)
    assert plan.steps_per_epoch < 10
    assert repeated_companions(plan) < 0.6


def test_neighbors_have_nearly_the_same_lengths_on_both_sides():
    # Every pair of lengths up to 12 once: the order walks the grid without a jump.
    sources, targets = (side.ravel() for side in np.mgrid[1:13, 1:13])
    plan = BatchPlan(sources, targets, batch_tokens=12, seed=1, shuffle=False)
    order = np.concatenate(plan.epoch(0))
    jumps = np.abs(np.diff(sources[order])) + np.abs(np.diff(targets[order]))
    assert jumps.max() == 1


def test_growth_leaves_room_for_longer_sentences():
    sources, targets = lengths(3000)
    plan = plan_of(batch_tokens=512, growth=(1.5, 1.2))
    for batch in plan.epoch(0):
        # The longest have no more room than the budget.
        assert len(batch) * np.minimum(np.ceil(1.5 * sources[batch]), 512).max() <= 512
        assert len(batch) * np.minimum(np.ceil(1.2 * targets[batch]), 512).max() <= 512
    np.testing.assert_array_equal(np.sort(np.concatenate(plan.epoch(0))), np.arange(3000))
    assert (
        plan_of(batch_tokens=90, growth=(5, 5)).steps_per_epoch
        > plan_of(batch_tokens=90).steps_per_epoch
    )


def test_batch_sizes_of_a_cell_differ_by_one_at_most():
    # Eleven equal pairs, at most four a batch: 4, 4, 3 and not 4, 4, 2, 1.
    plan = BatchPlan(np.full(11, 5), np.full(11, 5), batch_tokens=20, seed=1)
    assert sorted(map(len, plan.epoch(0))) == [3, 4, 4]


def test_longest_pair_must_fit():
    with pytest.raises(UserInputError, match=r"line 2 has 5 source and 11 target tokens. "
                       r"Received: batch_tokens=10"):  # fmt: skip
        BatchPlan([3, 5, 10], [4, 11, 9], batch_tokens=10, seed=1)
    with pytest.raises(UserInputError, match="pair 1 has 12 source and 9 target tokens"):
        BatchPlan([3, 12], [4, 9], batch_tokens=10, seed=1, pair_name="pair {}".format)
    assert BatchPlan([10, 3], [9, 10], batch_tokens=10, seed=1).steps_per_epoch == 2


def test_no_pairs():
    with pytest.raises(UserInputError, match="no sentence pairs"):
        BatchPlan([], [], batch_tokens=10, seed=1)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"batch_tokens": 0}, "`batch_tokens` must be a positive integer"),
        ({"seed": -1}, "`seed` must be an integer >= 0. Received: seed=-1"),
        ({"seed": 0.5}, "`seed` must be an integer >= 0"),
        ({"source_lengths": [3]}, r"of the same length. Received: shapes \(1,\) and \(2,\)"),
        ({"source_lengths": [3, 0]}, "must be >= 1, .* Received: a length of 0"),
    ],
)
def test_wrong_arguments(settings, message):
    arguments = {"source_lengths": [3, 4], "target_lengths": [4, 4], "batch_tokens": 9, "seed": 1}
    with pytest.raises(ValueError, match=message):
        BatchPlan(**{**arguments, **settings})


def test_negative_step():
    with pytest.raises(ValueError, match="`step` must be an integer >= 0. Received: step=-1"):
        plan_of(10).batch(-1)


def test_plan_of_a_corpus_counts_the_end_of_sentence():
    corpus = corpus_of([[5] * 2, [5] * 4], [[5] * 3] * 2)
    corpus.line_numbers[:] = [10, 20]
    plan = BatchPlan.of(corpus, batch_tokens=5, seed=1)
    np.testing.assert_array_equal(plan.source_lengths, [3, 5])
    np.testing.assert_array_equal(plan.target_lengths, [4, 4])
    with pytest.raises(UserInputError, match="line 20 has 5 source and 4 target tokens"):
        BatchPlan.of(corpus, batch_tokens=4, seed=1)


@needs(MULTI30K)
@pytest.mark.parametrize("vocabulary_size", [10_000, 6_000])
def test_multi30k_pads_little_and_mixes(tmp_path, vocabulary_size):
    files = [find_text(MULTI30K, f"train.{language}") for language in ("en", "de")]
    sources, targets = read_parallel_text(*files)
    tokenizer = SentencePieceTokenizer.train(sources + targets, vocabulary_size=vocabulary_size)
    corpus = prepare_corpus(SentencePairs(sources, targets), tokenizer, tmp_path)
    plan = BatchPlan.of(corpus, batch_tokens=4096, seed=1)
    least = np.maximum(plan.source_lengths, plan.target_lengths).sum() / 4096
    assert plan.padding_share <= 0.10
    for lengths_of_side in (plan.source_lengths, plan.target_lengths):
        places = sum(len(batch) * lengths_of_side[batch].max() for batch in plan.epoch(0))
        assert 1 - lengths_of_side.sum() / places <= 0.10
    assert plan.steps_per_epoch <= 1.06 * least
    assert repeated_companions(plan) <= 0.20
