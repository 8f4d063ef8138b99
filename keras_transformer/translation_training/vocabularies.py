"""The tokenizers of a translation training: of another run, from files, or trained on the text."""

import itertools

from keras_transformer.text import SentencePieceTokenizer, sample_lines


def make_tokenizers(settings, texts, origin=None):
    """The source's and the target's tokenizer, one object where they share a vocabulary.

    Args:
        settings: `TranslationSettings`.
        texts: list of `ParallelText`s to train a vocabulary on, where one has to be.
        origin: a `RunDirectory` whose tokenizers are used, or None.

    Returns:
        `(source_tokenizer, tokenizer)`.

    Raises:
        UserInputError: a file is no tokenizer, or `vocabulary_size` does not suit the text.
    """
    if origin is not None:
        return origin.load_tokenizers()
    if settings.tokenizer:
        tokenizer = SentencePieceTokenizer.load(settings.tokenizer)
        if not settings.source_tokenizer:
            return tokenizer, tokenizer
        return SentencePieceTokenizer.load(settings.source_tokenizer), tokenizer
    if settings.separate_vocabularies:
        sources = (source for source, _ in itertools.chain(*texts))
        targets = (target for _, target in itertools.chain(*texts))
        return _train(settings, sources), _train(settings, targets)
    shared = _train(settings, itertools.chain.from_iterable(itertools.chain(*texts)))
    return shared, shared


def _train(settings, lines):
    return SentencePieceTokenizer.train(
        sample_lines(lines, settings.vocabulary_lines, settings.seed),
        vocabulary_size=settings.vocabulary_size,
        model_type=settings.vocabulary_type,
        byte_fallback=settings.byte_fallback,
        normalization=settings.normalization,
        user_defined_symbols=settings.symbols.split(),
    )
