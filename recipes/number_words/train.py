"""Train a small Transformer to translate English number words into German."""

import sys

from keras_transformer import losses, metrics, models, optimizers, training
from keras_transformer.command_errors import INTERRUPTED, run_command
from keras_transformer.data import fit_batches, prepare_batches
from keras_transformer.run_directory import RunDirectory
from keras_transformer.text import SentencePieceTokenizer
from keras_transformer.translator import Translator
from recipes.number_words.number_pairs import split_numbers
from recipes.number_words.report import report
from recipes.number_words.settings import NumberWordsSettings
from recipes.recipe_options import recipe_options


def main(arguments=None):
    """Train, keep the best checkpoint, score it; `arguments` are those of the command line."""
    options, _ = recipe_options(
        "number_words", NumberWordsSettings, __doc__, arguments=arguments, fine_tuning=False
    )
    settings = options.settings
    run = RunDirectory.create(options.run, overwrite=options.overwrite)
    training.make_reproducible(settings.seed, settings.deterministic)

    # Data
    train_pairs, validation_pairs, held_out = split_numbers(settings)
    tokenizer = SentencePieceTokenizer.train(
        train_pairs.sources + train_pairs.targets, vocabulary_size=settings.vocabulary_size
    )
    corpora = run.path.parent / "prepared"
    plan = {"batch_tokens": settings.batch_tokens, "seed": settings.seed}
    train, validation = (
        prepare_batches(pairs.sources, pairs.targets, tokenizer, corpora, **plan)
        for pairs in (train_pairs, validation_pairs)
    )

    # Model
    model = models.build_transformer(
        "tiny", vocabulary_size=tokenizer.vocabulary_size, **settings.model_sizes()
    )
    loss = losses.LabelSmoothingCrossEntropy(settings.label_smoothing)
    model.compile(
        optimizer=optimizers.transformer_adam(
            settings.hidden_dim, settings.warmup_steps, settings.learning_rate_scale
        ),
        loss=loss,
        metrics=[metrics.Perplexity(), metrics.TokenAccuracy()],
        weighted_metrics=[metrics.StepLoss(loss)],
    )

    # Training
    run.start(model=model, tokenizer=tokenizer, settings=settings.to_dict())
    record = training.fit_model(
        model,
        fit_batches(train),
        run=run,
        target_tokens=train.plan.target_tokens,
        steps=settings.steps,
        minutes=options.minutes,
        save_every=settings.save_every,
        validation_data=fit_batches(validation),
        validation_steps=validation.plan.steps_per_epoch,
    )
    if record.interrupted:
        return INTERRUPTED
    training.average_checkpoints([run.best_path], run.weights_path)  # the best one alone

    # Evaluation
    translator = Translator.load(run.path, beam_size=settings.beam_size, alpha=settings.alpha)
    hypotheses = translator.translate(held_out.sources)
    report(run, held_out, hypotheses, record=record, command=options.command)


if __name__ == "__main__":
    sys.exit(run_command(main))
