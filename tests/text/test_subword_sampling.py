"""Sampled segmentations: their probabilities, their text, and what they depend on."""

import ast
import concurrent.futures
import functools
import io
import itertools
import threading

import numpy as np
import pytest
import sentencepiece

from keras_transformer.errors import UserInputError
from keras_transformer.text import SentencePieceTokenizer
from tests.python_programs import run_python

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
    ids = tokenizer.sample(NASTY, alpha=0.3, seed=2)
    assert tokenizer.decode(ids) == tokenizer.decode(tokenizer.encode(NASTY))


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
    draws = [tokenizer.sample(LINES, alpha=0.3, seed=seed) for seed in (0, 2**32, 2**63, 2**100)]
    assert all(first != second for first, second in itertools.combinations(draws, 2))


def test_every_process_trains_and_draws_the_same():
    program = (
        "from tests.text.test_subword_sampling import LINES, train\n"
        "for tokenizer in map(train, ('bpe', 'unigram')):\n"
        "    print((tokenizer.fingerprint, tokenizer.sample(LINES, alpha=0.3, seed=11)))\n"
    )
    other = run_python("-c", program).stdout
    here = [
        (tokenizer.fingerprint, tokenizer.sample(LINES, alpha=0.3, seed=11))
        for tokenizer in map(train, ("bpe", "unigram"))
    ]
    assert [ast.literal_eval(line) for line in other.splitlines()] == here


def test_pieces_are_as_frequent_as_the_librarys(tokenizer):
    lines = LINES * 500
    processor = sentencepiece.SentencePieceProcessor(model_proto=tokenizer.model_bytes)
    theirs = processor.encode(
        lines, out_type=int, enable_sampling=True, nbest_size=-1, alpha=0.3, num_threads=1
    )
    counts = [
        np.bincount(np.concatenate(rows).astype("int64"), minlength=tokenizer.vocabulary_size)
        for rows in (tokenizer.sample(lines, alpha=0.3, seed=1), theirs)
    ]
    assert np.count_nonzero(counts[0]) > 30
    # A piece occurs at most a few times a line: 5 standard deviations of the difference.
    assert np.all(np.abs(counts[0] - counts[1]) <= 5 * np.sqrt(2 * np.maximum(*counts)) + 5)


def test_neighboring_unknown_characters_are_one_token():
    for model_type, size in (("bpe", 40), ("unigram", 30)):
        tokenizer = SentencePieceTokenizer.train(LINES, vocabulary_size=size, model_type=model_type)
        text = ["the東京 house京 東 🙂🙂"]
        unknown = tokenizer.special_tokens.unk
        for alpha in (0, 0.5, 1):
            (row,) = tokenizer.sample(text, alpha=alpha, seed=1)
            assert row.count(unknown) == tokenizer.encode(text)[0].count(unknown) == 4


def library_model(**settings):
    """A BPE model that this package does not train itself."""
    model = io.BytesIO()
    ids = {"pad_id": 0, "bos_id": 1, "eos_id": 2, "unk_id": 3}
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(LINES),
        model_writer=model,
        **{"model_type": "bpe", "vocab_size": 100, "minloglevel": 2, **ids, **settings},
    )
    return SentencePieceTokenizer(model.getvalue())


@pytest.mark.parametrize("setting", ["treat_whitespace_as_suffix", "split_by_whitespace"])
def test_words_are_told_by_any_vocabulary(setting):
    tokenizer = library_model(**{setting: setting == "treat_whitespace_as_suffix"})
    assert tokenizer.sample(NASTY, alpha=0, seed=1) == tokenizer.encode(NASTY)
    ids = tokenizer.sample(LINES, alpha=0.3, seed=1)
    assert ids != tokenizer.encode(LINES)
    assert tokenizer.decode(ids) == tokenizer.decode(tokenizer.encode(LINES))


def test_unused_pieces_are_cut_again():
    schema = pytest.importorskip("sentencepiece.sentencepiece_model_pb2")
    model = schema.ModelProto.FromString(train("bpe").model_bytes)
    used = {piece for row in train("bpe").encode(LINES) for piece in train("bpe").pieces(row)}
    longest = max(used, key=len)
    unused = next(piece for piece in model.pieces if piece.piece == longest)
    unused.type = schema.ModelProto.SentencePiece.UNUSED
    tokenizer = SentencePieceTokenizer(model.SerializeToString())
    assert tokenizer.encode(LINES) != train("bpe").encode(LINES)
    assert tokenizer.sample(LINES, alpha=0, seed=1) == tokenizer.encode(LINES)
    ids = tokenizer.sample(LINES, alpha=0.2, seed=1)
    assert tokenizer.decode(ids) == LINES
    assert longest not in {piece for row in ids for piece in tokenizer.pieces(row)}


@pytest.mark.parametrize("model_type", ["word", "char"])
def test_words_and_characters_are_not_sampled(model_type):
    tokenizer = library_model(model_type=model_type, vocab_size=24)
    with pytest.raises(UserInputError, match=f"of type bpe or unigram. Received: .* {model_type}"):
        tokenizer.sample(LINES, alpha=0.1, seed=1)


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
        ({"sentences": [3]}, r"Received: sentences\[0\]=3"),
    ],
)
def test_wrong_arguments(tokenizer, arguments, message):
    arguments = {"sentences": LINES, "alpha": 0.1, "seed": 0, **arguments}
    with pytest.raises(ValueError, match=message):
        tokenizer.sample(arguments.pop("sentences"), **arguments)


@pytest.mark.parametrize("model_type", ["bpe", "unigram"])
def test_long_chunks_are_drawn_as_short_ones(model_type, monkeypatch):
    """As text without spaces has them: they are not kept."""
    texts = [line.replace(" ", "") for line in LINES] + LINES
    drawn = []
    for longest in (0, 10, 10_000):
        monkeypatch.setattr("keras_transformer.text.subword_sampler._LONGEST_CACHED", longest)
        tokenizer = SentencePieceTokenizer(train(model_type).model_bytes)
        drawn.append([tokenizer.sample(texts, alpha=0.3, seed=seed) for seed in range(20)])
    assert drawn[0] == drawn[1] == drawn[2]
    assert len({tuple(rows[0]) for rows in drawn[0]}) > 10
