"""Batches of sampled pieces: reproducible, inside the budget, the same text."""

import concurrent.futures
import itertools

import numpy as np
import pytest

from keras_transformer.data import SentencePairs, SubwordSampling, plan_batches, prepare_corpus
from keras_transformer.data.fit_input import as_dataset
from keras_transformer.text import SentencePieceTokenizer
from keras_transformer.types import SpecialTokens
from tests.data.corpora import CuttingTokenizer, corpus_of, random_corpus, with_text

PIECE = CuttingTokenizer.PIECE


def sampling(alpha=0.3, seed=5):
    return SubwordSampling(CuttingTokenizer(), CuttingTokenizer(), alpha, seed)


def reader_of(corpora, sampling, **settings):
    settings = {"batch_tokens": 256, "seed": 1, **settings}
    return plan_batches(corpora, SpecialTokens(), **settings, subword_sampling=sampling)


def tokens(rows):
    """Rows without padding, begin and end of sentence."""
    return [[token for token in row if token > 2] for row in rows.tolist()]


def uncut(rows):
    return [[token for token in row if token != PIECE] for row in tokens(rows)]


def corpora():
    return [with_text(random_corpus(150, 1)), with_text(random_corpus(60, 2))]


@pytest.mark.parametrize("shapes", [None, 4])
def test_batches_hold_the_sentences_of_the_plan_in_other_pieces(shapes):
    mixed = corpora()
    reader = reader_of(mixed, sampling(), weights=[0.5, 2], shapes=shapes)
    cut = kept = 0
    for step in range(2 * reader.plan.steps_per_epoch):
        inputs, labels, weights = reader.batch(step)
        chosen = [
            (mixed[0], i) if i < 150 else (mixed[1], i - 150) for i in reader.plan.batch(step)
        ]
        empty = [[]] * (len(labels) - len(chosen))
        sources, targets = inputs["source_ids"], inputs["target_ids"]
        assert uncut(sources) == [c.source(i).tolist() for c, i in chosen] + empty
        assert uncut(labels) == [c.target(i).tolist() for c, i in chosen] + empty
        assert tokens(targets) == tokens(labels)
        assert not shapes or (*sources.shape, labels.shape[1]) == reader.plan.padded_shape(step)
        np.testing.assert_array_equal(weights > 0, labels != 0)
        assert weights.sum() == pytest.approx(1, abs=1e-6)
        cut += np.count_nonzero(labels == PIECE)
        kept += np.count_nonzero((labels > 2) & (labels != PIECE))
    # Some sentences keep their ordinary pieces, so less than alpha.
    assert 0.15 < cut / kept < 0.32


@pytest.mark.parametrize("alpha", [0.3, 1.0])
@pytest.mark.parametrize("batch_tokens", [30, 64, 1000])
def test_no_batch_exceeds_the_budget(alpha, batch_tokens):
    reader = reader_of(corpora(), sampling(alpha), batch_tokens=batch_tokens)
    for step in range(reader.plan.steps_per_epoch):
        inputs, labels, _ = reader.batch(step)
        assert inputs["source_ids"].size <= batch_tokens
        assert labels.size <= batch_tokens


def test_a_sentence_without_room_keeps_its_ordinary_pieces():
    # Cut in two, nine tokens and the end of sentence take 19 places; a row has 12.
    corpus = with_text(corpus_of([[5] * 9, [6]], [[7] * 9, [8] * 5]))
    reader = reader_of(corpus, sampling(alpha=1.0), batch_tokens=12, shuffle=False)
    rows = [row for step in range(2) for row in tokens(reader.batch(step)[1])]
    assert sorted(rows) == [[7] * 9, [8, PIECE] * 5]


def test_alpha_zero_gives_the_ordinary_batches():
    ordinary, sampled = reader_of(corpora(), None), reader_of(corpora(), sampling(alpha=0.0))
    # The same draws, of the same pairs; a plan for samples may leave more room.
    for reader in (ordinary, sampled):
        sentences = [row for step in range(reader.plan.steps_per_epoch)
                     for row in tokens(reader.batch(step)[1])]  # fmt: skip
        targets = [c.target(i).tolist() for c in corpora() for i in range(len(c))]
        assert sorted(sentences) == sorted(targets)


