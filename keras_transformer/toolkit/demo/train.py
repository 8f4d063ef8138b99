"""The complete demo: numbers, batches, model, `fit`, scores and export."""

from keras_transformer import losses, models, training
from keras_transformer.data import prepare_batches
from keras_transformer.inference.translator import Translator
from keras_transformer.text import SentencePieceTokenizer
from keras_transformer.toolkit.demo.number_pairs import (
    ALWAYS_TRAINED,
    LANGUAGES,
    NumberPairs,
    NumberWordsSettings,
    split_numbers,
)
from keras_transformer.toolkit.demo.report import TRY, check_export, export, report
from keras_transformer.training.translation.training import program_name, say_next_steps


def train_number_words(
    call: training.TrainingCommand[NumberWordsSettings], saved_model: str | None = None
) -> int | None:
    """Train, keep the best checkpoint, score it on held-out numbers, and suggest next steps.

    Args:
        call: settings and run directory.
        saved_model: output directory for a SavedModel of the result.

    Returns:
        The exit code if a signal stopped training.

    Raises:
        UserInputError: settings or paths are invalid.
    """
    check_export(saved_model)
    settings = call.settings
    with training.TrainingRun.of(call) as run:
        # Text
        train_pairs, dev_pairs, held_out = split_numbers(settings)
        train_pairs = train_pairs.as_typed(settings.seed)

        # Tokenizer: each number word is a piece, and "Twenty" is mapped to "twenty"
        words = NumberPairs.of(sorted(ALWAYS_TRAINED))
        tokenizer = SentencePieceTokenizer.train(
            train_pairs.sources + train_pairs.targets + 2000 * (words.sources + words.targets),
            vocabulary_size=settings.vocabulary_size,
            normalization="nmt_nfkc_cf",
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
            # Average: none, because the best checkpoint is better after such a short training run
            run.directory.update_record(**LANGUAGES)
            run.directory.publish()

            # Scores
            translator = Translator.load(run.directory.path, **settings.search_options())
            report(run, translator, dev_pairs, held_out)
            if saved_model is not None:
                export(translator, saved_model, held_out)
            own = f"Your own text: {program_name()} train --help"
            say_next_steps(run.directory.path, TRY, "", own)
    return run.exit_code
