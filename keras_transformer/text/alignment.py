"""Word alignments derived from a model's attention."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from keras_transformer.text.pharaoh import pharaoh
from keras_transformer.text.subword_sampler import SPACE

LINK_WEIGHT = 0.3  # of docs/lab/terms.md, "Word alignments"


@dataclasses.dataclass(frozen=True, eq=False)
class Alignment:
    """The cross-attention of one sentence pair.

    Args:
        source_pieces: pieces of the source; the last piece is EOS.
        target_pieces: pieces of the target, without EOS.
        weights: float array (target pieces, source pieces): the attention from each target piece to
            each source piece. Every row sums to 1.
        is_guided: whether the weights are those of a head that was trained to align words. Other
            heads often attend to EOS for want of anything better.

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
    is_guided: bool = False

    def word_pairs(self) -> list[tuple[int, int]]:
        """Align target words with source words.

        Words are separated by white space in the text as normalized by the tokenizer. The weight of
        a pair of words is averaged over the target word's pieces and summed over the source word's
        pieces. Each target word is aligned with the source word of the largest weight. If the
        weights are guided, it is aligned with all source words of more than `LINK_WEIGHT`, if any.

        Returns:
            Sorted pairs of word indices `(source, target)`, counted from 0; empty if either side
            contains no words.
        """
        from_source = _membership(self.source_pieces[:-1])  # (source words, source pieces)
        from_target = _membership(self.target_pieces)  # (target words, target pieces)
        if not len(from_source):
            return []
        from_target /= from_target.sum(axis=1, keepdims=True)
        weights = from_source @ self.weights[:, :-1].T @ from_target.T
        if self.is_guided:
            return [
                (source, target) for source, target in np.argwhere(weights > LINK_WEIGHT).tolist()
            ]
        return sorted(
            (source, target) for target, source in enumerate(weights.argmax(axis=0).tolist())
        )

    def words(self) -> tuple[list[str], list[str]]:
        """Return the source and target words that the indices in `word_pairs` refer to.

        Words are spelled like their pieces, including byte pieces such as `<0xF0>`.
        """
        return _spelled(self.source_pieces[:-1]), _spelled(self.target_pieces)

    def pharaoh(self) -> str:
        """Return the word pairs in Pharaoh format, such as `"0-0 2-1"`."""
        return pharaoh(self.word_pairs())


def _membership(pieces: Sequence[str]) -> np.ndarray:
    """Return a float array (words, pieces) with 1 where a piece belongs to a word, otherwise 0."""
    words = _word_pieces(pieces)
    membership = np.zeros((len(words), len(pieces)))
    for row, indices in zip(membership, words, strict=True):
        row[indices] = 1
    return membership


def _word_pieces(pieces: Sequence[str]) -> list[list[int]]:
    """Return the piece indices of each word."""
    words: list[list[int]] = []
    is_open = False
    for index, piece in enumerate(pieces):
        is_open = is_open and not piece.startswith(SPACE)
        if piece.strip(SPACE):  # pieces of only spaces do not belong to any word
            if not is_open:
                words.append([])
            words[-1].append(index)
            is_open = not piece.endswith(SPACE)
    return words


def _spelled(pieces: Sequence[str]) -> list[str]:
    """Join pieces into words."""
    words = _word_pieces(pieces)
    return ["".join(pieces[i] for i in indices).strip(SPACE) for indices in words]
