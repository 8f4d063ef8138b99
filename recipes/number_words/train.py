"""Train a small Transformer to translate English number words into German."""

import sys
from collections.abc import Sequence

from keras_transformer import Translator, losses, models, training
from keras_transformer.cli import run_command
from keras_transformer.data import prepare_batches
from keras_transformer.text import SentencePieceTokenizer
from recipes.number_words.exported import add_export_argument, check_export, export
from recipes.number_words.number_pairs import split_numbers
from recipes.number_words.report import report
from recipes.number_words.settings import NumberWordsSettings
from recipes.recipe_options import recipe_options


def main(arguments: Sequence[str] | None = None) -> int | None:
    """Train, keep the best checkpoint, score it; `arguments` are those of the command line."""
    options, flags = recipe_options(
        "number_words",
        NumberWordsSettings,
        __doc__,
        arguments=arguments,
        add=add_export_argument,
        fine_tuning=False,
    )
    check_export(flags.export)
    settings = options.settings
    with training.TrainingRun.of(options) as run:
        # Text
        train_pairs, dev_pairs, held_out = split_numbers(settings)

        # Tokenizer
        tokenizer = SentencePieceTokenizer.train(
            train_pairs.sources + train_pairs.targets, vocabulary_size=settings.vocabulary_size
        )

        # Batches
        plan = settings.plan_options()
        train, dev = (
            prepare_batches(pairs.sources, pairs.targets, tokenizer, run.prepared_path, **plan)
            for pairs in (train_pairs, dev_pairs)
        )

        # Model
        with run.scope():
            model = run.earlier_model(**settings.dropout_rates()) or models.build_transformer(
                settings.preset,
                vocabulary_size=tokenizer.vocabulary_size,
                **settings.model_options(),
            )
            loss = losses.LabelSmoothingCrossEntropy(settings.label_smoothing, reduction="sum")
            training_model = settings.compile(model, loss, run.accumulate, tokenizer.special_tokens)

        # Training
        run.begin(training_model, train, dev, tokenizer=tokenizer)
        training_model.fit(run.batches(train), callbacks=run.callbacks, **run.fit_options)
        if run.is_chief:
            # Average: none, as the best checkpoint of so short a training is better
            run.directory.publish()

            # Scores
            translator = Translator.load(run.directory.path, **settings.search_options())
            report(run, held_out, translator.translate(held_out.sources))
            if flags.export is not None:
                export(translator, flags.export, held_out)
    return run.exit_code


if __name__ == "__main__":
    sys.exit(run_command(main))
