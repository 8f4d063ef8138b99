"""Type aliases, allowed values of settings, and the special-token record."""

import dataclasses
import os
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

# A tensor of Keras's backend, a `keras.KerasTensor`, or an array that Keras converts to one.
Tensor: TypeAlias = Any
# None stands for a size known only at run time.
Shape: TypeAlias = tuple[int | None, ...]
PathLike: TypeAlias = str | os.PathLike[str]

# The choices of settings, which `--help` and completion show without importing Keras.
KINDS_OF_POSITIONS = ("sinusoidal", "sinusoidal_t2t", "learned", "rotary", "words")
DECODER_UNITS = ("attention", "ssru")
OPTIMIZERS = ("adam", "muon")
MarkupKind = Literal["html", "xml", "markdown"]
MARKUP: tuple[str, ...] = get_args(MarkupKind)
MODEL_TYPES = ("bpe", "unigram")  # of SentencePiece
# Before a source term, before its target, and after its target.
TERM_TAGS = ("<term>", "<trans>", "</term>")
NORMALIZATIONS = ("nmt_nfkc", "nfkc", "nmt_nfkc_cf", "nfkc_cf", "identity")
LAYER_NORM_EPSILON = 1e-6


NONE, AUTO, NUMBERS = "none", "auto", "numbers"  # values of `keep`

# Flags of tokens, for searches with terms.
ENDS_WORD = 1  # ends with a letter or digit
JOINS_WORD = 2  # starts with a letter or digit, without a space
IS_GAP = 4  # separates words where nothing else does; a space, if the vocabulary has one


class TermForm(NamedTuple):
    """A form of a term that the output of a sentence must contain.

    Args:
        term: index of the term in the sentence.
        times: how often the output must contain the term, in any of its forms.
        is_reserved: whether the tokens may occur nowhere else in the output.
        tokens: the tokens of the form.
    """

    term: int
    times: int
    is_reserved: bool
    tokens: Sequence[int]


# Columns of an array of forms. The tokens of the form follow, padded with -1.
TERM, COUNT, IS_RESERVED, FIRST_TOKEN = range(4)
MOST_MISSING = 3  # hypotheses within a term that lack more tokens compete with each other
SIZES = (4, 6, 8, 10)  # numbers of hypotheses in searches with terms


def hypotheses_needed(num_terms: int, longest: int, beam_size: int) -> int:
    """Return one of `SIZES`, or the beam size if it is larger."""
    needed = num_terms + 2 + min(longest - 1, MOST_MISSING)
    enough = (size for size in SIZES if size >= needed)
    return max(beam_size, next(enough, SIZES[-1]))


@dataclasses.dataclass(frozen=True)
class SpecialTokens:
    """Ids of the padding, beginning-of-sentence, end-of-sentence and unknown tokens.

    Args:
        pad: id that fills each row after its last token.
        bos: id of the decoder's first input. It can equal `pad`, as in Marian models.
        eos: id that ends every source and target sentence.
        unk: id for text that the vocabulary does not cover.

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
        """Return ids that are never output: padding, BOS, and rows beyond the vocabulary."""
        return sorted({self.pad, self.bos, *range(vocabulary_size, rows)})
