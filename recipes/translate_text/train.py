"""Train a translator on any two text files, like `keras-transformer train`."""

import sys
from collections.abc import Sequence

from keras_transformer import losses, training
from keras_transformer.toolkit.cli import run_command
from keras_transformer.translation_training import (
    TranslationSettings,
    add_text_arguments,
    average_weights,
    begin_training,
    fit_settings,
    make_batches,
    make_tokenizers,
    text_of,
    translation_model,
    write_report,
)
from recipes.recipe_options import recipe_options


def main(arguments: Sequence[str] | None = None) -> int | None:
    """Train, average the last checkpoints and score. `arguments` are command-line arguments."""
    options, values = recipe_options(
        "translate_text",
        TranslationSettings,
        __doc__,
        arguments=arguments,
        add=add_text_arguments,
        fits=True,
    )
    with training.TrainingRun.of(options) as run:
        # Text
        texts = text_of(values)
        settings = fit_settings(options, texts, run)

        # Tokenizer: one for both sides, or one per side
        source_tokenizer, tokenizer = make_tokenizers(settings, texts.train, run)

        # Batches
        batches = make_batches(settings, texts, source_tokenizer, tokenizer, run)

        # Model
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
    return run.exit_code


if __name__ == "__main__":
    sys.exit(run_command(main))
