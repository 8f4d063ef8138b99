"""A translation training from top to bottom: text, batches, model, `fit`, average, scores."""

from keras_transformer import losses, metrics, models, optimizers, training
from keras_transformer.command_line.training_options import TrainingOptions
from keras_transformer.translation_training.bleu_validation import bleu_validators
from keras_transformer.translation_training.final_weights import average_weights
from keras_transformer.translation_training.scores import write_report
from keras_transformer.translation_training.training_batches import make_batches
from keras_transformer.translation_training.vocabularies import make_tokenizers


def train_translation(
    settings,
    data,
    run_directory,
    *,
    minutes=None,
    origin=None,
    overwrite=False,
    resume=False,
    command="",
):
    """Train a translation model into a run directory, average checkpoints, and score the result.

    With several machines every one of them calls this; the first alone writes and scores.

    Args:
        settings: `TranslationSettings`.
        data: `TranslationData`.
        run_directory: path of the run; tokenized text is kept in `prepared/` beside it.
        minutes: minutes of training after which to end, or None.
        origin: path of a run to start from, with its model and tokenizers, or None.
        overwrite: whether to replace a run that is there.
        resume: whether to go on with a run that is there.
        command: the command line, for `scores.json`.

    Returns:
        A `training.FitRecord`. Where it has an `exit_code`, the training was told to stop, and
        nothing was averaged or scored.

    Raises:
        UserInputError: text, settings or a run are not fit for it, memory or disk do not suffice,
            or another machine has gone.

    Example:

    ```python
    data = TranslationData([ParallelFiles("train.en", "train.de")])
    train_translation(TranslationSettings(preset="small"), data, "runs/en_de", minutes=60)
    ```
    """
    options = TrainingOptions(
        settings=settings,
        run=run_directory,
        overwrite=overwrite,
        resume=resume,
        minutes=minutes,
        origin=origin,
        command=command,
    )
    with training.TrainingRun.of(options) as run:
        # Tokenizer: one for both sides, or one for each
        source_tokenizer, tokenizer = make_tokenizers(settings, data.train, run)

        # Batches
        batches = make_batches(settings, data, source_tokenizer, tokenizer, run)

        # Model
        with run.scope():
            model = run.earlier_model(**settings.dropout_rates()) or models.build_transformer(
                settings.preset,
                **models.vocabulary_options(source_tokenizer, tokenizer),
                **settings.model_options(source_tokenizer, tokenizer),
            )
            training.freeze(model, settings.frozen_layers())
            trainer = training.training_model(model, run.accumulate)
            loss = losses.LabelSmoothingCrossEntropy(
                settings.label_smoothing, tokenizer.special_tokens.pad, tokenizer.vocabulary_size
            )
            stacks = models.TransformerStacks.of(model)
            trainer.compile(
                optimizers.transformer_adam(
                    stacks.hidden_dim, dtype=stacks.compute_dtype, **settings.optimizer_options()
                ),
                loss,
                **metrics.training_metrics(loss),
                jit_compile=settings.jit_compile(),
            )

        # Training
        run.say(*batches.report)
        run.begin(
            trainer,
            batches.train,
            batches.dev,
            tokenizer=tokenizer,
            source_tokenizer=source_tokenizer,
            validators=bleu_validators(settings, batches, model, run),
        )
        trainer.fit(run.batches(batches.train), callbacks=run.callbacks, **run.fit_options)
        if run.is_chief:
            # Average
            averaged = average_weights(settings, batches.dev, run)

            # Scores
            write_report(settings, batches, run, averaged_checkpoints=averaged)
    return run.record
