"""Which source words a model looked at for each target word."""

import dataclasses

import numpy as np

from keras_transformer.text.subword_sampler import SPACE


@dataclasses.dataclass(frozen=True, eq=False)
class Alignment:
    """The cross-attention of one sentence pair.

    Args:
        source_pieces: list of the source's pieces; the last one is the end of sentence.
        target_pieces: list of the target's pieces, without end of sentence.
        weights: float array (target pieces, source pieces), how much of the attention of each
            target piece each source piece has; rows add up to 1.

    Example:
        >>> weights = np.array([[0.1, 0.7, 0.2], [0.6, 0.3, 0.1]])
        >>> alignment = Alignment(["▁ja", "▁nein", "</s>"], ["▁no", "▁yes"], weights)
        >>> alignment.word_pairs(), alignment.pharaoh()
        ([(0, 1), (1, 0)], '0-1 1-0')
    """

    source_pieces: list
    target_pieces: list
    weights: np.ndarray

    def word_pairs(self):
        """The source word of every target word.

        Words are what white space parts in the text as the tokenizer normalised it. A target word
        takes the source word with the largest weight: the sum over the source word's pieces of the
        mean over the target word's. The weight of the source's end of sentence counts for none.

        Returns:
            A sorted list of `(source word, target word)`, both counted from 0; empty if a side has
            no words.
        """
        from_source = _membership(self.source_pieces[:-1])  # (source words, source pieces)
        from_target = _membership(self.target_pieces)  # (target words, target pieces)
        if not len(from_source):
            return []
        pieces = from_target.sum(axis=1, keepdims=True)  # of each target word
        weights = from_target @ self.weights[:, :-1] @ from_source.T / pieces
        return sorted((int(source), target) for target, source in enumerate(weights.argmax(axis=1)))

    def pharaoh(self):
        """The word pairs in the Pharaoh format, such as `"0-0 2-1"`."""
        return " ".join(f"{source}-{target}" for source, target in self.word_pairs())


def _membership(pieces):
    """Which pieces belong to which word: float array (words, pieces) of zeros and ones."""
    words, is_open = [], False
    for index, piece in enumerate(pieces):
        is_open = is_open and not piece.startswith(SPACE)
        if piece.strip(SPACE):  # a piece of spaces alone belongs to no word
            if not is_open:
                words.append([])
            words[-1].append(index)
            is_open = not piece.endswith(SPACE)
    membership = np.zeros((len(words), len(pieces)))
    for row, indices in zip(membership, words, strict=True):
        row[indices] = 1
    return membership
