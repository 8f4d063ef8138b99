"""The start of a translation training: its model, and what `fit` begins with."""

import itertools
import warnings
from collections.abc import Sequence

import keras

from keras_transformer import models, training
from keras_transformer.errors import LongSentenceWarning
from keras_transformer.inference.translator import Translator
from keras_transformer.text import SentencePieceTokenizer
from keras_transformer.training import TrainingRun
from keras_transformer.translation_training.training_batches import TrainingBatches
from keras_transformer.translation_training.translation_settings import TranslationSettings

# Batches between which a signal ends the training: the same number on all machines, as all of them
# agree on it, and two, as a CPU searches for two at a time.
BATCHES_AT_ONCE = 2


def translation_model(
    settings: TranslationSettings,
    source_tokenizer: SentencePieceTokenizer,
    tokenizer: SentencePieceTokenizer,
    run: TrainingRun,
) -> keras.Model:
    """The model to train, whose frozen layers and adapters are those of the settings.

    Args:
        settings: the architecture, and what of it is trained.
        source_tokenizer, tokenizer: of the source and of the target.
        run: the training. If it resumes a run, or starts from one, the model is that run's.

    Returns:
        A functional model of `models.build_transformer`, not compiled yet.

    Raises:
        UserInputError: as `training.freeze` and `training.enable_lora`.
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
) -> list[training.BleuValidation]:
    """Return a callback that measures BLEU on the dev text by greedy search, if it is wanted.

    Args:
        settings: how often to measure, and on how many sentences.
        batches: the texts. The sentences are spread over the dev text, which may be sorted by
            length.
        model: the functional model in training.
        run: the training. All its processes must translate; the chief writes the samples.
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
        training.BleuValidation(
            translate,
            list(sources),
            list(targets),
            path=run.directory.samples_path if run.is_chief else None,
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
    """Say what the batches are, and begin the run, with BLEU among its validations if wanted.

    Args:
        settings: how often to measure BLEU, and on how many sentences.
        batches: the batches and their texts.
        model: the model of `translation_model`.
        training_model: the one to `fit`, of `settings.compile`.
        run: the training; `fit` takes its `batches`, `callbacks` and `fit_options` from here on.

    Raises:
        UserInputError: as `TrainingRun.begin`.
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
