"""Train rows of the paper's Table 3 on a parallel corpus, and compare them with the paper."""

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
from recipes.table3.row_result import RESULT, RowRun, check_dev_text, write_result
from recipes.table3.table_runs import read_arguments, train_rows


def main(arguments: Sequence[str] | None = None) -> int | None:
    """Train the unfinished rows. `arguments` are command-line arguments."""
    return train_rows(*read_arguments(arguments, __doc__), train_row)


def train_row(row: RowRun) -> int | None:
    """Train or resume a row and score it. Return the exit code of a signal, or None."""
    settings = row.options.settings
    with training.TrainingRun.of(row.options, results=[RESULT]) as run:
        # Text
        texts = row.read_text()

        # Tokenizer: one for both sides, or one per side, taken from the row that was started first
        source_tokenizer, tokenizer = make_tokenizers(settings, texts.train, run)

        # Batches
        batches = make_batches(settings, texts, source_tokenizer, tokenizer, run)

        # Model
        with run.scope():
            model = translation_model(settings, source_tokenizer, tokenizer, run)
            loss = losses.LabelSmoothingCrossEntropy(**settings.loss_options(tokenizer))
            training_model = settings.compile(model, loss, run.accumulate, tokenizer.special_tokens)

        # Training
        check_dev_text(batches, model)
        begin_training(settings, batches, model, training_model, run)
        training_model.fit(run.batches(batches.train), callbacks=run.callbacks, **run.fit_options)
        if run.is_chief:
            # Average: only one checkpoint, as in the paper's table
            averaged = average_weights(settings, batches.dev, run)

            # Scores
            write_report(settings, batches, run, averaged_checkpoints=averaged)
            write_result(row, texts, run)
    return run.exit_code


if __name__ == "__main__":
    sys.exit(run_command(main))
