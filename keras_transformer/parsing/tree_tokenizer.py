"""The vocabulary of linearised trees: a bracket with its label is one token, as is a word."""

import functools

from keras_transformer.parsing.linearization import LEAF_TOKEN
from keras_transformer.text import SentencePieceTokenizer


class TreeTokenizer(SentencePieceTokenizer):
    """Cuts linearised trees at their spaces; a run directory keeps it as a SentencePiece model.

    Args:
        model_bytes: `TreeTokenizer.of(...).model_bytes`.

    Raises:
        UserInputError: the bytes are no SentencePiece model.

    Example:
        >>> tokenizer = TreeTokenizer.of(["(NP", "(S", ")NP", ")S", "XX"])
        >>> ids = tokenizer.encode(["(S (NP XX )NP )S"])
        >>> ids, tokenizer.decode(ids)
        ([[5, 4, 8, 6, 7]], ['(S (NP XX )NP )S'])
    """

    output = "trees"

    def __init__(self, model_bytes):
        super().__init__(model_bytes)
        self.tokens = self.pieces(range(self.vocabulary_size))
        self._ids = {token: number for number, token in enumerate(self.tokens)}

    @classmethod
    def of(cls, tokens):
        """The tokenizer of these tokens, such as `bracket_tokens` gives them for a treebank."""
        tokens = list(tokens)
        model = SentencePieceTokenizer.train(
            ["X"],  # some text there must be
            vocabulary_size=4 + len(tokens) + 2,
            user_defined_symbols=tokens,
            normalization="identity",
        )
        return cls(model.model_bytes)

    @functools.cached_property
    def word_starts(self):
        """The ids after which the next word is due: BOS and that of a word.

        A tuple of int, fit for `build_transformer(positions="words", target_word_starts=...)`: a
        tree's token has the number of the source's word that is the next to come.
        """
        bos, leaf = self.special_tokens.bos, self._ids.get(LEAF_TOKEN)
        return (bos,) if leaf is None else (bos, leaf)

    def encode(self, sentences):
        """Turn linearised trees, tokens with spaces between them, into token ids.

        Args:
            sentences: list of strings.

        Returns:
            A list of lists of int; what is no token of the vocabulary has the unknown token's id.
        """
        unknown = self.special_tokens.unk
        return [
            [self._ids.get(token, unknown) for token in tree_tokens(text)] for text in sentences
        ]

    def sample(self, sentences, *, alpha, seed):
        """`encode`: linearised trees can be cut in one way alone, whatever is drawn."""
        return self.encode(sentences)

    def decode(self, ids):
        """Turn token ids into linearised trees; padding, begin and end leave no trace.

        Args:
            ids: list of sequences of int, or an int array `(sentences, length)`.

        Returns:
            A list of strings.
        """
        special = self.special_tokens
        left_out = {special.pad, special.bos, special.eos}
        return [" ".join(self.tokens[int(i)] for i in row if int(i) not in left_out) for row in ids]


def tree_tokens(text):
    """Part a linearised tree at its spaces alone: other white space may be part of a label."""
    return [token for token in text.split(" ") if token]
