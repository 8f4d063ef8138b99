"""What a type checker must refuse: mypy fails where one of these lines is not an error."""

import keras_transformer as kt


def misuse(model: object, tokenizer: kt.SentencePieceTokenizer, translator: kt.Translator) -> None:
    """Each line breaks the signature of a public name."""
    kt.Translator(model, tokenizer, beem_size=4)  # type: ignore[call-arg]  # misspelled
    kt.Translator(model, tokenizer, beam_size="4")  # type: ignore[arg-type]  # not an integer
    kt.Translator(model, "model")  # type: ignore[arg-type]  # a path instead of a tokenizer
    translator("one").append("two")  # type: ignore[attr-defined]  # a string
    translator(["one"], prefix="e")  # type: ignore[call-overload]  # misspelled
    kt.MultiHeadAttention(8, 64, 64, 0.1)  # type: ignore[misc]  # keyword-only arguments
    kt.build_transformer("base", vocab_size=8)  # type: ignore[call-arg]  # misspelled
    kt.Tranlator  # type: ignore[attr-defined]  # noqa: B018
