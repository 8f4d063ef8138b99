"""Train a student with a shallow decoder on a teacher's translations, and compare the two."""

import sys
from argparse import Namespace
from collections.abc import Sequence

from keras_transformer import losses
from keras_transformer.toolkit.cli import run_command
from keras_transformer.training import TrainingRun
from keras_transformer.translation_training import (
    average_weights,
    begin_training,
    make_batches,
    make_tokenizers,
    text_of,
    translation_model,
    write_report,
)
from recipes.distilled.comparison import compare
from recipes.distilled.distilled_text import Translations, distilled_data
from recipes.distilled.report import RESULT, TABLE
from recipes.distilled.student_options import Options, int8_options, student_options


def main(arguments: Sequence[str] | None = None) -> int | None:
    """Translate, train, score and compare. `arguments` are command-line arguments."""
    options, values = student_options(__doc__, arguments)

    # The student, and a run that continues it with matrices rounded to int8
    run = _train(options, values)
    students = [run.directory]
    if options.settings.int8_steps and not run.exit_code:
        run = _train(int8_options(options), values)
        students += [run.directory]

    # Comparison
    if run.is_chief and not run.exit_code:
        original = text_of(values)
        text = original.test or original.dev_text
        teacher = Translations.of(values, options.settings).teacher
        compare(teacher, students, text, exports=values.exports)
    return run.exit_code


def _train(options: Options, values: Namespace) -> TrainingRun:
    settings = options.settings
    with TrainingRun.of(options, results=[RESULT, TABLE]) as run:
        # Text
        original, translations = text_of(values), Translations.of(values, settings)

        # Tokenizer: the teacher's
        source_tokenizer, tokenizer = make_tokenizers(settings, original.train, run)
        translations.check_tokenizers(source_tokenizer, tokenizer)

        # Batches: the text as translated by the teacher
        texts = distilled_data(original, translations, settings, run)
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
    return run


if __name__ == "__main__":
    sys.exit(run_command(main))
