"""Word alignments from the cross-attention of a model."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from keras_transformer.text.subword_sampler import SPACE


@dataclasses.dataclass(frozen=True, eq=False)
class Alignment:
    """The cross-attention of one sentence pair.

    Args:
        source_pieces: pieces of the source; the last piece is the end of sentence.
        target_pieces: pieces of the target, without end of sentence.
        weights: float array (target pieces, source pieces): the attention that each target piece
            pays to each source piece. Every row sums to 1.

    Example:
        >>> weights = np.array([[0.1, 0.7, 0.2], [0.6, 0.3, 0.1]])
        >>> alignment = Alignment(["▁ja", "▁nein", "</s>"], ["▁no", "▁yes"], weights)
        >>> alignment.word_pairs(), alignment.pharaoh()
        ([(0, 1), (1, 0)], '0-1 1-0')
        >>> alignment.words()
        (['ja', 'nein'], ['no', 'yes'])
    """

    source_pieces: list[str]
    target_pieces: list[str]
    weights: np.ndarray

    def word_pairs(self) -> list[tuple[int, int]]:
        """The source word for each target word.

        Words are separated by white space in the text after the tokenizer's normalization. A target
        word is aligned with the source word that has the largest weight: the mean over the target
        word's pieces, summed over the source word's pieces. The end of the source sentence is
        ignored.

        Returns:
            Sorted pairs `(source word, target word)`, both counted from 0; empty if a side has no
            words.
        """
        from_source = _membership(self.source_pieces[:-1])  # (source words, source pieces)
        from_target = _membership(self.target_pieces)  # (target words, target pieces)
        if not len(from_source):
            return []
        pieces = from_target.sum(axis=1, keepdims=True)  # in each target word
        weights = from_target @ self.weights[:, :-1] @ from_source.T / pieces
        return sorted((int(source), target) for target, source in enumerate(weights.argmax(axis=1)))

    def words(self) -> tuple[list[str], list[str]]:
        """The words of the source and the target, to which the numbers in `word_pairs` refer.

        Words are spelled like their pieces, including bytes such as `<0xF0>`.
        """
        return _spelled(self.source_pieces[:-1]), _spelled(self.target_pieces)

    def pharaoh(self) -> str:
        """The word pairs in the Pharaoh format, such as `"0-0 2-1"`."""
        return " ".join(f"{source}-{target}" for source, target in self.word_pairs())


def _membership(pieces: Sequence[str]) -> np.ndarray:
    """Which pieces belong to which word: float array (words, pieces) of zeros and ones."""
    words = _word_pieces(pieces)
    membership = np.zeros((len(words), len(pieces)))
    for row, indices in zip(membership, words, strict=True):
        row[indices] = 1
    return membership


def _word_pieces(pieces: Sequence[str]) -> list[list[int]]:
    """The indices of the pieces of each word."""
    words: list[list[int]] = []
    is_open = False
    for index, piece in enumerate(pieces):
        is_open = is_open and not piece.startswith(SPACE)
        if piece.strip(SPACE):  # a piece of only spaces belongs to no word
            if not is_open:
                words.append([])
            words[-1].append(index)
            is_open = not piece.endswith(SPACE)
    return words


def _spelled(pieces: Sequence[str]) -> list[str]:
    """The words that the pieces spell."""
    words = _word_pieces(pieces)
    return ["".join(pieces[i] for i in indices).strip(SPACE) for indices in words]
