"""The start of a translation training: its tokenizers, its model, and what `fit` begins with."""

import itertools
import warnings
from collections.abc import Iterable, Sequence

import keras

from keras_transformer import models
from keras_transformer.data import ParallelText
from keras_transformer.errors import LongSentenceWarning, UserInputError
from keras_transformer.evaluation.scores import bleu_metric, check_language
from keras_transformer.inference.translator import Translator
from keras_transformer.text import SentencePieceTokenizer, sample_lines
from keras_transformer.training import BleuValidation, Devices, TrainingRun
from keras_transformer.translation_training.training_batches import TrainingBatches
from keras_transformer.translation_training.translation_settings import TranslationSettings

# A signal can end the training after so many batches of the search: the same number on all
# machines, which must agree on it, and two because a CPU searches two batches at a time.
BATCHES_AT_ONCE = 2


def make_tokenizers(
    settings: TranslationSettings, texts: Iterable[ParallelText], run: TrainingRun
) -> tuple[SentencePieceTokenizer, SentencePieceTokenizer]:
    """The source's and the target's tokenizer, one object if they share a vocabulary.

    Args:
        settings: vocabularies and their files.
        texts: texts to train a vocabulary on, if necessary.
        run: the training. If it resumes a run, or starts from one, that run's tokenizers are used.

    Returns:
        `(source_tokenizer, tokenizer)`.

    Raises:
        UserInputError: a file holds no tokenizer, the source's tokenizer is missing, or
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
            "`separate_vocabularies` with `tokenizer` needs `source_tokenizer` for the source. "
            f"Received: tokenizer={settings.tokenizer!r}, source_tokenizer=None"
        )
    _check_memory(settings, run.devices)
    if settings.tokenizer:
        tokenizer = SentencePieceTokenizer.load(settings.tokenizer)
        if not settings.source_tokenizer:
            return tokenizer, tokenizer
        return SentencePieceTokenizer.load(settings.source_tokenizer), tokenizer
    run.say(f"Training the vocabulary: {settings.vocabulary_size:,} subwords")
    if settings.separate_vocabularies:
        sources = (source for source, _ in itertools.chain(*texts))
        targets = (target for _, target in itertools.chain(*texts))
        return _train_tokenizer(settings, sources), _train_tokenizer(settings, targets)
    shared = _train_tokenizer(settings, itertools.chain.from_iterable(itertools.chain(*texts)))
    return shared, shared


def _train_tokenizer(settings: TranslationSettings, lines: Iterable[str]) -> SentencePieceTokenizer:
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
        # If a tokenizer is given, its size is known only later; it is checked when the model is
        # built.
        vocabulary_size=1 if settings.tokenizer else settings.vocabulary_size,
        copies=4 if devices.device_name == "CPU" else 1,
        **settings.model_options(),
    )


def translation_model(
    settings: TranslationSettings,
    source_tokenizer: SentencePieceTokenizer,
    tokenizer: SentencePieceTokenizer,
    run: TrainingRun,
) -> keras.Model:
    """The model to train, with layers frozen and adapters added as in the settings.

    Args:
        settings: the architecture, and which parts of it are trained.
        source_tokenizer, tokenizer: tokenizers of the source and of the target.
        run: the training. If it resumes a run, or starts from one, that run's model is used.

    Returns:
        A functional model from `models.build_transformer`, not compiled yet.

    Raises:
        UserInputError: the same errors as `training.freeze` and `training.enable_lora`.
    """
    model = run.earlier_model(**settings.dropout_rates()) or models.build_transformer(
        settings.preset,
        **models.vocabulary_options(source_tokenizer, tokenizer),
        **settings.model_options(source_tokenizer, tokenizer),
    )
    settings.choose_trained_weights(model)
    return model


def bleu_validators(
    settings: TranslationSettings,
    batches: TrainingBatches,
    model: keras.Model,
    run: TrainingRun,
) -> list[BleuValidation]:
    """Return a callback that measures BLEU on the dev text by greedy search, if requested.

    Args:
        settings: how often to measure, and on how many sentences.
        batches: the texts. The sentences are spread over the dev text, which may be sorted by
            length.
        model: the functional model in training.
        run: the training. All processes must translate; the chief writes the samples.
    """
    if not settings.bleu_every:
        return []
    translator = Translator(
        model,
        batches.tokenizer,
        source_tokenizer=batches.source_tokenizer,
        beam_size=1,
        long_sentences="cut",  # a long validation sentence must not end the training
    )
    pairs = [pair for pair in batches.texts.dev_text if pair[0].strip()]
    pairs = pairs[:: -(-len(pairs) // settings.bleu_sentences)]
    sources, targets = zip(*pairs, strict=True)
    batches_of_search = translator.batches(sources)
    parts = [
        list(itertools.chain(*batches_of_search[start : start + BATCHES_AT_ONCE]))
        for start in range(0, len(batches_of_search), BATCHES_AT_ONCE)
    ]

    def translate(part: Sequence[str]) -> list[str]:
        with warnings.catch_warnings():  # `batches` has warned, with the numbers of all sentences
            warnings.simplefilter("ignore", LongSentenceWarning)
            return translator.translate(part)

    return [
        BleuValidation(
            translate,
            list(sources),
            list(targets),
            path=run.directory.samples_path if run.is_chief else None,
            history=run.directory.dev_samples_path if run.is_chief else None,
            every=settings.bleu_every,
            tokenize=settings.bleu_tokenize,
            parts=parts,
        )
    ]


def begin_training(
    settings: TranslationSettings,
    batches: TrainingBatches,
    model: keras.Model,
    training_model: keras.Model,
    run: TrainingRun,
) -> None:
    """Print a report on the batches, and begin the run, with BLEU validation if requested.

    A training that starts from a run with a shortlist keeps it.

    Args:
        settings: how often to measure BLEU, and on how many sentences.
        batches: the batches and their texts.
        model: the model from `translation_model`.
        training_model: the model to `fit`, from `settings.compile`.
        run: the training; its `batches`, `callbacks` and `fit_options` are then ready for `fit`.

    Raises:
        UserInputError: the same errors as `TrainingRun.begin`.
    """
    run.say(*batches.report)
    run.begin(
        training_model,
        batches.train,
        batches.dev,
        tokenizer=batches.tokenizer,
        source_tokenizer=batches.source_tokenizer,
        validators=bleu_validators(settings, batches, model, run),
    )
    if run.is_chief and run.origin and run.origin.shortlist_path.is_file():
        tokenizers = batches.tokenizer, batches.source_tokenizer
        run.directory.write_shortlist(run.origin.load_shortlist(*tokenizers))
