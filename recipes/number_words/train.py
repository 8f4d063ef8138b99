"""Train a small Transformer to translate English number words into German."""

import sys

import keras

from keras_transformer import losses, metrics, models, optimizers, training
from keras_transformer.command_line.command_errors import run_command
from keras_transformer.data import prepare_batches
from keras_transformer.inference.translator import Translator
from keras_transformer.runs.run_directory import RunDirectory
from keras_transformer.text import SentencePieceTokenizer
from recipes.number_words.exported import check_export, export
from recipes.number_words.number_pairs import split_numbers
from recipes.number_words.report import report
from recipes.number_words.settings import MAY_CHANGE, NumberWordsSettings
from recipes.recipe_options import recipe_options


def main(arguments=None):
    """Train, keep the best checkpoint, score it; `arguments` are those of the command line."""
    options, flags = recipe_options(
        "number_words",
        NumberWordsSettings,
        __doc__,
        arguments=arguments,
        add=add_flags,
        fine_tuning=False,
    )
    check_export(flags.export)
    devices = training.start_devices(options.settings.replicas)
    with devices.watch(RunDirectory(options.run)), training.hold_run(options.run, devices):
        return train_numbers(options, devices, flags.export)


def add_flags(parser):
    """Add the recipe's own flags to its parser."""
    parser.add_argument(
        "--export",
        metavar="DIRECTORY",
        help="export the result there at the end, as a SavedModel, and translate through it",
    )


def train_numbers(options, devices, export_directory):
    """Train as the options say, on these devices; return the exit code of the program."""
    settings = options.settings
    accumulate = settings.micro_batches(devices.replicas)
    backend = keras.backend.backend()
    run, state = training.open_run(
        options.run,
        devices,
        settings=settings.to_dict(),
        may_change=MAY_CHANGE,
        overwrite=options.overwrite,
        resume=options.resume,
    )
    training.make_reproducible(settings.seed, settings.deterministic)

    # Data
    train_pairs, validation_pairs, held_out = split_numbers(settings)
    tokenizer = SentencePieceTokenizer.train(
        train_pairs.sources + train_pairs.targets, vocabulary_size=settings.vocabulary_size
    )
    corpora = run.path.parent / "prepared"
    plan = {
        "batch_tokens": settings.batch_tokens,
        "seed": settings.seed,
        "shapes": settings.shapes(backend),
    }
    train, validation = (
        prepare_batches(pairs.sources, pairs.targets, tokenizer, corpora, **plan)
        for pairs in (train_pairs, validation_pairs)
    )

    # Model
    with devices.scope():
        model = models.build_transformer(
            "tiny", vocabulary_size=tokenizer.vocabulary_size, **settings.model_options()
        )
        loss = losses.LabelSmoothingCrossEntropy(settings.label_smoothing)
        trainer = training.training_model(model, accumulate)
        trainer.compile(
            optimizer=optimizers.transformer_adam(
                settings.hidden_dim,
                settings.warmup_steps,
                settings.learning_rate_scale,
                dtype=settings.precision,
            ),
            loss=loss,
            metrics=[metrics.Perplexity(), metrics.TokenAccuracy()],
            weighted_metrics=[metrics.StepLoss(loss)],
            jit_compile=settings.jit_compile(backend),
        )
    speed = training.DeviceSpeed.of(devices, settings.precision, settings.device_tflops)

    # Training
    if devices.is_chief and state is None:
        run.start(model=model, tokenizer=tokenizer, settings=settings.to_dict())
    if settings.probe:
        probed = training.probe(trainer, train, devices, accumulate)
        if devices.is_chief:
            print(probed)
    record = training.fit_model(
        trainer,
        devices.batches(train, state.step if state else 0, accumulate),
        run=run,
        work=training.StepWork.of(train.plan, model, speed.total_peak_flops),
        steps=settings.steps,
        minutes=options.minutes,
        save_every=settings.save_every,
        validation_data=devices.batches(validation),
        validation_steps=validation.plan.steps_per_epoch,
        state=state,
        settings=settings.to_dict(),
        data_fingerprint=train.fingerprint,
        devices=devices,
    )
    devices.stop()
    if record.exit_code is not None or not devices.is_chief:
        return record.exit_code
    run.publish(run.checkpoints.best_path)

    # Evaluation
    translator = Translator.load(run.path, beam_size=settings.beam_size, alpha=settings.alpha)
    hypotheses = translator.translate(held_out.sources)
    report(run, held_out, hypotheses, record=record, speed=speed, command=options.command)

    # Export
    if export_directory is not None:
        export(translator, export_directory, held_out)
    return None


if __name__ == "__main__":
    sys.exit(run_command(main))
