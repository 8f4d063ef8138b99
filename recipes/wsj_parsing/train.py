"""Train a Transformer to parse sentences into constituency trees, and score it by EVALB."""

import pathlib
import sys

import keras

from keras_transformer import losses, metrics, models, optimizers, training
from keras_transformer.command_line.command_errors import run_command
from keras_transformer.data import find_text
from keras_transformer.runs.run_directory import RunDirectory
from recipes.recipe_options import recipe_options
from recipes.wsj_parsing.report import remove_parses, report
from recipes.wsj_parsing.settings import MAY_CHANGE, ParsingSettings
from recipes.wsj_parsing.tree_data import TreeData
from recipes.wsj_parsing.treebank import TreePairs


def main(arguments=None):
    """Train, average the last checkpoints, score; `arguments` are those of the command line."""
    options, values = recipe_options(
        "wsj_parsing",
        ParsingSettings,
        __doc__,
        arguments=arguments,
        add=add_flags,
        fine_tuning=False,
    )
    train_texts = [TreePairs(find_text(values.data, "train.mrg"))]
    train_texts += [TreePairs(path) for path in values.more_trees]
    dev_text = TreePairs(find_text(values.data, "dev.mrg"))
    devices = training.start_devices(options.settings.replicas)
    with devices.watch(RunDirectory(options.run)), training.hold_run(options.run, devices):
        return train_parser(options, devices, train_texts, dev_text)


def add_flags(parser):
    """Add the recipe's own flags to its parser."""
    parser.add_argument(
        "--data",
        type=pathlib.Path,
        required=True,
        metavar="DIR",
        help="folder with train.mrg and dev.mrg, bracketed trees, .gz or not",
    )
    parser.add_argument(
        "--more-trees",
        type=pathlib.Path,
        nargs="+",
        default=[],
        metavar="FILE",
        help="further trees to train on, such as another parser's: the semi-supervised setting",
    )


def train_parser(options, devices, train_texts, dev_text):
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
    data = TreeData.prepare(train_texts, dev_text, settings, run, begun=state is not None)

    # Model
    with devices.scope():
        model = models.build_transformer(
            **settings.model_options(data.source_tokenizer, data.tokenizer)
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
            weighted_metrics=[
                metrics.StepLoss(loss),
                metrics.StepLoss(losses.LabelSmoothingCrossEntropy(0.0), name="step_nll"),
            ],
            jit_compile=settings.jit_compile(backend),
        )
    speed = training.DeviceSpeed.of(devices, settings.precision, settings.device_tflops)
    if devices.is_chief:
        print(f"{data}\n{model.count_params():,} parameters")
        print(f"{devices.description}, {settings.precision}")

    # Training
    if devices.is_chief and state is None:
        remove_parses(run)
        run.start(
            model=model,
            tokenizer=data.tokenizer,
            source_tokenizer=data.source_tokenizer,
            settings=settings.to_dict(),
        )
    if settings.probe:
        probed = training.probe(trainer, data.train, devices, accumulate)
        if devices.is_chief:
            print(probed)
    record = training.fit_model(
        trainer,
        devices.batches(data.train, state.step if state else 0, accumulate),
        run=run,
        work=training.StepWork.of(data.train.plan, model, speed.total_peak_flops),
        steps=settings.steps,
        minutes=options.minutes,
        save_every=settings.save_every,
        keep_last=settings.average,
        validation_data=devices.batches(data.dev),
        validation_steps=data.dev.plan.steps_per_epoch,
        state=state,
        settings=settings.to_dict(),
        data_fingerprint=f"{data.train.fingerprint} {data.dev.fingerprint}",
        devices=devices,
    )
    devices.stop()
    if record.exit_code is not None or not devices.is_chief:
        return record.exit_code
    last = run.checkpoints.whole(run.checkpoints.paths())[-settings.average :]
    training.average_checkpoints(last, run.weights_path)

    # Evaluation
    report(
        run,
        data.gold,
        settings,
        record=record,
        speed=speed,
        command=options.command,
        training_trees=data.training_trees,
        averaged_checkpoints=len(last),
    )
    return None


if __name__ == "__main__":
    sys.exit(run_command(main))
