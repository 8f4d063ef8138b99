"""Sampled segmentations: their probabilities, their text, and what they depend on."""

import concurrent.futures
import functools
import itertools
import threading

import numpy as np
import pytest
import sentencepiece

from keras_transformer.text import SentencePieceTokenizer

LINES = [
    "a small house stands behind the tree",
    "the big house stands before the small tree",
    "ein kleines Haus steht hinter dem Baum",
    "das große Haus steht vor dem kleinen Baum",
]
NASTY = [*LINES, "", " ", "x", "東京 🙂 e\u0301", "<bt> the house <bt>"]


@functools.cache
def train(model_type):
    return SentencePieceTokenizer.train(
        LINES,
        vocabulary_size=300,
        model_type=model_type,
        byte_fallback=True,
        user_defined_symbols=["<bt>"],
    )


@pytest.fixture(params=["bpe", "unigram"])
def tokenizer(request):
    return train(request.param)


def test_a_merge_is_dropped_with_probability_alpha():
    # "▁", "a", "b" and one merge behind the four special tokens: "ab" has one way to be merged.
    tokenizer = SentencePieceTokenizer.train(["ab ab ab"], vocabulary_size=8)
    merged = tokenizer.encode(["ab"])[0]
    assert len(merged) == 2
    rows = tokenizer.sample(["ab"] * 10_000, alpha=0.3, seed=0)
    assert {len(row) for row in rows} == {2, 3}
    # 4 standard deviations of a share of 0.7 among 10,000 are 0.018.
    assert rows.count(merged) / 10_000 == pytest.approx(0.7, abs=0.018)


@pytest.mark.parametrize("alpha", [0.0, 0.2, 1.0])
def test_unigram_segmentations_are_drawn_by_smoothed_probability(alpha):
    tokenizer = SentencePieceTokenizer.train(
        ["abab ab ba aab"] * 3, vocabulary_size=11, model_type="unigram"
    )
    processor = sentencepiece.SentencePieceProcessor(model_proto=tokenizer.model_bytes)
    scores = {
        processor.id_to_piece(token): processor.get_score(token)
        for token in range(4, processor.get_piece_size())
    }
    text, weights = "▁abab", {}
    for cuts in itertools.product([False, True], repeat=len(text) - 1):
        ends = [place + 1 for place, cut in enumerate(cuts) if cut]
        pieces = tuple(text[i:j] for i, j in zip([0, *ends], [*ends, len(text)], strict=True))
        if all(piece in scores for piece in pieces):
            weights[pieces] = np.exp(alpha * sum(scores[piece] for piece in pieces))
    assert len(weights) > 3
    total = sum(weights.values())
    rows = tokenizer.sample(["abab"] * 2_500, alpha=alpha, seed=3)
    drawn = [tuple(tokenizer.pieces(row)) for row in rows]
    assert set(drawn) <= set(weights)
    for pieces, weight in weights.items():
        # 4 standard deviations of a share among 2,500 are at most 0.04.
        assert drawn.count(pieces) / 2_500 == pytest.approx(weight / total, abs=0.04)


def test_bpe_without_dropout_is_encode_and_with_all_of_it_characters():
    tokenizer = train("bpe")
    assert tokenizer.sample(NASTY, alpha=0, seed=5) == tokenizer.encode(NASTY)
    (ids,) = tokenizer.sample(["the house"], alpha=1, seed=5)
    assert tokenizer.pieces(ids) == list("▁the▁house")


def test_text_comes_back(tokenizer):
    texts = tokenizer.decode(tokenizer.encode(NASTY))
    for seed in range(20):
        ids = tokenizer.sample(NASTY, alpha=0.3, seed=seed)
        assert tokenizer.decode(ids) == texts
        assert all(isinstance(token, int) for row in ids for token in row)


@pytest.mark.parametrize(("model_type", "least"), [("bpe", 300), ("unigram", 290)])
def test_user_defined_symbols_stay_whole(model_type, least):
    tokenizer = train(model_type)
    (symbol,) = (token for token in range(10) if tokenizer.pieces([token]) == ["<bt>"])
    rows = tokenizer.sample(["<bt> the house"] * 300, alpha=0.2, seed=0)
    # A unigram sample spells the symbol now and then: about once in 1,000 draws.
    assert sum(row.count(symbol) == 1 for row in rows) >= least
    assert len({tuple(row) for row in rows}) > 1


def test_the_seed_alone_decides(tokenizer):
    first = tokenizer.sample(LINES, alpha=0.3, seed=11)
    tokenizer.sample(LINES, alpha=0.7, seed=12)
    train("bpe").sample(LINES, alpha=0.7, seed=13)
    sentencepiece.set_random_generator_seed(99)
    assert tokenizer.sample(LINES, alpha=0.3, seed=11) == first
    assert tokenizer.sample(LINES, alpha=0.3, seed=np.int64(11)) == first
    assert tokenizer.sample(LINES, alpha=0.3, seed=12) != first


def test_every_seed_is_a_seed(tokenizer):
    """The library takes 2**32 - 1 for "any seed": it must not reach it."""
    for seed in (0, 2**32 - 1, 2**32, 2**63):
        first = tokenizer.sample(LINES, alpha=0.3, seed=seed)
        assert tokenizer.sample(LINES, alpha=0.3, seed=seed) == first


def test_threads_do_not_disturb_each_other(tokenizer):
    # Longer than Python's switching interval, so that the draws would meet.
    lines = LINES * 50
    expected = [tokenizer.sample(lines, alpha=0.3, seed=seed) for seed in range(8)]
    start = threading.Barrier(4)

    def draw(worker):
        start.wait()
        seeds = [(worker + step) % 8 for step in range(8)]
        return all(tokenizer.sample(lines, alpha=0.3, seed=s) == expected[s] for s in seeds)

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        assert all(pool.map(draw, range(4)))


def test_no_sentences(tokenizer):
    assert tokenizer.sample([], alpha=0.1, seed=0) == []
    assert tokenizer.sample([""], alpha=0.1, seed=0) == [[]]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"alpha": -0.1}, r"`alpha` must be a number in \[0, 1\]. Received: alpha=-0.1"),
        ({"alpha": 1.5}, r"`alpha` must be a number in \[0, 1\]. Received: alpha=1.5"),
        ({"alpha": "0.1"}, r"`alpha` must be a number in \[0, 1\]. Received: alpha='0.1'"),
        ({"alpha": float("nan")}, r"`alpha` must be a number in \[0, 1\]. Received: alpha=nan"),
        ({"seed": -1}, "`seed` must be an integer >= 0. Received: seed=-1"),
        ({"seed": 0.5}, "`seed` must be an integer >= 0. Received: seed=0.5"),
        ({"seed": None}, "`seed` must be an integer >= 0. Received: seed=None"),
        ({"sentences": "the house"}, "`sentences` must be a list of strings"),
    ],
)
def test_wrong_arguments(tokenizer, arguments, message):
    arguments = {"sentences": LINES, "alpha": 0.1, "seed": 0, **arguments}
    with pytest.raises(ValueError, match=message):
        tokenizer.sample(arguments.pop("sentences"), **arguments)


def test_what_is_no_text_raises_in_the_caller(tokenizer):
    with pytest.raises(TypeError):
        tokenizer.sample([3], alpha=0.1, seed=0)
