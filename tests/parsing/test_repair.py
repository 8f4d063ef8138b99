"""Repair: any sequence becomes a tree over the words, and a nearly right one stays nearly right."""

import collections
import itertools
import random
import re

import pytest

from keras_transformer.parsing import linearize, rebuild, repair
from tests.parsing.sample_trees import needs_sample, sample_trees


def words_of(count):
    return [f"w{number}" for number in range(count)]


def is_well_formed(tokens, count):
    """Whether a sequence of A, B and XX is one tree over `count` words, by a regular expression.

    The innermost phrases are replaced by `T` until nothing changes.
    """
    text = " ".join(tokens)
    replaced = 1
    while replaced:
        text, replaced = re.subn(r"\(([AB])(?: XX| T)+ \)\1", "T", text)
    return text == "T" and tokens.count("XX") == count


def compact(tree):
    """A tree without the tags of its words."""
    return re.sub(r"\(XX (\w+)\)", r"\1", str(tree))


@pytest.mark.parametrize(
    ("tokens", "tree", "repairs"),
    [
        # brackets: one change each
        ("(S (NP XX )NP (VP XX XX )VP", "(S (NP 0) (VP 1 2))", 1),  # not closed at the end
        ("(S (NP XX )NP (VP XX XX )S", "(S (NP 0) (VP 1 2))", 1),  # not closed within
        ("(S (NP XX )NP (VP XX XX )NP )S", "(S (NP 0) (VP 1 2))", 1),  # closed as another
        ("(S (NP XX )VP (VP XX XX )VP )S", "(S (NP 0) (VP 1 2))", 1),
        ("(S (NP XX )NP XX XX )VP )S", "(S (NP 0) 1 2)", 1),  # closed, not opened
        ("(S (NP XX )NP )PP (VP XX XX )VP )S", "(S (NP 0) (VP 1 2))", 1),
        ("(S (NP XX )NP )S (VP XX XX )VP )S", "(S (NP 0) (VP 1 2))", 1),  # ended too early
        ("(S (NP XX )NP (VP XX XX )VP )S )S", "(S (NP 0) (VP 1 2))", 1),  # ended twice
        ("(NP XX )NP (VP XX XX )VP )S", "(S (NP 0) (VP 1 2))", 1),  # not begun
        ("(S (NP XX )NP (PP (VP XX XX )VP )S", "(S (NP 0) (PP (VP 1 2)))", 1),
        ("(S (NP XX )NP (VP XX XX (PP )VP )S", "(S (NP 0) (VP 1 2))", 1),  # opened, then nothing
        ("(S (NP (PP (VP XX XX XX )S", "(S (NP (PP (VP 0 1 2))))", 3),
        # phrases without words
        ("(S (NP XX )NP (PP )PP (VP XX XX )VP )S", "(S (NP 0) (VP 1 2))", 1),
        ("(S (NP (PP )PP )NP (VP XX XX XX )VP )S", "(S (VP 0 1 2))", 2),
        # tokens that are none
        ("(S <unk> (NP XX )NP ( (VP XX the XX )VP ) )S", "(S (NP 0) (VP 1 2))", 4),
        # too few words: broken off, or miscounted
        ("(S (NP XX )NP (VP", "(S (NP 0) (VP 1) 2)", 4),
        ("(S XX", "(S 0 1 2)", 3),
        ("(S (NP XX )NP (VP XX )VP )S", "(S (NP 0 1) (VP 2))", 1),
        ("(S (NP )NP )S", "(S 0 1 2)", 4),
        ("(S (NP", "(S 0 1 2)", 6),
        # too many words
        ("(S (NP XX )NP (VP XX XX XX )VP )S", "(S (NP 0) (VP 1 2))", 1),
        ("(S (NP XX )NP (VP XX XX )VP (NP XX )NP )S", "(S (NP 0) (VP 1) (NP 2))", 1),
        ("(S (NP XX )NP (VP XX )VP (NP XX )NP (X XX )X )S", "(S (NP 0) (VP 1) (NP 2))", 2),
        ("(S (NP XX XX )NP (VP XX XX XX XX XX", "(S (NP 0 1) (VP 2))", 6),
        ("(S (NP XX XX )NP (VP XX XX )VP )S", "(S (NP 0 1) (VP 2))", 1),
        ("(S (NP XX XX )NP (PP XX )PP (VP XX", "(S (NP 0 1) (PP 2))", 4),
        # one root
        ("XX (S (NP XX )NP )S XX", "(S 0 (NP 1) 2)", 1),
        ("(NP XX )NP (VP XX XX )VP", "(S (NP 0) (VP 1 2))", 1),
        ("XX XX XX", "(S 0 1 2)", 1),
        ("", "(S 0 1 2)", 4),
        (")S )NP", "(S 0 1 2)", 6),
    ],
)
def test_each_kind_of_damage(tokens, tree, repairs):
    repaired, count = repair(tokens.split(), ["0", "1", "2"])
    assert compact(repaired) == tree
    assert count == repairs


