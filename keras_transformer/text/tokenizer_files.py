"""The tokenizer files of a model, in runs and exports."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from keras_transformer.types import PathLike

if TYPE_CHECKING:  # clients of a model server lack SentencePiece
    from keras_transformer.text.sentencepiece_tokenizer import SentencePieceTokenizer

TOKENIZER = "tokenizer.model"
SOURCE_TOKENIZER = "source_tokenizer.model"  # for a source with its own vocabulary
SHORTLIST = "shortlist.npz"


def save_tokenizers(
    directory: PathLike, source_tokenizer: SentencePieceTokenizer, tokenizer: SentencePieceTokenizer
) -> dict[str, str]:
    """Write a model's tokenizers; returns the names of the files for `source` and `target`."""
    names = {"source": TOKENIZER, "target": TOKENIZER}
    tokenizer.save(Path(directory) / TOKENIZER)
    if source_tokenizer is not tokenizer:
        names["source"] = SOURCE_TOKENIZER
        source_tokenizer.save(Path(directory) / SOURCE_TOKENIZER)
    return names
