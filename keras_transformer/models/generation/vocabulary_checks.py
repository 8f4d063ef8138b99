"""Whether a model, its special tokens and its vocabulary fit each other."""

from typing import Any

from keras_transformer.argument_checks import check_positive_int
from keras_transformer.special_tokens import SpecialTokens


def check_vocabulary(
    model: Any, special_tokens: SpecialTokens, vocabulary_size: int | None
) -> None:
    """Refuse what a model cannot generate with.

    Args:
        model: the `Transformer` or the `TransformerEnsemble`.
        special_tokens: the `SpecialTokens` of the vocabulary.
        vocabulary_size: number of tokens; None: that of the model.

    Raises:
        ValueError: the model pads with another id, masks the token that it begins with, or has
            fewer logits than tokens; or a special token is none of the vocabulary.
    """
    if model.padding_id not in (None, special_tokens.pad):
        raise ValueError(
            "`special_tokens.pad` must be the model's padding id. Received: "
            f"{special_tokens}, padding id {model.padding_id}"
        )
    if model.is_causal and model.padding_id == special_tokens.bos:
        raise ValueError(
            "`special_tokens.bos` must not be the `mask_id` of a language model, which hides it. "
            f"Received: {special_tokens}, mask_id={model.padding_id}"
        )
    if vocabulary_size is not None:
        check_positive_int("vocabulary_size", vocabulary_size)
        if vocabulary_size > model.vocabulary_size:
            raise ValueError(
                "`vocabulary_size` must be at most the model's. Received: vocabulary_size="
                f"{vocabulary_size}, the model's {model.vocabulary_size}"
            )
    num_tokens = vocabulary_size or model.vocabulary_size
    if max(special_tokens.pad, special_tokens.bos, special_tokens.eos) >= num_tokens:
        raise ValueError(
            "`special_tokens` must have ids of padding, BOS and EOS less than the number of "
            f"tokens, {num_tokens}. Received: {special_tokens}"
        )
