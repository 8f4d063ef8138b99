"""Trees with swapped phrases are trees, made of the treebank's own phrases."""

from keras_transformer.parsing import Tree, rebuild
from recipes.wsj_parsing.phrase_swaps import SwappedPhrases, phrases
from recipes.wsj_parsing.treebank import TreePairs
from tests.recipes.toy_treebank import NOUNS, toy_trees


def treebank(tmp_path, trees):
    path = tmp_path / "train.mrg"
    path.write_text("\n".join(trees), encoding="utf-8")
    return TreePairs(path)


def trees_of(pairs):
    return [rebuild(tokens.split(), words.split()) for words, tokens in pairs]


def phrases_with_words(pairs):
    """The kind, tokens and words of every phrase below a root that holds no other phrase."""
    found = set()
    for words, tokens in pairs:
        words, tokens = words.split(), tokens.split()
        for kind, in_tokens, in_words in phrases(tokens):
            inner = tokens[in_tokens][1:-1]
            if set(inner) == {"XX"}:
                found.add((kind, len(inner), *words[in_words]))
    return found


def test_new_trees_are_made_of_the_phrases_of_the_old(tmp_path):
    text = treebank(tmp_path, toy_trees(50, NOUNS, seed=1))
    old, new = list(text), list(SwappedPhrases(text, copies=4, seed=3))
    assert len(new) == 4 * len(old)
    assert all(isinstance(tree, Tree) for tree in trees_of(new))
    assert phrases_with_words(new) <= phrases_with_words(old)
    assert len(set(new) - set(old)) > 150


def test_the_draw_depends_on_the_seed_alone(tmp_path):
    text = treebank(tmp_path, toy_trees(20, NOUNS, seed=1))
    swapped, same, other = (SwappedPhrases(text, 2, seed) for seed in (1, 1, 2))
    assert list(swapped) == list(swapped) == list(same) != list(other)
    assert swapped.fingerprint() == same.fingerprint()
    prints = {text.fingerprint() for text in (swapped, other, SwappedPhrases(text, 3, 1))}
    prints.add(SwappedPhrases(treebank(tmp_path, toy_trees(21, NOUNS, seed=1)), 2, 1).fingerprint())
    assert len(prints) == 4


def test_a_phrase_gives_way_to_one_of_its_kind_alone(tmp_path):
    text = treebank(
        tmp_path,
        ["(S (NP (N a)) (VP (V b) (NP (N c))))", "(S (NP (N d)) (VP (V e) (NP (N f) (N g))))"],
    )
    new = trees_of(SwappedPhrases(text, copies=50, seed=1))
    for tree in new:
        subject, verb_phrase = tree.children
        assert subject.words() in (["a"], ["d"])
        assert verb_phrase.words() in (["b", "c"], ["b", "f", "g"], ["e", "c"], ["e", "f", "g"])
    assert len(set(new)) == 8


def test_words_and_labels_may_hold_other_spaces_than_a_treebanks(tmp_path):
    text = treebank(tmp_path, ["(S (N\u00a0P (N 1\u00a0000) (N a)) (VP (V b)))"])
    (new,) = SwappedPhrases(text, copies=1, seed=1)
    assert new == ("1\u00a0000 a b", "(S (N\u00a0P XX XX )N\u00a0P (VP XX )VP )S")


def test_trees_without_phrases_stay_and_long_ones_are_left_out(tmp_path):
    long = f"(S (NP {'(N x) ' * 61}) (VP (V y)))"
    text = treebank(tmp_path, ["(S (N a))", "(S (NP (N b)) (VP (V c)))", long])
    words = [tree.words() for tree in trees_of(SwappedPhrases(text, copies=20, seed=1))]
    assert words.count(["a"]) == 20
    assert 20 < len(words) < 60
    assert max(map(len, words)) <= 60


def test_a_tree_of_any_depth_is_left_out(tmp_path):
    """All of its phrases would have 10^10 tokens."""
    deep = "(S " * 100_000 + "(N x)" + ")" * 100_000
    text = treebank(tmp_path, ["(S (NP (N b)) (VP (V c)))", deep])
    assert trees_of(SwappedPhrases(text, copies=1, seed=1)) == trees_of(text)[:1]
