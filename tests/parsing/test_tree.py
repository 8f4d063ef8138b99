"""Trees: text to tree and back, comparison, and any depth."""

import copy
import dataclasses
import itertools
import pickle

import pytest

from keras_transformer.parsing import Leaf, Tree, clean, linearize, rebuild, repair, source_text
from keras_transformer.parsing.tree import TreeReader

DOG = Tree(
    "S",
    (
        Tree("NP", (Leaf("DT", "the"), Leaf("NN", "dog"))),
        Tree("VP", (Leaf("VBZ", "barks"),)),
        Leaf(".", "."),
    ),
)
DOG_LINE = "(S (NP (DT the) (NN dog)) (VP (VBZ barks)) (. .))"


def test_a_tree_is_written_on_one_line_and_indented():
    assert str(DOG) == DOG_LINE
    assert DOG.pretty() == "(S\n  (NP (DT the) (NN dog))\n  (VP (VBZ barks))\n  (. .))"


def test_indentation_follows_the_depth():
    text = "(S\n  (VP\n    (VB go)\n    (PP\n      (IN to)\n      (NP (NNP Rome)))))"
    assert Tree.fromstring("(S (VP (VB go) (PP (IN to) (NP (NNP Rome)))))").pretty() == text


def test_leaves_words_and_tags_from_left_to_right():
    assert DOG.leaves()[1] == Leaf("NN", "dog")
    assert DOG.words() == ["the", "dog", "barks", "."]
    assert DOG.tags() == ["DT", "NN", "VBZ", "."]


def test_what_is_written_reads_as_the_tree():
    assert Tree.fromstring(DOG_LINE) == Tree.fromstring(DOG.pretty()) == DOG
    assert eval(repr(DOG), {"Tree": Tree}) == DOG


def test_children_may_be_any_iterable():
    assert Tree("NP", iter([Leaf("NN", "tea")])) == Tree("NP", (Leaf("NN", "tea"),))


@pytest.mark.parametrize(
    "other",
    [
        "(S (NP (DT the) (NN cat)) (VP (VBZ barks)) (. .))",
        "(S (NP (DT the) (NN dog)) (NP (VBZ barks)) (. .))",
        "(S (NP (DT the) (NN dog)) (VP (VBZ barks) (. .)))",
        "(S (NP (DT the) (NN dog)) (VP (VBZ barks)))",
        "(S (NP (DT the) (NN dog)) (VP (VBZ barks)) (. .) (. .))",
        "(S (NP (DT the)) (NP (NN dog)) (VP (VBZ barks)) (. .))",
    ],
)
def test_trees_that_differ_are_not_equal(other):
    assert Tree.fromstring(other) != DOG


def test_equal_trees_are_one_key():
    assert len({DOG, Tree.fromstring(DOG_LINE), Leaf("NN", "dog"), Leaf("NN", "dog")}) == 2
    assert DOG != DOG_LINE


def test_trees_and_leaves_do_not_change():
    with pytest.raises(dataclasses.FrozenInstanceError):
        DOG.label = "NP"
    with pytest.raises(dataclasses.FrozenInstanceError):
        DOG.leaves()[0].word = "a"


def test_a_tree_100_000_deep_is_indented_to_a_depth():
    """By its whole depth it would have 10^10 spaces."""
    tree = Tree.fromstring("(A " * 100_000 + "(X y)" + ")" * 100_000)
    lines = tree.pretty().splitlines()
    assert lines[99:101] == ["  " * 99 + "(A", "  " * 100 + "(A"]
    assert lines[-1] == "  " * 100 + "(A (X y)" + ")" * 100_000


def test_100_000_brackets_go_through_every_method():
    line = "(A " * 100_000 + "(X y)" + ")" * 100_000
    tree, again = Tree.fromstring(line), Tree.fromstring(line)
    assert str(tree) == line
    assert tree.words() == ["y"]
    assert Tree.fromstring(line[3:-1]) != tree == again
    assert hash(tree) == hash(again)
    assert pickle.loads(pickle.dumps(tree)) == copy.deepcopy(again)
    assert clean(tree) == copy.copy(again)
    assert repr(tree) == f"Tree.fromstring({line!r})"
    tokens = linearize(tree)
    assert rebuild(tokens, ["y"], ["X"]) == tree
    assert repair(tokens, ["y"], ["X"]) == (tree, 0)


