"""The padded vocabulary: rows of the model that no token of the tokenizer uses."""

from typing import Any, NotRequired, TypedDict

from keras_transformer.argument_checks import check_positive_int


def padded_vocabulary_size(size: int, multiple: int = 8) -> int:
    """Return the smallest multiple of `multiple` that holds a vocabulary of `size` tokens.

    Matrix units of GPUs and CPUs are fastest on sizes that are multiples of 8. The model gets the
    padded size; the tokenizer keeps its own, and ids from there on stand for nothing: the loss
    gives them no share of the smoothing and a search never produces them, when both are told the
    tokenizer's size as `vocabulary_size`.

    Args:
        size: integer, number of tokens of the tokenizer.
        multiple: integer, what the padded size is a multiple of.

    Returns:
        An integer, `size` to `size + multiple - 1`.

    Raises:
        ValueError: an argument is not a positive integer.

    Example:
        >>> padded_vocabulary_size(32_003), padded_vocabulary_size(32_000)
        (32008, 32000)
    """
    check_positive_int("size", size)
    check_positive_int("multiple", multiple)
    return -(-size // multiple) * multiple


class VocabularyOptions(TypedDict):
    """Arguments of `build_transformer`."""

    vocabulary_size: int
    source_vocabulary_size: NotRequired[int]
    padding_id: int


def vocabulary_options(source_tokenizer: Any, tokenizer: Any) -> VocabularyOptions:
    """Return the arguments of `build_transformer` that two tokenizers decide.

    Args:
        source_tokenizer, tokenizer: of the source and of the target, with `vocabulary_size` and
            `special_tokens`; one object where they share a vocabulary.
    """
    options: VocabularyOptions = {
        "vocabulary_size": padded_vocabulary_size(tokenizer.vocabulary_size),
        "padding_id": tokenizer.special_tokens.pad,
    }
    if source_tokenizer is not tokenizer:
        size = padded_vocabulary_size(source_tokenizer.vocabulary_size)
        options["source_vocabulary_size"] = size
    return options
