"""Linearised trees as ids and back, also through a run directory's file."""

import numpy as np
import pytest

from keras_transformer.parsing import Leaf, Tree, bracket_tokens, linearize, rebuild
from keras_transformer.parsing.linearization import TreeTokenizer, tree_tokens
from keras_transformer.text import SentencePieceTokenizer

TREES = [
    Tree.fromstring("(S (NP (DT the) (NN dog)) (VP (VBZ barks)) (. .))"),
    Tree.fromstring("(X (XX (UH ah)) (S|NP (NN x)))"),
]


TEXTS = [" ".join(linearize(tree)) for tree in TREES]


@pytest.fixture(scope="module")
def tokenizer():
    return TreeTokenizer.of(bracket_tokens(TREES))


def test_every_token_is_one_id(tokenizer):
    ids = tokenizer.encode(TEXTS)
    assert [len(row) for row in ids] == [len(linearize(tree)) for tree in TREES]
    assert tokenizer.decode([[1, *row, 2, 0] for row in ids]) == TEXTS
    assert not {token for row in ids for token in row} & {0, 1, 2, 3}


def test_an_unknown_token_is_the_unknown_one(tokenizer):
    assert tokenizer.encode(["(QP XX )QP", ""]) == [[3, *tokenizer.encode(["XX"])[0], 3], []]


@pytest.mark.parametrize("label", ["NP\u00a0X", "\u2028", "NP\u2581", "NP,X", 'N"P', "\x85\x1c"])
def test_a_label_may_hold_what_else_would_part_tokens(label):
    tree = Tree("S", [Tree(label, [Leaf("DT", "the"), Leaf("NN", "dog")]), Leaf(".", ".")])
    tokenizer = TreeTokenizer.of(bracket_tokens([tree]))
    text = " ".join(linearize(tree))
    (ids,) = tokenizer.encode([f" {text}  "])
    assert len(ids) == len(linearize(tree))
    (decoded,) = tokenizer.decode([ids])
    assert decoded == text
    assert rebuild(tree_tokens(decoded), tree.words(), tree.tags()) == tree


def test_its_file_is_a_sentencepiece_model(tokenizer, tmp_path):
    tokenizer.save(tmp_path / "tokenizer.model")
    loaded = SentencePieceTokenizer.load(tmp_path / "tokenizer.model")
    assert TreeTokenizer(loaded.model_bytes).tokens == tokenizer.tokens
    assert loaded.fingerprint == tokenizer.fingerprint
    assert loaded.vocabulary_size == tokenizer.vocabulary_size


def test_a_token_of_a_tree_belongs_to_the_next_word(tokenizer):
    starts = tokenizer.word_starts
    assert sorted(tokenizer.tokens[start] for start in starts) == ["<s>", "XX"]
    (ids,) = tokenizer.encode(["(S (NP XX XX )NP (VP XX )VP XX )S"])
    numbers = np.cumsum(np.isin([1, *ids], starts))
    assert numbers.tolist() == [1, 1, 1, 2, 3, 3, 3, 4, 4, 5, 5]
    assert TreeTokenizer.of(["(A", ")A"]).word_starts == (1,)


def test_subword_sampling_leaves_trees_as_they_are(tokenizer):
    assert tokenizer.sample(TEXTS, alpha=1.0, seed=3) == tokenizer.encode(TEXTS)
