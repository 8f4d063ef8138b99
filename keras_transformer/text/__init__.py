"""From text to token ids and back. The TensorFlow version is `text.tensorflow_sentencepiece`.

Each name is loaded on first use, so clients of a model server need neither NumPy nor SentencePiece.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from keras_transformer.text.sentencepiece_tokenizer import (
        SentencePieceTokenizer as SentencePieceTokenizer,
    )
    from keras_transformer.text.sentencepiece_training import sample_lines as sample_lines
    from keras_transformer.text.shortlist import Shortlist as Shortlist

_HOMES = {
    "SentencePieceTokenizer": "sentencepiece_tokenizer",
    "Shortlist": "shortlist",
    "sample_lines": "sentencepiece_training",
}

__all__ = sorted(_HOMES)


if not TYPE_CHECKING:  # otherwise, type checkers would accept any name

    def __getattr__(name: str) -> Any:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
