"""Trees as sequences of tokens, and back."""

import pytest

from keras_transformer.parsing import Leaf, Tree, bracket_tokens, linearize, rebuild
from tests.parsing.sample_trees import needs_sample, sample_trees

DOG = Tree.fromstring("(S (NP (DT the) (NN dog)) (VP (VBZ barks)))")
DOG_TOKENS = ["(S", "(NP", "XX", "XX", ")NP", "(VP", "XX", ")VP", ")S"]
TREES = [
    "(NP (NN tea))",
    "(S (S (S (NN tea))) (S (NN cup)))",
    "(ADVP|PRT (-LRB- -LRB-) (X (XX XX)) (: --))",
    "(S (NP (NP (DT a) (NN b)) (PP (IN of) (NP (NN c)))) (, ,) (VP (VB d)) (. .))",
]


def test_a_tree_as_tokens():
    assert linearize(DOG) == DOG_TOKENS


def test_words_and_tags_are_put_back():
    assert rebuild(DOG_TOKENS, DOG.words(), DOG.tags()) == DOG
    assert str(rebuild(DOG_TOKENS, "a b c".split())) == "(S (NP (XX a) (XX b)) (VP (XX c)))"


@pytest.mark.parametrize("text", TREES)
def test_rebuild_undoes_linearize(text):
    tree = Tree.fromstring(text)
    assert rebuild(linearize(tree), tree.words(), tree.tags()) == tree


@needs_sample
def test_all_trees_of_the_sample():
    trees = sample_trees()
    assert len(trees) == 3669
    assert [rebuild(linearize(tree), tree.words(), tree.tags()) for tree in trees] == trees


def test_the_tokens_of_a_corpus():
    trees = map(Tree.fromstring, TREES[:2])
    assert bracket_tokens(trees) == ["(NP", "(S", ")NP", ")S", "XX"]
    assert bracket_tokens([]) == ["XX"]


@pytest.mark.parametrize("tree", [Tree("S", [Tree("NP", [])]), Tree("", [Tree("S", [])])])
def test_a_tree_that_is_not_clean_has_no_sequence(tree):
    with pytest.raises(ValueError, match="clean the tree first"):
        linearize(tree)


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        ("(S XX XX", "one complete tree: .S missing at the end"),
        ("(S (NP XX XX )NP", "one complete tree: .S missing"),
        ("(S XX XX )NP", "token 4, '.NP', closes .S"),
        ("(S XX XX (NP )NP )S", "token 5, '.NP', closes a phrase without a word"),
        ("(S XX )S (S XX )S", "token 4, '.S', is after the end of the tree"),
        ("(S XX XX )S )S", "token 5, '.S', is after the end"),
        (")S XX XX", "token 1, '.S', is outside of all brackets"),
        ("XX XX", "token 1, 'XX', is outside of all brackets"),
        ("(S XX dog XX )S", "token 3, 'dog', is neither a bracket with a label nor XX"),
        ("(S XX ( XX )S", "token 3, '.', is neither a bracket"),
        ("(S XX )S", "an XX for each word: 1 for 2 words"),
        ("(S XX XX XX )S", "an XX for each word: 3 for 2 words"),
        ("", "an XX for each word: 0 for 2 words"),
    ],
)
def test_a_sequence_that_is_no_tree_says_why(tokens, message):
    with pytest.raises(ValueError, match=message):
        rebuild(tokens.split(), ["the", "dog"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((DOG_TOKENS, ["a", "b", "c"], ["X"]), "`tags` must .* Received: tags="),
        (([], []), "`words` must contain at least one word"),
        ((DOG_TOKENS, "the dog barks"), "`words` must be a list of strings"),
        ((DOG_TOKENS, ["a", "b", "c"], "XYZ"), "`tags` must be a list of strings"),
        (("(S XX )S", ["dog"]), "`tokens` must be a sequence of tokens"),
        ((DOG_TOKENS, ["a", "b", "c d"]), "`word` must be"),
    ],
)
def test_arguments_that_are_no_sentence(arguments, message):
    with pytest.raises(ValueError, match=message):
        rebuild(*arguments)


def test_words_may_be_an_iterator():
    assert rebuild(["(NP", "XX", ")NP"], iter(["tea"]), iter(["NN"])).leaves() == [
        Leaf("NN", "tea")
    ]
