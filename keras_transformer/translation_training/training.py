"""A translation training from top to bottom: text, batches, model, `fit`, average, scores."""

from keras_transformer import training
from keras_transformer.errors import UserInputError
from keras_transformer.evaluation.bleu import bleu_metric
from keras_transformer.inference.translator import Translator
from keras_transformer.runs.run_directory import RunDirectory
from keras_transformer.translation_training.final_weights import average_weights
from keras_transformer.translation_training.models import (
    check_memory,
    compile_model,
    make_model,
    resume_model,
)
from keras_transformer.translation_training.scores import write_report
from keras_transformer.translation_training.settings import MAY_CHANGE, OF_ORIGIN
from keras_transformer.translation_training.training_batches import length_filter, make_batches
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
        >>> from keras_transformer.data import ParallelFiles
        >>> data = TranslationData([ParallelFiles("train.en", "train.de")])  # doctest: +SKIP
        >>> train_translation(  # doctest: +SKIP
        ...     TranslationSettings(preset="small"), data, "runs/en_de", minutes=60
        ... )
    """
    devices = training.start_devices(settings.replicas)
    with devices.watch(RunDirectory(run_directory)), training.hold_run(run_directory, devices):
        return _train(
            settings,
            data,
            run_directory,
            devices,
            minutes=minutes,
            origin=origin,
            overwrite=overwrite,
            resume=resume,
            command=command,
        )


def _train(settings, data, run_directory, devices, *, minutes, origin, overwrite, resume, command):
    accumulate = settings.micro_batches(devices.replicas)
    parts = devices.replicas * accumulate
    run, state = training.open_run(
        run_directory,
        devices,
        settings=settings.to_dict(),
        may_change=MAY_CHANGE,
        overwrite=overwrite,
        resume=resume,
    )
    origin = _origin_of(run, state, origin, resume, settings)
    bleu_metric(settings.bleu_tokenize)  # an unknown one is refused now, not after the training
    training.make_reproducible(settings.seed, settings.deterministic)
    if origin is None and state is None:
        check_memory(settings, devices)

    # Text
    source_tokenizer, tokenizer = make_tokenizers(settings, data.train, run if state else origin)
    fits = length_filter(settings, source_tokenizer, tokenizer)
    data = data.with_dev(settings.held_out, settings.seed, fits)
    batches = make_batches(
        settings, data, source_tokenizer, tokenizer, run.path.parent / "prepared", parts
    )
    plan = batches.train.plan
    if state:
        training.check_same_data(state, batches.fingerprint)

    # Model
    with devices.scope():
        if state:
            model = resume_model(settings, run)
        else:
            model = make_model(settings, source_tokenizer, tokenizer, origin)
        trainer = compile_model(model, settings, tokenizer, accumulate)
    speed = training.DeviceSpeed.of(devices, settings.precision, settings.device_tflops)
    if devices.is_chief:
        print("\n".join(batches.report))
        print(
            f"{model.count_params():,} parameters, {tokenizer.vocabulary_size:,} subwords, "
            f"{plan.steps_per_epoch:,} steps an epoch, {plan.report()}"
        )
        slices = f", a step in {parts} parts" if parts > 1 else ""
        print(f"{devices.description}, {settings.precision}{slices}")

    # Training
    if devices.is_chief and not state:
        run.start(
            model=model,
            tokenizer=tokenizer,
            source_tokenizer=None if source_tokenizer is tokenizer else source_tokenizer,
            settings=settings.to_dict(),
            origin=origin and origin.path,
        )
    if settings.probe:
        probed = training.probe(trainer, batches.train, devices, accumulate)
        if devices.is_chief:
            print(probed)
    greedy = Translator(
        model,
        tokenizer,
        source_tokenizer=source_tokenizer,
        beam_size=1,
        long_sentences="cut",  # a validation set is no reason to end a training
    )
    monitor, mode = settings.monitor
    record = training.fit_model(
        trainer,
        devices.batches(batches.train, state.step if state else 0, accumulate),
        run=run,
        work=training.StepWork.of(plan, model, speed.total_peak_flops),
        steps=settings.steps,
        minutes=minutes,
        save_every=settings.save_every,
        keep_last=settings.average,
        keep_best=settings.average if settings.average_of == "best" else 1,
        validation_data=devices.batches(batches.dev),
        validation_steps=batches.dev.plan.steps_per_epoch,
        validators=_bleu_validation(settings, data, greedy, run if devices.is_chief else None),
        monitor=monitor,
        mode=mode,
        patience=settings.patience,
        ema=settings.ema,
        tensorboard=settings.tensorboard,
        log_every=settings.log_every,
        state=state,
        settings=settings.to_dict(),
        data_fingerprint=batches.fingerprint,
        devices=devices,
    )
    devices.stop()
    if record.exit_code is not None or not devices.is_chief:
        return record

    # Evaluation
    averaged = average_weights(settings, run, tokenizer, batches.dev)
    translator = Translator.load(
        run.path, beam_size=settings.beam_size, alpha=settings.alpha, long_sentences="cut"
    )
    write_report(
        run,
        translator,
        data,
        tokenize=settings.bleu_tokenize,
        record=record,
        speed=speed,
        command=command,
        averaged_checkpoints=averaged,
        **batches.record,
    )
    return record


def _origin_of(run, state, origin, resume, settings):
    """The run to start from, or None; refuses the one that is replaced, and what it decides."""
    earlier = run.record().origin if run.is_run() else None
    if state:
        if origin is not None and str(origin) != earlier:
            raise UserInputError(
                f"The run {run.path} started from {earlier or 'no other run'}. It cannot go on "
                f"--from {origin}: leave that away."
            )
        return None
    if resume and origin is None:
        origin = earlier  # a run that was broken off before its first checkpoint begins as it did
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
    """The callback that measures BLEU on the dev text, in a list, or an empty list.

    Every process has to translate; one without a `run` writes nothing.
    """
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
            path=run and run.samples_path,
            every=settings.bleu_every,
            tokenize=settings.bleu_tokenize,
        )
    ]
