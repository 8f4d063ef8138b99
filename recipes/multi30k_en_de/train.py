"""Train a Transformer on Multi30k captions, English into German, and score it on the test set."""

import sys

from keras_transformer import losses, metrics, models, optimizers, training
from keras_transformer.command_errors import INTERRUPTED, run_command
from keras_transformer.data import find_text, fit_batches, prepare_batches, read_parallel_text
from keras_transformer.run_directory import RunDirectory, write_text
from keras_transformer.text import SentencePieceTokenizer
from keras_transformer.translator import Translator
from recipes.multi30k_en_de.settings import Multi30kSettings
from recipes.recipe_options import recipe_options
from recipes.run_scores import write_scores

SIDES = ("en", "de")
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
    training.make_reproducible(settings.seed, deterministic=settings.deterministic)

    # Data
    train_text, validation_text, test_text = (
        read_parallel_text(*(find_text(options.paths["data"], f"{part}.{side}") for side in SIDES))
        for part in ("train", "val", "test_2016_flickr")
    )
    tokenizer = (
        SentencePieceTokenizer.load(settings.tokenizer)
        if settings.tokenizer
        else SentencePieceTokenizer.train(
            train_text[0] + train_text[1],
            vocabulary_size=settings.vocabulary_size,
            byte_fallback=settings.byte_fallback,
        )
    )
    corpora = run.path.parent / "prepared"
    plan = {"batch_tokens": settings.batch_tokens, "seed": settings.seed}
    train = prepare_batches(*train_text, tokenizer, corpora, **plan)
    validation = prepare_batches(*validation_text, tokenizer, corpora, **plan)
    print(
        f"{len(train.corpus):,} training pairs, {train.plan.steps_per_epoch} steps an epoch, "
        f"{train.plan.padding_share:.1%} of the tokens are padding"
    )

    # Model
    padding_id = tokenizer.special_tokens.pad
    model = models.build_transformer(
        settings.preset,
        vocabulary_size=tokenizer.vocabulary_size,
        dropout=settings.dropout,
        normalize_first=settings.normalize_first,
        padding_id=padding_id,
        dtype=settings.precision,
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
    training.average_checkpoints(run.checkpoints(), run.weights_path)

    # Evaluation
    translator = Translator.load(run.path, beam_size=settings.beam_size, alpha=settings.alpha)
    hypotheses = translator.translate(test_text[0], progress=sys.stderr.isatty())
    write_text(run.samples_path, "\n".join(hypotheses) + "\n")
    scores = write_scores(
        run,
        hypotheses,
        test_text[1],
        record=record,
        command=options.command,
        tokenize=settings.bleu_tokenize,
    )
    for source, hypothesis in list(zip(test_text[0], hypotheses, strict=True))[:5]:
        print(f"{source}\n  {hypothesis}")
    print(f"test_2016_flickr: BLEU {scores['bleu']:.2f}  {scores['signature']}")
    print(run.path)


if __name__ == "__main__":
    sys.exit(run_command(main))