def test_any_step_is_reproducible_on_its_own_and_from_threads():
    reader = reader_of(corpora(), sampling())
    steps = range(2 * reader.plan.steps_per_epoch)
    expected = [reader.batch(step)[1].tolist() for step in steps]
    assert reader_of(corpora(), sampling()).batch(steps[-1])[1].tolist() == expected[-1]
    with concurrent.futures.ThreadPoolExecutor(4) as threads:
        labels = list(threads.map(lambda step: reader.batch(step)[1].tolist(), steps))
    assert labels == expected
    batches = itertools.islice(as_dataset(reader).as_numpy_iterator(), len(steps))
    assert [labels.tolist() for _, labels, _ in batches] == expected


def test_seed_epoch_and_side_draw_other_pieces():
    corpus = with_text(corpus_of([list(range(4, 84))], [list(range(4, 84))]))
    reader = reader_of(corpus, sampling(seed=5))
    inputs, first, _ = reader.batch(0)
    draws = [
        tokens(inputs["source_ids"]),
        tokens(first),
        tokens(reader.batch(1)[1]),
        tokens(reader_of(corpus, sampling(seed=6)).batch(0)[1]),
    ]
    assert all(a != b for a, b in itertools.combinations(draws, 2))


def test_batches_are_planned_for_longer_sentences():
    ordinary = reader_of(corpora(), None)
    sampled = reader_of(corpora(), sampling(alpha=1.0))
    # Twice as long, and some room; the longest have less than that inside the budget.
    assert 1.9 < sampled.plan.steps_per_epoch / ordinary.plan.steps_per_epoch < 2.6
    # Figures stay those of the ordinary pieces.
    total = sum(map(sampled.plan.target_tokens, range(sampled.plan.steps_per_epoch)))
    assert total == sum((c.target_lengths + 1).sum() for c in corpora())


@pytest.fixture(scope="module")
def vocabulary():
    """Lines and a tokenizer trained on them."""
    sizes, things = ("a small", "the green", "the biggest"), ("houses", "tree", "river", "moon")
    lines = [f"{size} {thing}" for size in sizes for thing in things]
    return lines, SentencePieceTokenizer.train(lines, vocabulary_size=60)


@pytest.mark.parametrize("alpha", [0.1, 0.5])
def test_a_sentencepiece_vocabulary_gives_back_the_text(vocabulary, tmp_path, alpha):
    lines, tokenizer = vocabulary
    text = SentencePairs(lines, lines[::-1])
    corpus = prepare_corpus(text, tokenizer, tmp_path, keep_text=True)
    reader = reader_of(corpus, SubwordSampling(tokenizer, tokenizer, alpha, 1), batch_tokens=64)
    longer = 0
    for step in range(reader.plan.steps_per_epoch):
        inputs, labels, _ = reader.batch(step)
        sources = [lines[pair] for pair in reader.plan.batch(step)]
        targets = [lines[::-1][pair] for pair in reader.plan.batch(step)]
        assert tokenizer.decode(inputs["source_ids"]) == sources
        assert tokenizer.decode(inputs["target_ids"]) == tokenizer.decode(labels) == targets
        longer += np.count_nonzero(labels) - reader.plan.target_tokens(step)
    assert longer > 0


def test_corpora_without_text_are_refused(vocabulary, tmp_path):
    lines, tokenizer = vocabulary
    corpus = prepare_corpus(SentencePairs(lines, lines), tokenizer, tmp_path)
    with pytest.raises(ValueError, match="keep_text=True"):
        reader_of(corpus, SubwordSampling(tokenizer, tokenizer, 0.1, 1))


def test_another_tokenizer_is_refused(vocabulary, tmp_path):
    lines, tokenizer = vocabulary
    corpus = prepare_corpus(SentencePairs(lines, lines), tokenizer, tmp_path, keep_text=True)
    other = SentencePieceTokenizer.train(lines, vocabulary_size=55)
    for tokenizers, name in (((other, tokenizer), "tokenizer"), ((tokenizer, other), "source_tok")):
        with pytest.raises(ValueError, match=f"`{name}.*` must be the one that the corpora were"):
            reader_of(corpus, SubwordSampling(*tokenizers, 0.1, 1))
