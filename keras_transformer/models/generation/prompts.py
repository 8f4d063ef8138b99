"""What a language model can continue."""

from typing import Any

import numpy as np

from keras_transformer.special_tokens import SpecialTokens


def check_prompts(
    prompt_ids: Any, special_tokens: SpecialTokens, vocabulary_size: int, max_length: int | None
) -> None:
    """Refuse prompts that no output could begin with.

    Args:
        prompt_ids: the prompts, as of `SequenceGenerator.search`, from `checked_ids`. Of a tensor
            only the shape is looked at: in a graph its values are not known.
        special_tokens: the `SpecialTokens` of the vocabulary.
        vocabulary_size: number of tokens.
        max_length: number of the model's positions, of which BOS takes the first; None: unlimited.

    Raises:
        ValueError: a row has more tokens than positions, has something else than tokens, or padding
            before a token.
    """
    length = prompt_ids.shape[1]
    if length is not None and max_length is not None and length >= max_length:
        raise ValueError(
            f"`source_ids` must be prompts of at most {max_length - 1} tokens: the model has "
            f"{max_length} positions, and BOS takes one. Received: prompts of {length}"
        )
    if isinstance(prompt_ids, np.ndarray):
        _check_rows(prompt_ids, special_tokens, vocabulary_size)


def _check_rows(ids: np.ndarray, special_tokens: SpecialTokens, vocabulary_size: int) -> None:
    is_padding = ids == special_tokens.pad
    is_ordinary = (ids >= 0) & (ids < vocabulary_size)
    is_ordinary &= ~np.isin(ids, [special_tokens.bos, special_tokens.eos])
    is_late = np.cumsum(is_padding, axis=1) > 0  # from the first padding on
    is_wrong = ~np.where(is_late, is_padding, is_ordinary)
    if is_wrong.any():
        row = ids[is_wrong.any(axis=1)][0]
        raise ValueError(
            f"`source_ids` must be prompts: tokens less than {vocabulary_size} without BOS and "
            f"EOS, then padding, {special_tokens.pad}. Received: {row[:20].tolist()}"
        )