@pytest.mark.parametrize("unit", ["(", "(S (N a) "])
def test_a_tree_without_an_end_is_refused_before_it_fills_the_memory(unit):
    reader = TreeReader()
    lines = itertools.chain(["(S (N a))"], itertools.repeat(unit * 1000))
    with pytest.raises(ValueError, match="starts here must have at most 1,000,000 characters"):
        for _ in reader.read(lines):
            pass
    assert reader.line == 2


@pytest.mark.parametrize("text", ["(S {0})", "{0}", "(S {0} {0})", "((N a) {0})", "(N {0})"])
def test_a_long_word_is_cut_in_messages(text):
    with pytest.raises(ValueError, match=r"x{40,60}\.\.\.") as raised:
        Tree.fromstring(text.format("x" * 100_000))
    assert len(str(raised.value)) < 200


def test_a_bracket_in_a_word_does_not_break_the_tree():
    tree = Tree("NP", [Leaf("-LRB-", "("), Leaf("NN", ":-)"), Leaf("SYM", "[")])
    assert str(tree) == "(NP (-LRB- -LRB-) (NN :--RRB-) (SYM [))"
    assert tree.words() == ["(", ":-)", "["]
    assert Tree.fromstring(str(tree)).words() == ["-LRB-", ":--RRB-", "["]


def test_a_no_break_space_is_part_of_a_word():
    assert Tree.fromstring("(NP (CD 1\u00a0000)\t(NNS\r\nmen))").words() == ["1\u00a0000", "men"]


def test_the_outer_bracket_without_a_label():
    tree = Tree.fromstring("( (S (NP (PRP it))) )")
    assert tree == Tree("", [Tree("S", [Tree("NP", [Leaf("PRP", "it")])])])
    assert Tree.fromstring(str(tree)) == tree


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("(S (NP (DT the)", "not closed: 2 closing brackets missing"),
        ("(S (NP (DT the))", "not closed: 1 closing bracket missing"),
        ("(S (NP (DT the))))", "a closing bracket too many"),
        ("(NP the dog)", "the word 'dog' has no bracket and tag"),
        ("(NP (DT the) dog)", "the word 'dog' has no bracket and tag"),
        ("(NP dog (DT the))", "the word 'dog' has no bracket and tag"),
        ("( (NN dog) cat)", "the word 'cat' has no bracket and tag"),
        ("(NN dog)", "the word 'dog' is not in a phrase"),
        ("dog", "'dog' is in no tree"),
        ("", "must contain one tree. Received: 0 trees"),
        ("(NP (NN tea)) (NP (NN cup))", "must contain one tree. Received: 2 trees"),
    ],
)
def test_text_that_is_no_tree(text, message):
    with pytest.raises(ValueError, match=message.replace("(", r"\(")):
        Tree.fromstring(text)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Leaf("", "dog"), "`tag` must be"),
        (lambda: Leaf("N N", "dog"), "`tag` must be"),
        (lambda: Leaf("NN", ""), "`word` must be"),
        (lambda: Leaf("NN", "hot dog"), "`word` must be .* Received: word='hot dog'"),
        (lambda: Leaf("NN", None), "`word` must be"),
        (lambda: Tree("N(P", ()), r"`label` must be .* Received: label='N\(P'"),
        (lambda: Tree(None, ()), "`label` must be"),
        (lambda: Tree("NP", ["dog"]), "`children` must be .* Received: children='dog'"),
    ],
)
def test_what_cannot_be_written_is_no_tree(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_what_a_model_reads_has_the_treebank_s_names_of_brackets():
    words = ["(", ")", "[", "]", "{", "}", "f(x)", "dog"]
    assert source_text(words) == "-LRB- -RRB- -LSB- -RSB- -LCB- -RCB- f-LRB-x-RRB- dog"


def test_the_treebank_s_backslashes_are_left_out():
    assert source_text(["1\\/2", "S&P\\*", "a\\b"]) == source_text(["1/2", "S&P*", "a\\b"])


def test_each_word_stays_one_word():
    words = ["a\N{LOWER ONE EIGHTH BLOCK}b", "\N{LOWER ONE EIGHTH BLOCK}", "1\u00a0000"]
    assert source_text(words) == "a_b _ 1\u00a0000"
    assert source_text([]) == ""
