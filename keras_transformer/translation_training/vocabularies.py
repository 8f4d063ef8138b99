"""The tokenizers of a translation training: of another run, from files, or trained on the text."""

import itertools
from collections.abc import Iterable

from keras_transformer import models
from keras_transformer.data import ParallelText
from keras_transformer.errors import UserInputError
from keras_transformer.evaluation.scores import bleu_metric
from keras_transformer.evaluation.system_scores import check_language
from keras_transformer.text import SentencePieceTokenizer, sample_lines
from keras_transformer.training import Devices, TrainingRun
from keras_transformer.translation_training.translation_settings import TranslationSettings


def make_tokenizers(
    settings: TranslationSettings, texts: Iterable[ParallelText], run: TrainingRun
) -> tuple[SentencePieceTokenizer, SentencePieceTokenizer]:
    """The source's and the target's tokenizer, one object if they share a vocabulary.

    Args:
        settings: vocabularies and their files.
        texts: texts to train a vocabulary on, if necessary.
        run: the training. If it resumes a run, or starts from one, the tokenizers are that run's.

    Returns:
        `(source_tokenizer, tokenizer)`.

    Raises:
        UserInputError: a file holds no tokenizer, that of the source is missing, or
            `vocabulary_size` does not suit the text. Settings that would fail hours later are
            checked too: the model is too large for the memory, sacrebleu does not know
            `bleu_tokenize`, or `language` is not a language code.
    """
    bleu_metric(settings.bleu_tokenize)
    if settings.language is not None:
        check_language(settings.language)
    if run.earlier is not None:
        return run.earlier.load_tokenizers()
    if settings.separate_vocabularies and settings.tokenizer and not settings.source_tokenizer:
        raise UserInputError(
            "`separate_vocabularies` with `tokenizer` needs `source_tokenizer`, that of the "
            f"source. Received: tokenizer={settings.tokenizer!r}, source_tokenizer=None"
        )
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


def _train(settings: TranslationSettings, lines: Iterable[str]) -> SentencePieceTokenizer:
    return SentencePieceTokenizer.train(
        sample_lines(lines, settings.vocabulary_lines, settings.seed),
        vocabulary_size=settings.vocabulary_size,
        model_type=settings.vocabulary_type,
        byte_fallback=settings.byte_fallback,
        normalization=settings.normalization,
        user_defined_symbols=settings.symbols.split(),
    )


def _check_memory(settings: TranslationSettings, devices: Devices) -> None:
    """Refuse a model that is too large before hours are spent on its text.

    A CPU holds the weights, their gradients and Adam's two moments.
    """
    models.check_model_fits(
        settings.preset,
        # The size of a given tokenizer is known later, and checked when the model is built.
        vocabulary_size=1 if settings.tokenizer else settings.vocabulary_size,
        copies=4 if devices.device_name == "CPU" else 1,
        **settings.model_options(),
    )
