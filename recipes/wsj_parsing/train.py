"""Train a Transformer to parse sentences into constituency trees, and score it by EVALB."""

import pathlib
import sys

import keras

from keras_transformer import losses, metrics, models, optimizers, training
from keras_transformer.command_errors import run_command
from keras_transformer.data import SubwordSampling, find_text, plan_batches, prepare_corpus
from keras_transformer.parsing.tree_tokenizer import TreeTokenizer
from keras_transformer.run_directory import RunDirectory
from recipes.recipe_options import recipe_options
from recipes.wsj_parsing.phrase_swaps import SwappedPhrases
from recipes.wsj_parsing.report import remove_parses, report
from recipes.wsj_parsing.settings import MAY_CHANGE, ParsingSettings
from recipes.wsj_parsing.treebank import TreePairs, make_tokenizers, unknown_labels


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
    with devices.watch(RunDirectory(options.run)):
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
    gold = list(dev_text.trees())
    if state:
        source_tokenizer, tokenizer = run.load_tokenizers(TreeTokenizer)
    else:
        source_tokenizer, tokenizer = make_tokenizers(train_texts, settings)
    sampling = None
    if settings.subword_sampling:
        sampling = SubwordSampling(
            tokenizer,
            source_tokenizer,
            alpha=settings.subword_sampling,
            seed=settings.seed + 1,  # other numbers than batches are shuffled with
        )
    swapped = []
    if settings.phrase_swaps:
        swapped = [SwappedPhrases(train_texts[0], settings.phrase_swaps, settings.seed + 2)]
    *train_corpora, dev_corpus = (
        prepare_corpus(
            text,
            tokenizer,
            run.path.parent / "prepared",
            source_tokenizer=source_tokenizer,
            keep_text=sampling is not None,
        )
        for text in (*train_texts, *swapped, dev_text)
    )
    plan = {
        "batch_tokens": settings.batch_tokens,
        "seed": settings.seed,
        "shapes": settings.shapes(backend),
    }
    train = plan_batches(train_corpora, tokenizer.special_tokens, subword_sampling=sampling, **plan)
    dev = plan_batches(dev_corpus, tokenizer.special_tokens, shuffle=False, **plan)

    # Model
    with devices.scope():
        model = models.build_transformer(**settings.model_options(source_tokenizer, tokenizer))
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
        print(
            f"{sum(map(len, train_corpora)):,} trees to train on, {len(gold):,} to score\n"
            f"{model.count_params():,} parameters, {source_tokenizer.vocabulary_size:,} subwords, "
            f"{tokenizer.vocabulary_size:,} tokens of trees, "
            f"{train.plan.steps_per_epoch:,} steps an epoch, {train.plan.report()}\n"
            f"{devices.description}, {settings.precision}"
        )
        if unknown := unknown_labels(gold, tokenizer):
            print(f"{dev_text.name}: no training tree has {', '.join(unknown)}: never found")

    # Training
    if devices.is_chief and state is None:
        remove_parses(run)
        run.start(
            model=model,
            tokenizer=tokenizer,
            source_tokenizer=source_tokenizer,
            settings=settings.to_dict(),
        )
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
        keep_last=settings.average,
        validation_data=devices.batches(dev),
        validation_steps=dev.plan.steps_per_epoch,
        state=state,
        settings=settings.to_dict(),
        data_fingerprint=f"{train.fingerprint} {dev.fingerprint}",
        devices=devices,
    )
    devices.stop()
    if record.exit_code is not None or not devices.is_chief:
        return record.exit_code
    last = run.whole_checkpoints(run.checkpoints())[-settings.average :]
    training.average_checkpoints(last, run.weights_path)

    # Evaluation
    report(
        run,
        gold,
        settings,
        record=record,
        speed=speed,
        command=options.command,
        training_trees=sum(map(len, train_corpora)),
        averaged_checkpoints=len(last),
    )
    return None


if __name__ == "__main__":
    sys.exit(run_command(main))
