"""The tokenizers of a translation training: of another run, from files, or trained on the text."""

import itertools

from keras_transformer import models
from keras_transformer.evaluation.bleu import bleu_metric
from keras_transformer.evaluation.tokenized_compound_split_bleu import check_language
from keras_transformer.text import SentencePieceTokenizer, sample_lines


def make_tokenizers(settings, texts, run):
    """The source's and the target's tokenizer, one object where they share a vocabulary.

    Args:
        settings: `TranslationSettings`.
        texts: list of `ParallelText`s to train a vocabulary on, where one has to be.
        run: the `training.TrainingRun`. If it goes on, or starts from another run, there are
            tokenizers already.

    Returns:
        `(source_tokenizer, tokenizer)`.

    Raises:
        UserInputError: a file is no tokenizer, `vocabulary_size` does not suit the text, or
            settings of what follows hours later are wrong: the model is too large for the memory,
            sacrebleu does not know `bleu_tokenize`, or `language` is no code of one.
    """
    bleu_metric(settings.bleu_tokenize)
    if settings.language is not None:
        check_language(settings.language)
    if run.earlier is not None:
        return run.earlier.load_tokenizers()
    _check_memory(settings, run.devices)
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


def _check_memory(settings, devices):
    """Refuse a model that is too large before hours are spent on its text.

    A CPU holds weights, gradients and Adam's two means of them.
    """
    options = settings.model_options()
    if settings.positions == "words":
        del options["positions"]  # they need the tokenizers, and next to no memory
    models.check_model_fits(
        settings.preset,
        # That of a tokenizer of one's own is known later, and checked when the model is built.
        vocabulary_size=1 if settings.tokenizer else settings.vocabulary_size,
        copies=4 if devices.device_name == "CPU" else 1,
        **options,
    )
