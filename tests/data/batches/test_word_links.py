"""Word alignments of pairs, projected to the tokens of batches."""

import numpy as np
import pytest

from keras_transformer.data import (
    PackedLinks,
    SentencePairs,
    WordLinks,
    fit_batches,
    plan_batches,
    prepare_corpus,
    read_links,
)
from keras_transformer.errors import UserInputError
from keras_transformer.text import SentencePieceTokenizer
from keras_transformer.text.words import TokenWords

SOURCES = ["the old house", "a tree, green", "the house"]
TARGETS = ["das alte Haus", "ein Baum, grün", "das Haus"]
LINES = [[(0, 0), (1, 1), (2, 2)], [(0, 0), (1, 1), (3, 3)], [(1, 1), (0, 1)]]


@pytest.fixture(scope="module")
def tokenizer():
    return SentencePieceTokenizer.train(SOURCES + TARGETS, vocabulary_size=45, byte_fallback=False)


@pytest.fixture
def corpus(tokenizer, tmp_path):
    return prepare_corpus(SentencePairs(SOURCES, TARGETS), tokenizer, tmp_path)


def words_of_tokens(tokenizer, ids):
    """The number of each token's word: letters form words, and a comma is one."""
    numbers, last = [], -1
    for index, piece in enumerate(tokenizer.pieces(ids)):
        last += index == 0 or piece.startswith("▁") or piece == ","
        numbers.append(last)
    return numbers


def read(corpus, tokenizer, lines=LINES, **options):
    links = WordLinks([PackedLinks.of(lines)], tokenizer, tokenizer, by_spaces=False)
    reader = plan_batches(
        corpus, tokenizer.special_tokens, batch_tokens=200, shuffle=False, links=links, **options
    )
    return reader, reader.batch(0, row_multiple=4)


def test_each_token_is_linked_to_the_tokens_of_its_words_or_to_eos(corpus, tokenizer):
    reader, (inputs, labels, _) = read(corpus, tokenizer)
    links = inputs["links"]
    assert links.shape == (4, labels.shape[1], inputs["source_ids"].shape[1])
    assert links.dtype == "float32"
    expected = np.zeros_like(links)
    share = 1 / np.count_nonzero(labels)
    for row, pair in enumerate(reader.plan.batch(0)):
        sources, targets = (
            words_of_tokens(tokenizer, side(pair).tolist())
            for side in (corpus.source, corpus.target)
        )
        for j, target in enumerate(targets):
            linked = [i for i, word in enumerate(sources) if (word, target) in LINES[pair]]
            for i in linked or [len(sources)]:  # or EOS
                expected[row, j + 1, i] = share / max(1, len(linked))  # after BOS
    assert expected.any(axis=(1, 2)).tolist() == [True, True, True, False]
    np.testing.assert_allclose(links, expected, rtol=1e-6)


def test_words_of_files_are_separated_by_spaces(corpus, tokenizer):
    words = TokenWords(tokenizer, by_spaces=True)
    ids = np.array(tokenizer.encode(["a tree, green"])[0])
    assert words.words(ids) == ["a", "tree,", "green"]
    assert TokenWords(tokenizer, by_spaces=False).words(ids) == ["a", "tree", ",", "green"]
    assert words.numbers(np.array([], "int64")).tolist() == []


def test_a_space_of_its_own_belongs_to_the_next_word():
    tokenizer = SentencePieceTokenizer.train(["ab cd", "b d", "a c"], vocabulary_size=10)
    ids = np.array(tokenizer.encode(["ab cd"])[0])
    assert "▁" in tokenizer.pieces(ids.tolist())
    for by_spaces in (True, False):
        assert TokenWords(tokenizer, by_spaces=by_spaces).words(ids) == ["ab", "cd"]


def test_links_to_words_that_are_missing_are_ignored(corpus, tokenizer):
    _, (inputs, *_) = read(corpus, tokenizer, [[(7, 0), (0, 9)], [], [(0, 0)]])
    assert inputs["links"].any(axis=(1, 2)).sum() == 1


def test_texts_without_links_have_weight_0(corpus, tokenizer):
    links = WordLinks([None, PackedLinks.of(LINES)], tokenizer, tokenizer, by_spaces=False)
    reader = plan_batches(
        [corpus, corpus], tokenizer.special_tokens, batch_tokens=400, shuffle=False, links=links
    )
    has_links = reader.batch(0)[0]["links"].any(axis=(1, 2))
    assert has_links.tolist() == [pair >= 3 for pair in reader.plan.batch(0)]


def test_the_fingerprint_depends_on_the_links(corpus, tokenizer):
    readers = [read(corpus, tokenizer, lines)[0] for lines in (LINES, LINES, [[], [], [(0, 0)]])]
    one, same, other = (reader.fingerprint for reader in readers)
    plain = plan_batches(corpus, tokenizer.special_tokens, batch_tokens=200, shuffle=False)
    assert one == same
    assert len({one, other, plain.fingerprint}) == 3


def test_batches_of_fit_have_the_links(corpus, tokenizer):
    reader, _ = read(corpus, tokenizer)
    inputs, *_ = next(iter(fit_batches(reader, row_multiple=2)))
    np.testing.assert_array_equal(inputs["links"], reader.batch(0, 2)[0]["links"])


def test_packed_rows_cannot_have_links(corpus, tokenizer):
    with pytest.raises(ValueError, match="`links` must be None with"):
        read(corpus, tokenizer, packing=True)


def test_files_are_read_line_by_line(tmp_path):
    (tmp_path / "one").write_text("0-0 1-2\n\n", encoding="utf-8")
    (tmp_path / "two").write_text("3-1\n", encoding="utf-8")
    links = read_links([tmp_path / "one", tmp_path / "two"])
    assert [links.of_pair(i).tolist() for i in range(3)] == [[[0, 0], [1, 2]], [], [[3, 1]]]
    chosen = links.chosen(np.array([2, 0]))
    assert [chosen.of_pair(i).tolist() for i in range(2)] == [[[3, 1]], [[0, 0], [1, 2]]]
    (tmp_path / "two").write_text("3-1\n3:1\n", encoding="utf-8")
    with pytest.raises(UserInputError, match="two, line 2: An alignment must consist of pairs"):
        read_links([tmp_path / "two"])
