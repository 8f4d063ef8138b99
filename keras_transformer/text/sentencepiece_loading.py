"""Loading untrusted SentencePiece models, with checks that the library lacks."""

import math
from dataclasses import asdict

import sentencepiece

from keras_transformer.errors import UserInputError
from keras_transformer.special_tokens import SpecialTokens


def load_processor(model_bytes: bytes) -> sentencepiece.SentencePieceProcessor:
    """Load a serialized model; its pieces must be UTF-8 and its scores finite.

    The library itself checks the structure and the bounds of the normalizer's table.
    """
    processor = sentencepiece.SentencePieceProcessor()
    try:
        processor.LoadFromSerializedProto(model_bytes)
        numbers = range(processor.get_piece_size())
        for number in numbers:
            processor.id_to_piece(number)
    # The UnicodeDecodeError is that of a piece or of the library's message.
    except (RuntimeError, OSError, UnicodeDecodeError) as error:
        raise UserInputError("The tokenizer is not a SentencePiece model") from error
    if not all(math.isfinite(processor.get_score(number)) for number in numbers):
        raise UserInputError("The SentencePiece model has scores that are not finite numbers")
    return processor


def special_tokens_of(processor: sentencepiece.SentencePieceProcessor) -> SpecialTokens:
    """Return the special tokens of a loaded model, which must have all four with different ids."""
    ids = {
        "pad": processor.pad_id(),
        "bos": processor.bos_id(),
        "eos": processor.eos_id(),
        "unk": processor.unk_id(),
    }
    missing = [name for name, value in ids.items() if value < 0]
    default = " ".join(f"--{name}_id={value}" for name, value in asdict(SpecialTokens()).items())
    if missing:
        raise UserInputError(
            f"The SentencePiece model lacks the special tokens {missing}. Train it with {default}"
        )
    if len(set(ids.values())) < len(ids):
        raise UserInputError(
            "The special tokens of the SentencePiece model must differ. "
            f"Received: {ids}. Train it with {default}"
        )
    return SpecialTokens(**ids)