def test_exactly_the_well_formed_sequences_need_no_repair():
    well_formed = 0
    for length in range(6):
        for tokens in itertools.product(("(A", ")A", "(B", ")B", "XX"), repeat=length):
            for count in (1, 2):
                tree, repairs = repair(tokens, words_of(count))
                assert tree.words() == words_of(count)
                assert (repairs == 0) == is_well_formed(tokens, count), tokens
                if repairs == 0:
                    well_formed += 1
                    assert tree == rebuild(tokens, words_of(count))
    assert well_formed == 2 + 4 + 2  # (A XX )A, (A (B XX )B )A, (A XX XX )A, each with both labels


def test_10_000_random_sequences():
    generator = random.Random(1)
    tokens = [*"(S )S (NP )NP (VP )VP XX XX XX <unk> ( ) dog".split(), None, 3, "(N P", ""]
    for _ in range(10_000):
        words = words_of(generator.randint(1, 30))
        sequence = generator.choices(tokens, k=generator.randint(0, 60))
        tree, repairs = repair(sequence, words)
        assert tree.words() == words
        assert rebuild(linearize(tree), words) == tree
        assert repairs > 0 or linearize(tree) == sequence


def test_the_same_sequence_gives_the_same_tree():
    generator = random.Random(2)
    for _ in range(100):
        sequence = generator.choices("(S )S (NP )NP XX XX".split(), k=40)
        assert repair(sequence, words_of(9)) == repair(tuple(sequence), words_of(9))


def test_tags_are_put_back_and_the_root_is_named():
    tree, _ = repair([], ["hot", "tea"], ["JJ", "NN"], root="NP")
    assert str(tree) == "(NP (JJ hot) (NN tea))"


@pytest.mark.parametrize(
    "tokens",
    [
        ["(A"] * 10_000 + ["XX"] * 2 + [")A"] * 10_000,
        ["(A"] * 5_000 + [")B"] * 5_000,
        ["(A", "(B", ")A"] * 3_000,
        ["XX"] + [")A"] * 10_000,
        ["(A", "XX", ")B"] * 3_000,
    ],
)
def test_long_sequences_end_soon(tokens):
    tree, _ = repair(tokens, ["a", "b"])
    assert tree.words() == ["a", "b"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((["XX"], []), "`words` must contain at least one word"),
        ((["XX"], "tea"), "`words` must be a list of strings"),
        (("(S XX )S", ["tea"]), "`tokens` must be a sequence of tokens"),
        ((["XX"], ["tea"], []), "`tags` must be one for each word"),
        ((["XX"], ["tea"], None, ""), "`root` must be .* Received: root=''"),
    ],
)
def test_arguments_that_are_no_sentence(arguments, message):
    with pytest.raises(ValueError, match=message):
        repair(*arguments)


@needs_sample
def test_trees_of_the_sample_need_no_repair():
    for tree in sample_trees()[::3]:
        assert repair(linearize(tree), tree.words(), tree.tags()) == (tree, 0)


@needs_sample
@pytest.mark.parametrize("damage", ["a bracket lost", "a bracket added", "another label"])
def test_one_wrong_bracket_costs_few_phrases(damage):
    generator = random.Random(3)
    right = kept = found = 0
    for tree in sample_trees()[::10]:
        tokens = linearize(tree)
        place = generator.choice([p for p, token in enumerate(tokens) if token != "XX"])
        other = generator.choice("()") + generator.choice("NP VP PP S ADJP".split())
        if damage == "a bracket lost":
            del tokens[place]
        elif damage == "a bracket added":
            tokens.insert(place, other)
        else:
            tokens[place] = tokens[place][0] + other[1:]
        repaired, _ = repair(tokens, tree.words())
        gold, system = phrases(tree), phrases(repaired)
        right, found = right + sum(gold.values()), found + sum(system.values())
        kept += sum((gold & system).values())
    assert 2 * kept / (right + found) > 0.96


def phrases(tree):
    """All phrases of a tree as `(label, first word, last word)`, with their numbers."""
    found, open_phrases, words = collections.Counter(), [], 0
    for token in linearize(tree):
        if token[0] == "(":
            open_phrases.append((token[1:], words))
        elif token[0] == ")":
            found[(*open_phrases.pop(), words)] += 1
        else:
            words += 1
    return found
