"""The captions on disk, and the tokenizer for them."""

from keras_transformer.data import find_text, read_parallel_text
from keras_transformer.text import SentencePieceTokenizer

PARTS = ("train", "val", "test_2016_flickr")
SIDES = ("en", "de")


def read_captions(directory):
    """Read the parts of Multi30k.

    Args:
        directory: folder with every part as `.en` and `.de`, `.gz` or not.

    Returns:
        For train, val and test_2016_flickr, in this order, a pair of lists of strings: English and
        German captions.

    Raises:
        UserInputError: a file is missing, empty, no UTF-8, or two do not fit each other.
    """
    return [
        read_parallel_text(*(find_text(directory, f"{part}.{side}") for side in SIDES))
        for part in PARTS
    ]


def load_or_train_tokenizer(settings, sources, targets):
    """The tokenizer that `settings.tokenizer` names, or one trained on the given captions."""
    if settings.tokenizer:
        return SentencePieceTokenizer.load(settings.tokenizer)
    return SentencePieceTokenizer.train(
        sources + targets,
        vocabulary_size=settings.vocabulary_size,
        byte_fallback=settings.byte_fallback,
    )
