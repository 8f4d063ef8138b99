"""Train a Transformer on Multi30k captions, English into German, and score it on the test set."""

import sys

from keras_transformer import losses, metrics, models, optimizers, training
from keras_transformer.command_errors import INTERRUPTED, run_command
from keras_transformer.data import fit_batches, prepare_batches
from keras_transformer.run_directory import RunDirectory
from keras_transformer.translator import Translator
from recipes.multi30k_en_de.captions import load_or_train_tokenizer, read_captions
from recipes.multi30k_en_de.report import report
from recipes.multi30k_en_de.settings import Multi30kSettings
from recipes.recipe_options import recipe_options

DATA_HELP = "folder with train, val and test_2016_flickr, each as .en and .de, .gz or not"


def main(arguments=None):
    """Train, average the last checkpoints, score; `arguments` are those of the command line."""
    options = recipe_options(
        "multi30k_en_de",
        Multi30kSettings,
        __doc__,
        paths={"data": DATA_HELP},
        arguments=arguments,
    )
    settings = options.settings
    run = RunDirectory.create(options.run, overwrite=options.overwrite)
    training.make_reproducible(settings.seed, settings.deterministic)

    # Data
    train_text, validation_text, test_text = read_captions(options.paths["data"])
    tokenizer = load_or_train_tokenizer(settings, *train_text)
    corpora = run.path.parent / "prepared"
    plan = {"batch_tokens": settings.batch_tokens, "seed": settings.seed}
    train = prepare_batches(*train_text, tokenizer, corpora, **plan)
    validation = prepare_batches(*validation_text, tokenizer, corpora, **plan, shuffle=False)
    print(
        f"{len(train.corpus):,} pairs, {train.plan.steps_per_epoch} steps an epoch, "
        f"{train.plan.padding_share:.1%} padding"
    )

    # Model
    padding_id = tokenizer.special_tokens.pad
    model = models.build_transformer(
        settings.preset,
        vocabulary_size=tokenizer.vocabulary_size,
        padding_id=padding_id,
        **settings.model_options(),
    )
    loss = losses.LabelSmoothingCrossEntropy(settings.label_smoothing, padding_id)
    model.compile(
        optimizer=optimizers.transformer_adam(
            models.PRESETS[settings.preset].hidden_dim,
            settings.warmup_steps,
            settings.learning_rate_scale,
        ),
        loss=loss,
        metrics=[
            metrics.TokenLoss(loss, padding_id),
            metrics.Perplexity(padding_id),
            metrics.TokenAccuracy(padding_id),
        ],
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
        keep_last=settings.average,
        validation_data=fit_batches(validation),
        validation_steps=validation.plan.steps_per_epoch,
        log_every=settings.log_every,
    )
    if record.interrupted:
        return INTERRUPTED

    def validation_perplexity(weights):
        training.load_weights(model, weights)
        steps = validation.plan.steps_per_epoch
        return model.evaluate(fit_batches(validation), steps=steps, verbose=0, return_dict=True)[
            "perplexity"
        ]

    averaged = training.average_best(
        run.checkpoints(), run.weights_path, validation_perplexity, settings.average
    )

    # Evaluation
    translator = Translator.load(run.path, beam_size=settings.beam_size, alpha=settings.alpha)
    report(run, translator, test_text, record, options, averaged_checkpoints=averaged)


if __name__ == "__main__":
    sys.exit(run_command(main))
