"""Adapt a model to a domain, and score it on in-domain and general text."""

import sys
from collections.abc import Sequence

from keras_transformer import losses, training
from keras_transformer.toolkit.cli import run_command
from keras_transformer.translation_training import (
    average_weights,
    begin_training,
    make_batches,
    make_tokenizers,
    translation_model,
    write_report,
)
from recipes.adapt.adapt_options import adapt_options, adaptation_texts
from recipes.adapt.comparison import compare


def main(arguments: Sequence[str] | None = None) -> int | None:
    """Train, score and compare. `arguments` are command-line arguments."""
    options, values = adapt_options(__doc__, arguments)
    settings = options.settings
    with training.TrainingRun.of(options) as run:
        # Text: in-domain text with a share of general text
        texts, general = adaptation_texts(values, settings)

        # Tokenizer: the model's
        source_tokenizer, tokenizer = make_tokenizers(settings, texts.train, run)

        # Batches
        batches = make_batches(settings, texts, source_tokenizer, tokenizer, run)

        # Model: train all weights or only adapters
        with run.scope():
            model = translation_model(settings, source_tokenizer, tokenizer, run)
            loss = losses.LabelSmoothingCrossEntropy(**settings.loss_options(tokenizer))
            training_model = settings.compile(model, loss, run.accumulate, tokenizer.special_tokens)

        # Training
        begin_training(settings, batches, model, training_model, run)
        training_model.fit(run.batches(batches.train), callbacks=run.callbacks, **run.fit_options)
        if run.is_chief:
            # Average
            averaged = average_weights(settings, batches.dev, run)

            # Scores
            write_report(settings, batches, run, averaged_checkpoints=averaged)
            domain = batches.texts.test or batches.texts.dev_text
            compare(run.directory, domain, general, settings.bleu_tokenize)
    return run.exit_code


if __name__ == "__main__":
    sys.exit(run_command(main))
