"""Augment a treebank by replacing phrases with other phrases of the same kind."""

import hashlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from keras_transformer.data import ParallelText

MOST_SWAPS = 4
MOST_WORDS = 60  # each swap may lengthen a sentence
MOST_TOKENS = 1000  # per tree; the total length of all phrases grows with the square of the depth

Kind: TypeAlias = tuple[str, str]  # the labels of a phrase and its parent


class Phrase(NamedTuple):
    """A phrase in a linearized tree.

    Args:
        kind: labels of the phrase and its parent.
        tokens: slice of the tree's tokens, including both brackets.
        words: slice of the sentence's words.
    """

    kind: Kind
    tokens: slice
    words: slice


# Tokens and words of phrases, by kind.
Pool: TypeAlias = dict[Kind, list[tuple[list[str], list[str]]]]


class SwappedPhrases(ParallelText):
    """Several copies of each tree of a treebank, with some phrases replaced.

    In each copy, one to four phrases are replaced by phrases with the same label and parent label
    from anywhere in the treebank. Most results are grammatical, if nonsensical. The treebank must
    fit into memory. Trees with more than 1,000 tokens are omitted.

    Args:
        text: sentences and linearized trees.
        copies: number of new trees per tree. New trees with more than 60 words are omitted.
        seed: non-negative integer.

    Reference:
        Shi et al., "Substructure Substitution: Structured Data Augmentation for NLP", 2021.
    """

    unit = "tree"

    def __init__(self, text: ParallelText, copies: int, seed: int) -> None:
        super().__init__(f"{text.name} with swapped phrases")
        self.text = text
        self.copies = copies
        self.seed = seed

    def __iter__(self) -> Iterator[tuple[str, str]]:
        trees = [(tokens.split(" "), words.split(" ")) for words, tokens in self.text]
        trees = [(tokens, words) for tokens, words in trees if len(tokens) <= MOST_TOKENS]
        pool: Pool = {}
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

    def fingerprint(self) -> str:
        """Return the SHA-256 hash of everything that determines the pairs."""
        content = (
            self.text.fingerprint(),
            self.copies,
            self.seed,
            MOST_SWAPS,
            MOST_WORDS,
            MOST_TOKENS,
        )
        return hashlib.sha256(repr(content).encode()).hexdigest()


def phrases(tokens: Sequence[str]) -> list[Phrase]:
    """Return the phrases below the root of a linearized tree, in order of their closing brackets.

    `tokens` must have the form returned by `linearize`.

    Example:
        >>> for phrase in phrases("(S (NP XX XX )NP (VP XX )VP )S".split()):
        ...     print(phrase.kind, phrase.tokens, phrase.words)
        ('NP', 'S') slice(1, 5, None) slice(0, 2, None)
        ('VP', 'S') slice(5, 8, None) slice(2, 3, None)
    """
    found: list[Phrase] = []
    open_phrases: list[tuple[str, int, int]] = []
    num_words = 0
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


def _swap(
    tokens: list[str], words: list[str], pool: Pool, generator: np.random.Generator
) -> tuple[list[str], list[str]]:
    """Return a tree's tokens and words after one to four swaps."""
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
