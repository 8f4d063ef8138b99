"""Outputs that are linearised trees: the constraint by itself, and in every search."""

import functools
import itertools

import numpy as np
import pytest
from keras import ops

from keras_transformer.decoding import (
    NoRepeatNgrams,
    TreeTokens,
    WellFormedTree,
    beam_search,
    greedy_search,
    sample,
)
from keras_transformer.decoding.sequence_generator import SequenceGenerator
from keras_transformer.models import build_transformer
from keras_transformer.search_options import SearchOptions
from tests.decoding.fake_models import HistoryModel, run
from tests.decoding.numpy_beam_search import numpy_beam_search
from tests.decoding.numpy_constraints import allowed_in_tree
from tests.decoding.small_trees import (
    END_S,
    EOS,
    LABELS,
    NP,
    PIECES,
    TOKENS,
    XX,
    S,
    tree_words,
    trees,
)

LOGITS = 11  # one is padding of the vocabulary
TREE_TOKENS = TreeTokens.of(PIECES)


def constraint(num_leaves, limits, max_openings=8):
    return WellFormedTree(num_leaves, limits, TREE_TOKENS, TOKENS, LOGITS, max_openings)


def most_openings(tokens):
    """The length of the longest run of opening brackets."""
    runs = (
        len(list(run))
        for is_open, run in itertools.groupby(tokens, {S, NP}.__contains__)
        if is_open
    )
    return max(runs)


@pytest.mark.parametrize(
    ("num_leaves", "limit", "max_openings"),
    [(1, 3, 8), (1, 8, 2), (2, 4, 1), (2, 5, 8), (2, 10, 8), (3, 9, 2), (3, 10, 1), (4, 9, 8)],
)
def test_a_token_may_follow_exactly_if_a_tree_within_the_limit_goes_on_with_it(
    num_leaves, limit, max_openings
):
    """Every prefix that the constraint allows leads to some tree: none is a dead end."""
    wanted = {
        (*tree, EOS) for tree in trees(num_leaves, limit) if most_openings(tree) <= max_openings
    }
    assert len(wanted) == len({tree[:-1] for tree in wanted}) > 0
    may_follow = constraint([num_leaves], [limit], max_openings)
    prefixes, reached = [()], set()
    for index in range(limit + 1):
        extended = set()
        for start in range(0, len(prefixes), 128):
            some = prefixes[start : start + 128]
            # What is behind must not count. One shape for all: JAX compiles for each.
            ids = np.full((1, 128, limit + 1), S, "int32")
            ids[0, : len(some), :index] = some
            (mask,) = ops.convert_to_numpy(may_follow(ids, index))
            places = np.argwhere(mask[: len(some)])
            extended |= {(*some[row], int(token)) for row, token in places}
        assert extended == {tree[: index + 1] for tree in wanted if len(tree) > index}
        reached |= {prefix for prefix in extended if prefix[-1] == EOS}
        prefixes = sorted(extended - reached)
        if not prefixes:
            break
    assert reached == wanted


@pytest.mark.parametrize("max_openings", [1, 3])
def test_equals_a_stack_on_long_random_trees(max_openings):
    generator = np.random.default_rng(max_openings)
    num_leaves, limits = np.array([1, 7, 19, 30]), np.array([9, 9, 60, 60])
    rules = [
        {"num_leaves": n, "limit": limit, "labels": LABELS, "leaf": XX, "eos": EOS}
        for n, limit in zip(num_leaves, limits, strict=True)
    ]
    may_follow = constraint(num_leaves, limits, max_openings)
    ids, ended = np.zeros((4, 5, 61), "int32"), set()
    for index in range(61):
        mask = ops.convert_to_numpy(may_follow(ops.convert_to_tensor(ids), index))
        for row, beam in set(np.ndindex(4, 5)) - ended:
            prefix = ids[row, beam, :index].tolist()
            expected = allowed_in_tree(prefix, **rules[row], max_openings=max_openings)
            assert set(np.flatnonzero(mask[row, beam])) == expected
            token = generator.choice(sorted(expected))
            ids[row, beam, index] = token
            if token == EOS:
                ended.add((row, beam))
    assert len(ended) == 20
    for row, beam in np.ndindex(4, 5):
        assert tree_words(ids[row, beam]) == num_leaves[row]


