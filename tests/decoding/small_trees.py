"""Linearised trees of a vocabulary of two labels: all there are, and whether ids are one.

`trees` makes them from a grammar, and `tree_words` takes one apart with a regular expression;
neither counts as the constraint does.
"""

import functools
import re

from keras_transformer.types import SpecialTokens

TOKENS = SpecialTokens()
PIECES = ["<pad>", "<s>", "</s>", "<unk>", "(S", "(NP", "XX", ")NP", ")S", "the"]
S, NP, XX, END_NP, END_S = range(4, 9)
LABELS = ((S, END_S), (NP, END_NP))
EOS = TOKENS.eos


@functools.cache
def trees(num_leaves, limit):
    """All token sequences of one constituent over so many leaves, at most `limit` long."""
    if limit < num_leaves + 2:
        return ()
    return tuple(
        (opening, *inside, closing)
        for opening, closing in LABELS
        for inside in forests(num_leaves, limit - 2)
    )


@functools.cache
def forests(num_leaves, limit):
    """All sequences of one or more leaves and constituents over so many leaves."""
    found = [(XX,)] if num_leaves == 1 and limit else []
    found += trees(num_leaves, limit)
    for first in range(1, num_leaves):
        heads = [*([(XX,)] if first == 1 else []), *trees(first, limit - num_leaves + first)]
        for head in heads:
            found += [head + rest for rest in forests(num_leaves - first, limit - len(head))]
    return tuple(found)


def tree_words(ids):
    """The number of words of a tree with EOS behind it; an AssertionError for anything else."""
    ids = [int(token) for token in ids]
    end = ids.index(EOS)
    assert set(ids[end + 1 :]) <= {TOKENS.pad}
    text = " ".join(PIECES[token] for token in ids[:end])
    num_words = text.split().count("XX")
    text, previous = f" {text} ".replace("XX", "ok"), None
    while text != previous:  # a constituent whose parts are whole is a whole part
        previous = text
        text = re.sub(r" \((\S+)((?: ok)+) \)\1(?= )", " ok", text)
    assert text == " ok ", text
    assert end > 1, "a word alone is no tree"
    return num_words
