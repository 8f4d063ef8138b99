"""Train the paper's Transformer on WMT 2014, English into French, and score it on newstest2014."""

import sys
from collections.abc import Sequence

from keras_transformer import losses, metrics, training
from keras_transformer.cli import run_command
from keras_transformer.translation_training import (
    average_weights,
    bleu_validators,
    make_batches,
    make_tokenizers,
    translation_model,
    write_report,
)
from recipes.recipe_options import recipe_options
from recipes.wmt14_en_fr.settings import WMT14EnFrSettings
from recipes.wmt14_text import add_wmt14_arguments, wmt14_text, write_newstest


def main(arguments: Sequence[str] | None = None) -> int | None:
    """Train, average the last checkpoints, score; `arguments` are those of the command line."""
    options, values = recipe_options(
        "wmt14_en_fr", WMT14EnFrSettings, __doc__, arguments=arguments, add=add_wmt14_arguments
    )
    settings = options.settings
    with training.TrainingRun.of(options) as run:
        # Text
        texts = wmt14_text("fr", data_dir=values.data_dir, download=values.download)

        # Tokenizer: one for both sides, or one for each
        source_tokenizer, tokenizer = make_tokenizers(settings, texts.train, run)

        # Batches
        batches = make_batches(settings, texts, source_tokenizer, tokenizer, run)

        # Model
        with run.scope():
            model = translation_model(settings, source_tokenizer, tokenizer, run)
            training_model = training.training_model(model, run.accumulate, r_drop=settings.r_drop)
            loss = losses.LabelSmoothingCrossEntropy(**settings.loss_options(tokenizer))
            training_model.compile(
                settings.make_optimizer(model),
                loss,
                **metrics.training_metrics(loss),
                jit_compile=settings.jit_compile(),
            )

        # Training
        run.say(*batches.report)
        run.begin(
            training_model,
            batches.train,
            batches.dev,
            tokenizer=tokenizer,
            source_tokenizer=source_tokenizer,
            validators=bleu_validators(settings, batches, model, run),
        )
        training_model.fit(run.batches(batches.train), callbacks=run.callbacks, **run.fit_options)
        if run.is_chief:
            # Average
            averaged = average_weights(settings, batches.dev, run)

            # Scores
            write_newstest(texts, run)
            write_report(settings, batches, run, averaged_checkpoints=averaged)
    return run.exit_code


if __name__ == "__main__":
    sys.exit(run_command(main))