def test_a_limit_that_fits_no_tree_begins_a_flat_one():
    may_follow = constraint([3, 3, 0], [4, 1, 0])
    prefixes = [(), (S,), (S, XX), (S, XX, XX), (S, XX, XX, XX), (S, XX, XX, XX, END_S)]
    for index, expected in enumerate([{S, NP}, {XX}, {XX}, {XX}, {END_S}, {EOS}]):
        ids = np.zeros((3, 1, 6), "int32")
        ids[:2, 0, :index] = prefixes[index]
        mask = ops.convert_to_numpy(may_follow(ids, index))
        assert [set(np.flatnonzero(mask[row, 0])) for row in (0, 1)] == [expected] * 2
    ids = np.zeros((3, 1, 6), "int32")
    assert np.flatnonzero(ops.convert_to_numpy(may_follow(ids, 0))[2, 0]).tolist() == [EOS]


NUM_LEAVES, LIMITS = [1, 5, 2, 12], [3, 20, 40, 25]


def random_search(search, width, seed=0, sharpness=3.0, constraints=(), **options):
    """The rows of a search by a random model that knows nothing of trees, all but empty ones."""
    model = HistoryModel(seed, vocabulary_size=LOGITS, sharpness=sharpness)
    sentences = np.random.default_rng(seed).normal(size=(4, 8))
    ids, scores = run(
        search,
        model.step,
        model.start(sentences, width),
        limits=LIMITS,
        vocabulary_size=LOGITS - 1,
        constraints=(constraint(NUM_LEAVES, LIMITS), *constraints),
        **options,
    )
    ids, scores = ids.reshape(4, -1, ids.shape[-1]), scores.reshape(4, -1)
    assert scores.dtype == np.float32
    for row, scores_of_one in zip(ids, scores, strict=True):
        assert np.isfinite(scores_of_one[0])
        assert (np.isfinite(scores_of_one) == row.any(axis=1)).all()
    return [
        [row for row, score in zip(*both, strict=True) if np.isfinite(score)]
        for both in zip(ids, scores, strict=True)
    ]


def assert_trees(found):
    for rows, num_leaves, limit in zip(found, NUM_LEAVES, LIMITS, strict=True):
        assert len({tuple(row) for row in rows}) == len(rows)
        for row in rows:
            assert tree_words(row) == num_leaves
            assert list(row).index(EOS) <= limit


@pytest.mark.parametrize("beam_size", [1, 3, 21])
@pytest.mark.parametrize("seed", [0, 1])
def test_every_result_of_a_beam_search_is_a_tree(beam_size, seed):
    found = random_search(
        beam_search, beam_size, seed=seed, beam_size=beam_size, alpha=0.3, num_results=beam_size
    )
    assert_trees(found)
    assert len(found[0]) == min(beam_size, 2)  # (S XX )S and (NP XX )NP: all there are
    assert len(found[1]) == beam_size


def test_greedy_search_and_samples_give_trees_whatever_other_constraints_say():
    ngrams = NoRepeatNgrams(1, LOGITS)  # which no tree of two words can keep
    assert_trees(random_search(greedy_search, 1, constraints=(ngrams,)))
    uniforms = np.random.default_rng(0).random((4, 6, 41), dtype="float32")
    found = random_search(sample, 6, uniforms=uniforms, num_samples=6)
    for rows, num_leaves in zip(found, NUM_LEAVES, strict=True):
        assert [tree_words(row) for row in rows] == [num_leaves] * 6  # a sample may come twice


