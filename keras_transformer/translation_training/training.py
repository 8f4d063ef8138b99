"""A translation training from top to bottom: text, batches, model, `fit`, average, scores."""

from keras_transformer import training
from keras_transformer.data import fit_batches
from keras_transformer.errors import UserInputError
from keras_transformer.evaluation.bleu import bleu_metric
from keras_transformer.run_directory import RunDirectory
from keras_transformer.translation_training.corpora import length_filter, make_batches
from keras_transformer.translation_training.models import make_model
from keras_transformer.translation_training.scores import write_report
from keras_transformer.translation_training.settings import OF_ORIGIN
from keras_transformer.translation_training.vocabularies import make_tokenizers
from keras_transformer.translator import Translator


def train_translation(
    settings, data, run_directory, *, minutes=None, origin=None, overwrite=False, command=""
):
    """Train a translation model into a run directory, average checkpoints, and score the result.

    Args:
        settings: `TranslationSettings`.
        data: `TranslationData`.
        run_directory: path of the run; tokenized text is kept in `prepared/` beside it.
        minutes: minutes of training after which to end, or None.
        origin: path of a run to start from, with its model and tokenizers, or None.
        overwrite: whether to replace a run that is there.
        command: the command line, for `scores.json`.

    Returns:
        A `training.FitRecord`. Where it says `interrupted`, nothing was averaged or scored.

    Raises:
        UserInputError: text, settings or a run are not fit for it.

    Example:
        >>> from keras_transformer.data import ParallelFiles
        >>> data = TranslationData([ParallelFiles("train.en", "train.de")])  # doctest: +SKIP
        >>> train_translation(  # doctest: +SKIP
        ...     TranslationSettings(preset="small"), data, "runs/en_de", minutes=60
        ... )
    """
    run = RunDirectory.create(run_directory, overwrite=overwrite)
    origin = _open_origin(origin, run, settings)
    bleu_metric(settings.bleu_tokenize)  # an unknown one is refused now, not after the training
    training.make_reproducible(settings.seed, settings.deterministic)

    # Text
    source_tokenizer, tokenizer = make_tokenizers(settings, data.train, origin)
    fits = length_filter(settings, source_tokenizer, tokenizer)
    data = data.with_dev(settings.held_out, settings.seed, fits)
    batches = make_batches(
        settings, data, source_tokenizer, tokenizer, run.path.parent / "prepared"
    )
    plan = batches.train.plan

    # Model
    model = make_model(settings, source_tokenizer, tokenizer, origin)
    print("\n".join(batches.report))
    print(
        f"{model.count_params():,} parameters, {tokenizer.vocabulary_size:,} subwords, "
        f"{plan.steps_per_epoch:,} steps an epoch, {plan.padding_share:.1%} padding"
    )

    # Training
    run.start(
        model=model,
        tokenizer=tokenizer,
        source_tokenizer=None if source_tokenizer is tokenizer else source_tokenizer,
        settings=settings.to_dict(),
        origin=origin and origin.path,
    )
    greedy = Translator(model, tokenizer, source_tokenizer=source_tokenizer, beam_size=1)
    monitor, mode = settings.monitor
    record = training.fit_model(
        model,
        fit_batches(batches.train),
        run=run,
        target_tokens=plan.target_tokens,
        padding_share=plan.padding_share_of,
        steps=settings.steps,
        minutes=minutes,
        save_every=settings.save_every,
        keep_last=settings.average,
        keep_best=settings.average if settings.average_of == "best" else 1,
        validation_data=fit_batches(batches.dev),
        validation_steps=batches.dev.plan.steps_per_epoch,
        validators=_bleu_validation(settings, data, greedy, run),
        monitor=monitor,
        mode=mode,
        patience=settings.patience,
        ema=settings.ema,
        tensorboard=settings.tensorboard,
        log_every=settings.log_every,
    )
    if record.interrupted:
        return record
    averaged = _average(settings, run, model, batches.dev)

    # Evaluation
    translator = Translator.load(run.path, beam_size=settings.beam_size, alpha=settings.alpha)
    write_report(
        run,
        translator,
        data,
        tokenize=settings.bleu_tokenize,
        record=record,
        command=command,
        averaged_checkpoints=averaged,
        **batches.record,
    )
    return record


def _open_origin(origin, run, settings):
    """The run to start from, or None; refuses the one that is replaced, and what it decides."""
    if origin is None:
        return None
    origin = RunDirectory.open(origin)
    for name, value in origin.settings().items():
        if name in OF_ORIGIN and getattr(settings, name) != value:
            raise UserInputError(
                f"A training that starts from {origin.path} has its model and tokenizers: "
                f"`{name}` must be {value!r}. Received: {name}={getattr(settings, name)!r}"
            )
    if origin.path.resolve() == run.path.resolve():
        raise UserInputError(f"A training cannot start from the run it replaces: {run.path}")
    origin.find_weights()
    return origin


def _bleu_validation(settings, data, translator, run):
    """The callback that measures BLEU on the dev text, in a list, or an empty list."""
    if not settings.bleu_every:
        return []
    pairs = [pair for pair in data.dev if pair[0].strip()]
    # Spread over the text, which may be sorted by length.
    step = -(-len(pairs) // settings.bleu_sentences)
    pairs = pairs[::step]
    return [
        training.BleuValidation(
            translator.translate,
            [source for source, _ in pairs],
            [target for _, target in pairs],
            path=run.samples_path,
            every=settings.bleu_every,
            tokenize=settings.bleu_tokenize,
        )
    ]


def _average(settings, run, model, dev):
    """Write the mean of checkpoints as the run's weights; return of how many."""
    paths = run.checkpoints()
    if settings.average_of == "best":
        paths = run.best_checkpoints()[::-1] or paths
    if not settings.choose_average:
        paths = paths[-settings.average :]
        training.average_checkpoints(paths, run.weights_path)
        return len(paths)

    def perplexity(weights):
        training.load_weights(model, weights)
        steps = dev.plan.steps_per_epoch
        values = model.evaluate(fit_batches(dev), steps=steps, verbose=0, return_dict=True)
        return values["perplexity"]

    return training.average_best(paths, run.weights_path, perplexity, settings.average)
