"""BLEU on the dev text while a translation model trains."""

from keras_transformer import training
from keras_transformer.inference.translator import Translator


def bleu_validators(settings, batches, model, run):
    """Return the callbacks that measure BLEU on the dev text by greedy search: one, or none.

    Args:
        settings: `TranslationSettings`.
        batches: the `TrainingBatches`. Of their dev text sentences are taken that are spread over
            it: it may be sorted by length.
        model: the functional model; it is seen as it trains.
        run: the `training.TrainingRun`. Every process has to translate; the chief writes samples.
    """
    if not settings.bleu_every:
        return []
    translator = Translator(
        model,
        batches.tokenizer,
        source_tokenizer=batches.source_tokenizer,
        beam_size=1,
        long_sentences="cut",  # a validation set is no reason to end a training
    )
    pairs = [pair for pair in batches.texts.dev if pair[0].strip()]
    pairs = pairs[:: -(-len(pairs) // settings.bleu_sentences)]
    sources, targets = zip(*pairs, strict=True)
    return [
        training.BleuValidation(
            translator.translate,
            list(sources),
            list(targets),
            path=run.directory.samples_path if run.is_chief else None,
            every=settings.bleu_every,
            tokenize=settings.bleu_tokenize,
        )
    ]
