"""A SentencePiece model from anybody: what the library does not refuse and must not get further."""

import math
from dataclasses import asdict

import sentencepiece

from keras_transformer.errors import UserInputError
from keras_transformer.special_tokens import SpecialTokens


def load_processor(model_bytes):
    """Load a serialized model into a `sentencepiece.SentencePieceProcessor`.

    The library checks the structure, and that the normalizer's table points into itself. Here
    pieces must be UTF-8, and scores finite.
    """
    processor = sentencepiece.SentencePieceProcessor()
    try:
        processor.LoadFromSerializedProto(model_bytes)
        numbers = range(processor.get_piece_size())
        for number in numbers:
            processor.id_to_piece(number)
    # A piece, or what the library says of it, may be no UTF-8: a UnicodeDecodeError.
    except (RuntimeError, OSError, UnicodeDecodeError) as error:
        raise UserInputError("The tokenizer is not a SentencePiece model") from error
    if not all(math.isfinite(processor.get_score(number)) for number in numbers):
        raise UserInputError("The SentencePiece model has scores that are no finite numbers")
    return processor


def special_tokens_of(processor):
    """The `SpecialTokens` of a loaded model, which must have all four, and different ones."""
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
