"""Train rows of the paper's Table 3 on a parallel corpus, and set them beside the paper's."""

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
from recipes.table3.row_result import RESULT, check_dev_text, write_result
from recipes.table3.table_runs import RowRun, read_arguments, train_rows


def main(arguments: Sequence[str] | None = None) -> int | None:
    """Train the rows that have not finished; `arguments` are those of the command line."""
    return train_rows(*read_arguments(arguments, __doc__), train_row)


def train_row(row: RowRun) -> int | None:
    """Train and score a row, or go on with it; returns the exit code of a signal, else None."""
    settings = row.options.settings
    with training.TrainingRun.of(row.options, results=[RESULT]) as run:
        # Text
        texts = row.read_text()

        # Tokenizer: one for both sides, or one for each; those of the row that was begun first
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
        check_dev_text(batches, model)
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
            # Average: of one checkpoint, as in the paper's table
            averaged = average_weights(settings, batches.dev, run)

            # Scores
            write_report(settings, batches, run, averaged_checkpoints=averaged)
            write_result(row, texts, run)
    return run.exit_code


if __name__ == "__main__":
    sys.exit(run_command(main))
