"""The vocabulary of linearized trees: brackets with their labels, and a token for words."""

import functools
from collections.abc import Iterable
from typing import Literal, Self

from keras_transformer.parsing.linearization import LEAF_TOKEN
from keras_transformer.text import SentencePieceTokenizer


class TreeTokenizer(SentencePieceTokenizer):
    """Splits linearized trees at their spaces; saved as a SentencePiece model.

    Args:
        model_bytes: `TreeTokenizer.of(...).model_bytes`.

    Raises:
        UserInputError: the bytes are not a SentencePiece model.

    Example:
        >>> tokenizer = TreeTokenizer.of(["(NP", "(S", ")NP", ")S", "XX"])
        >>> ids = tokenizer.encode(["(S (NP XX )NP )S"])
        >>> ids, tokenizer.decode(ids)
        ([[5, 4, 8, 6, 7]], ['(S (NP XX )NP )S'])
    """

    output: Literal["text", "trees"] = "trees"

    def __init__(self, model_bytes: bytes) -> None:
        super().__init__(model_bytes)
        self.tokens = self.pieces(range(self.vocabulary_size))
        self._ids = {token: number for number, token in enumerate(self.tokens)}

    @classmethod
    def of(cls, tokens: Iterable[str]) -> Self:
        """Make a tokenizer for given tokens, such as `bracket_tokens` of a treebank."""
        tokens = list(tokens)
        model = SentencePieceTokenizer.train(
            ["X"],  # the trainer requires some text
            vocabulary_size=4 + len(tokens) + 2,
            user_defined_symbols=tokens,
            normalization="identity",
        )
        return cls(model.model_bytes)

    @functools.cached_property
    def word_starts(self) -> tuple[int, ...]:
        """The ids after which the next word follows: the ids of BOS and of a word.

        For `build_transformer(positions="words", target_word_starts=...)`: each token of a tree
        gets the number of the next word of the source.
        """
        bos, leaf = self.special_tokens.bos, self._ids.get(LEAF_TOKEN)
        return (bos,) if leaf is None else (bos, leaf)

    def encode(self, sentences: Iterable[str]) -> list[list[int]]:
        """Turn linearized trees, tokens separated by spaces, into token ids.

        Tokens outside of the vocabulary get the id of the unknown token.
        """
        unknown = self.special_tokens.unk
        return [
            [self._ids.get(token, unknown) for token in tree_tokens(text)] for text in sentences
        ]

    def sample(self, sentences: Iterable[str], *, alpha: float, seed: int) -> list[list[int]]:
        """Same as `encode`, since linearized trees have only one segmentation."""
        return self.encode(sentences)

    def decode(self, ids: Iterable[Iterable[int]]) -> list[str]:
        """Turn token ids into linearized trees, dropping padding, BOS and EOS.

        Args:
            ids: rows of ids, such as an int array `(sentences, length)`.

        Returns:
            The linearized trees.
        """
        special = self.special_tokens
        left_out = {special.pad, special.bos, special.eos}
        return [" ".join(self.tokens[int(i)] for i in row if int(i) not in left_out) for row in ids]


def tree_tokens(text: str) -> list[str]:
    """Split a linearized tree at spaces only, as labels may contain other white space."""
    return [token for token in text.split(" ") if token]
