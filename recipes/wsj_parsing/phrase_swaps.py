"""More trees from a treebank, by replacing phrases with other phrases of the same kind."""

import hashlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from keras_transformer.data import ParallelText

MOST_SWAPS = 4
MOST_WORDS = 60  # a sentence may grow with each swap
MOST_TOKENS = 1000  # per tree: the tokens of all phrases grow with the square of its depth

Kind: TypeAlias = tuple[str, str]  # the label of a phrase, and the label of the phrase around it


class Phrase(NamedTuple):
    """A phrase in a linearized tree.

    Args:
        kind: its label and the label of the phrase around it.
        tokens: slice of the tree's tokens, including both brackets.
        words: slice of the sentence's words.
    """

    kind: Kind
    tokens: slice
    words: slice


# Tokens and words of phrases by their kind.
Pool: TypeAlias = dict[Kind, list[tuple[list[str], list[str]]]]


class SwappedPhrases(ParallelText):
    """The trees of a treebank, each several times, with some phrases replaced by others.

    In each copy, one to four phrases are replaced by phrases with the same label and parent label
    from anywhere in the treebank: most results are grammatical, if nonsensical. The treebank must
    fit into memory; trees of more than 1,000 tokens are omitted.

    Args:
        text: sentences and linearized trees.
        copies: number of new trees for each tree. New trees of more than 60 words are omitted.
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
        """SHA-256 of everything that determines the pairs."""
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
    """The phrases below the root of a linearized tree, in the order in which they close.

    `tokens` must have the form that `linearize` returns.

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
