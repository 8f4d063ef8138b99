"""More trees out of a treebank: phrases change places with others of their kind."""

import hashlib
from typing import NamedTuple

import numpy as np

from keras_transformer.data import ParallelText

MOST_SWAPS = 4
MOST_WORDS = 60  # a sentence may grow with each swap
MOST_TOKENS = 1000  # of a tree: all phrases of a deeper one take the square of its depth


class Phrase(NamedTuple):
    """A phrase in a linearised tree.

    Args:
        kind: its label and that of the phrase around it.
        tokens: slice of the tree's tokens, with both brackets.
        words: slice of the sentence's words.
    """

    kind: tuple
    tokens: slice
    words: slice


class SwappedPhrases(ParallelText):
    """A treebank's trees, each several times, with other phrases in the place of some.

    One to four times a phrase gives way to one with the same label below the same label, from
    anywhere in the treebank: most of what comes is grammatical, if no sense. The treebank must fit
    into memory; trees of more than 1,000 tokens are left out.

    Args:
        text: `ParallelText` of sentences and linearised trees.
        copies: how many new trees to make of each. Those of more than 60 words are left out.
        seed: non-negative integer; another one makes other trees.

    Reference:
        Shi et al., "Substructure Substitution: Structured Data Augmentation for NLP", 2021.
    """

    unit = "tree"

    def __init__(self, text, copies, seed):
        super().__init__(f"{text.name} with swapped phrases")
        self.text = text
        self.copies = copies
        self.seed = seed

    def __iter__(self):
        trees = [(tokens.split(" "), words.split(" ")) for words, tokens in self.text]
        trees = [(tokens, words) for tokens, words in trees if len(tokens) <= MOST_TOKENS]
        pool = {}
        for tokens, words in trees:
            for phrase in phrases(tokens):
                pool.setdefault(phrase.kind, []).append(
                    (tokens[phrase.tokens], words[phrase.words])
                )
        generator = np.random.default_rng(self.seed)
        for tokens, words in trees:
            for _ in range(self.copies):
                new_tokens, new_words = _swap(tokens, words, pool, generator)
                if len(new_words) <= MOST_WORDS:
                    yield " ".join(new_words), " ".join(new_tokens)

    def fingerprint(self):
        """SHA-256 of what the pairs depend on."""
        content = (
            self.text.fingerprint(),
            self.copies,
            self.seed,
            MOST_SWAPS,
            MOST_WORDS,
            MOST_TOKENS,
        )
        return hashlib.sha256(repr(content).encode()).hexdigest()


def phrases(tokens):
    """The phrases below the root of a linearised tree, in the order in which they close.

    Args:
        tokens: list of strings, as `linearize` gives them.

    Returns:
        A list of `Phrase`.

    Example:
        >>> for phrase in phrases("(S (NP XX XX )NP (VP XX )VP )S".split()):
        ...     print(phrase.kind, phrase.tokens, phrase.words)
        ('NP', 'S') slice(1, 5, None) slice(0, 2, None)
        ('VP', 'S') slice(5, 8, None) slice(2, 3, None)
    """
    found, open_phrases, num_words = [], [], 0
    for index, token in enumerate(tokens):
        if token.startswith("("):
            open_phrases.append((token[1:], index, num_words))
        elif token.startswith(")"):
            label, begin, first_word = open_phrases.pop()
            if open_phrases:
                kind = (label, open_phrases[-1][0])
                found.append(Phrase(kind, slice(begin, index + 1), slice(first_word, num_words)))
        else:
            num_words += 1
    return found


def _swap(tokens, words, pool, generator):
    """A tree's tokens and words after one to four swaps."""
    for _ in range(generator.integers(1, MOST_SWAPS + 1)):
        choices = phrases(tokens)
        if not choices:
            break
        old = choices[generator.integers(len(choices))]
        others = pool[old.kind]
        new_tokens, new_words = others[generator.integers(len(others))]
        tokens = [*tokens[: old.tokens.start], *new_tokens, *tokens[old.tokens.stop :]]
        words = [*words[: old.words.start], *new_words, *words[old.words.stop :]]
    return tokens, words
