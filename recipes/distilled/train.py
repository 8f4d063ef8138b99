"""Train a student with a shallow decoder on a teacher's translations, and compare the two."""

import sys
from collections.abc import Sequence

from keras_transformer import losses, training
from keras_transformer.toolkit.cli import run_command
from keras_transformer.translation_training import (
    average_weights,
    begin_training,
    make_batches,
    text_of,
    translation_model,
    write_report,
)
from recipes.distilled.comparison import compare
from recipes.distilled.distilled_text import distilled_data
from recipes.distilled.report import RESULT, TABLE
from recipes.distilled.student_options import student_options
from recipes.distilled.teacher import Teacher, given_search


def main(arguments: Sequence[str] | None = None) -> int | None:
    """Translate, train, score and compare. `arguments` are command-line arguments."""
    options, values = student_options(__doc__, arguments)
    settings = options.settings
    with training.TrainingRun.of(options, results=[RESULT, TABLE]) as run:
        # Text
        original = text_of(values)
        teacher = Teacher.open(values.teacher, given_search(settings.to_dict()))

        # Tokenizer: the teacher's
        source_tokenizer, tokenizer = teacher.tokenizers(settings, original.train, run)

        # Batches: the text as translated by the teacher
        texts = distilled_data(original, teacher, settings, run, values.distilled)
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
            compare(teacher, run.directory, texts.test or texts.dev_text, exports=values.exports)
    return run.exit_code


if __name__ == "__main__":
    sys.exit(run_command(main))
