"""Argument types, the names that settings accept, and the record of special tokens."""

import dataclasses
import os
from typing import Any, TypeAlias

# A tensor of Keras's backend, a `keras.KerasTensor`, or an array that Keras converts to one.
Tensor: TypeAlias = Any
# None is a size that is known only at run time.
Shape: TypeAlias = tuple[int | None, ...]
PathLike: TypeAlias = str | os.PathLike[str]

# The choices of settings, which `--help` and completion show without importing Keras.
KINDS_OF_POSITIONS = ("sinusoidal", "sinusoidal_t2t", "learned", "rotary", "words")
DECODER_UNITS = ("attention", "ssru")
OPTIMIZERS = ("adam", "muon")
MODEL_TYPES = ("bpe", "unigram")  # of SentencePiece
NORMALIZATIONS = ("nmt_nfkc", "nfkc", "nmt_nfkc_cf", "nfkc_cf", "identity")
LAYER_NORM_EPSILON = 1e-6


@dataclasses.dataclass(frozen=True)
class SpecialTokens:
    """Ids of the padding, begin-of-sentence, end-of-sentence and unknown tokens.

    Args:
        pad: fills each row after its last token.
        bos: the decoder's first input. It may be `pad`, as in Marian's models.
        eos: ends every source and every target sentence.
        unk: stands for text that the vocabulary does not cover.

    Raises:
        ValueError: an id is negative or not an integer, or two ids that must differ are equal.

    Example:
        >>> SpecialTokens().eos
        2
    """

    pad: int = 0
    bos: int = 1
    eos: int = 2
    unk: int = 3

    def __post_init__(self) -> None:
        ids = dataclasses.asdict(self)
        for name, value in ids.items():
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                raise ValueError(f"`{name}` must be an integer >= 0. Received: {name}={value!r}")
        if len({self.pad, self.eos, self.unk}) < 3 or self.bos in (self.eos, self.unk):
            raise ValueError(f"Special tokens must have different ids. Received: {ids}")

    def never(self, vocabulary_size: int, rows: int) -> list[int]:
        """The ids that no search outputs: padding, BOS, and model rows beyond the vocabulary."""
        return sorted({self.pad, self.bos, *range(vocabulary_size, rows)})