def test_a_beam_search_for_trees_equals_the_reference_in_float64():
    model = HistoryModel(3, vocabulary_size=LOGITS)
    sentences = np.random.default_rng(3).normal(size=(4, 8))
    ids, scores = run(
        beam_search, model.step, model.start(sentences, 3), beam_size=3, alpha=0.3, limits=LIMITS,
        vocabulary_size=LOGITS - 1,
        constraints=(constraint(NUM_LEAVES, LIMITS, max_openings=2),),
    )  # fmt: skip
    for row, (sentence, num_leaves, limit) in enumerate(
        zip(sentences, NUM_LEAVES, LIMITS, strict=True)
    ):
        expected = numpy_beam_search(
            model.log_probs_after(sentence, TOKENS.bos), beam_size=3, alpha=0.3, limit=limit,
            special_tokens=TOKENS,
            allowed_after=functools.partial(
                allowed_in_tree, num_leaves=num_leaves, limit=limit, labels=LABELS, leaf=XX,
                eos=EOS, max_openings=2,
            ),
        )  # fmt: skip
        found = [tuple(int(i) for i in one if i) for one in ids[row] if one.any()]
        assert found == [tokens for tokens, _ in expected]
        np.testing.assert_allclose(
            scores[row, : len(expected)], [score for _, score in expected], atol=1e-4
        )


def test_a_generators_searches_take_the_constraint():
    sizes = {"num_encoder_layers": 1, "num_decoder_layers": 1}
    model = build_transformer("tiny", vocabulary_size=LOGITS, **sizes)
    generator = SequenceGenerator(model, vocabulary_size=LOGITS - 1)
    source_ids = np.array([[4, 5, 6, 2], [9, 9, 2, 0], [0, 0, 0, 0]])
    options = {
        "options": SearchOptions(beam_size=3, extra_length=6),
        "prefix_ids": np.array([[5, 5, 5], [5, 6, 5], [0, 0, 0]]),
        "constraints": (lambda limits: constraint([3, 1, 0], limits),),
    }
    uniforms = np.random.default_rng(0).random((3, 2, 10), dtype="float32")
    outputs = [
        generator.search(source_ids, **options)[0],
        generator.sample(source_ids, uniforms, **options)[0],
    ]
    for ids in outputs:
        ids = ops.convert_to_numpy(ids)
        for row, num_leaves, beginning in ((ids[0], 3, [NP, NP, NP]), (ids[1], 1, [NP, XX])):
            for found in row[row.any(axis=1)]:
                assert tree_words(found) == num_leaves
                assert found[: len(beginning)].tolist() == beginning  # as far as a tree can
        assert ids[2, 0].tolist() == [EOS] + [0] * 9


def test_refuses_tokens_that_make_no_tree():
    for pieces, message in (
        (["(S", ")S"], "`tokens` must have the leaf `XX`"),
        (["XX"], "`opening` must have a label"),
        (["XX", "(", ")"], "`opening` must have a label"),  # as a vocabulary of text may be
        (["(S", ")NP", "XX"], "without a closing bracket: \\[0\\]"),
    ):
        with pytest.raises(ValueError, match=message):
            TreeTokens.of(pieces)
    for roles, message in (
        (((0, -1), (-1,), 1), r"must have the same length .* lengths=\[2, 1\]"),
        (((0, -1), (-1, 0), 2), "`leaf` must be an id of the vocabulary. Received: leaf=2"),
        (((0, -1), (-1, 0), 1), "A token must have one role. Received: several of id 1"),
        (((0, -1), (0, -1), 1), "A token must have one role. Received: several of id 0"),
    ):
        with pytest.raises(ValueError, match=message):
            TreeTokens(*roles)


def test_refuses_bad_arguments():
    with pytest.raises(ValueError, match="`max_openings` must be a positive integer. Received: "):
        constraint([1], [5], max_openings=0)
    with pytest.raises(ValueError, match="`vocabulary_size` must be at least the number of tokens"):
        WellFormedTree([1], [5], TREE_TOKENS, TOKENS, vocabulary_size=9)
