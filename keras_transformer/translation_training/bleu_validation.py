"""BLEU on the dev text during a translation training."""

import itertools
import warnings
from collections.abc import Sequence

import keras

from keras_transformer import training
from keras_transformer.errors import LongSentenceWarning
from keras_transformer.inference.translator import Translator
from keras_transformer.translation_training.settings import TranslationSettings
from keras_transformer.translation_training.training_batches import TrainingBatches

# Batches between which a signal ends the training: the same number on all machines, as all of them
# agree on it, and two, as a CPU searches for two at a time.
BATCHES_AT_ONCE = 2


def bleu_validators(
    settings: TranslationSettings,
    batches: TrainingBatches,
    model: keras.Model,
    run: training.TrainingRun,
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
