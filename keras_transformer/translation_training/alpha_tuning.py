"""The length penalty of a translation model, chosen on the dev text at the end of a training."""

import sys
from typing import Any

from keras_transformer.evaluation import tune_search
from keras_transformer.files.standard_streams import say
from keras_transformer.inference.translator import Translator
from keras_transformer.search_options import SearchKeywords
from keras_transformer.training import TrainingRun
from keras_transformer.translation_training.settings import TranslationSettings
from keras_transformer.translation_training.training_batches import TrainingBatches

MOST_SENTENCES = 1000


def tune_alpha(
    settings: TranslationSettings, batches: TrainingBatches, run: TrainingRun
) -> tuple[SearchKeywords, dict[str, Any]]:
    """Choose alpha by BLEU on the dev text, and write it into the run with the rest of its search.

    A training that is resumed removes it, see `RunDirectory.undo_tuning`.

    Args:
        settings: the search to tune, and how BLEU is counted.
        batches: the texts; at most `MOST_SENTENCES`, spread over the dev text, are translated.
        run: the training, at its end. Its final weights are there.

    Returns:
        `(search, record)`: the fields of `SearchOptions` to translate with, and what `scores.json`
        says of their choice.
    """
    pairs = [pair for pair in batches.texts.dev_text if pair[0].strip()]
    number = min(len(pairs), MOST_SENTENCES)
    pairs = [pairs[i * len(pairs) // number] for i in range(number)]
    sources, references = zip(*pairs, strict=True)
    translator = Translator.load(
        run.directory.path, long_sentences="cut", **settings.search_options()
    )
    tuning = tune_search(
        translator,
        sources,
        references,
        tokenize=settings.bleu_tokenize,
        progress=sys.stderr.isatty(),
    )
    best, default = tuning.best, tuning.default
    run.directory.write_search_defaults(best.options, in_training=True)
    say(
        f"\nalpha {best.alpha:g}, chosen on {len(sources):,} dev sentences (`--tune-alpha`): BLEU "
        f"{best.score:.2f}, length ratio {best.length_ratio:.3f}; {default.score:.2f} and "
        f"{default.length_ratio:.3f} with `--alpha` {default.alpha:g}. The run's searches have it."
    )
    record = {
        "text": batches.texts.dev_text.name,
        "sentences": len(sources),
        "signature": tuning.signature,
        "alphas": [one.alpha for one in tuning.results],
        "bleu": [one.score for one in tuning.results],
        "length_ratios": [one.length_ratio for one in tuning.results],
        "alpha_before": default.alpha,
        "bleu_before": default.score,
    }
    return best.options, record
