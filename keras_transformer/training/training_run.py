"""A training in a run directory: what `fit` needs to end, to log, to save and to go on."""

import contextlib
import dataclasses
import os
from collections.abc import Callable

import keras

from keras_transformer.argument_checks import (
    check_one_of,
    check_positive_int,
    check_positive_number,
)
from keras_transformer.data import BatchReader
from keras_transformer.runs.run_directory import RunDirectory
from keras_transformer.runs.run_lock import run_lock
from keras_transformer.training.cost.device_speed import DeviceSpeed
from keras_transformer.training.cost.step_work import StepWork
from keras_transformer.training.determinism import make_reproducible
from keras_transformer.training.devices.device_start import start_devices
from keras_transformer.training.devices.devices import Devices
from keras_transformer.training.fit_callbacks import FitCallbacks
from keras_transformer.training.positions_check import check_positions
from keras_transformer.training.probe import probe
from keras_transformer.training.states.rewind import rewind
from keras_transformer.training.states.run_opening import open_origin, open_run
from keras_transformer.training.states.training_state import check_same_data
from keras_transformer.training.validation_batches import fixed_batches


@dataclasses.dataclass(eq=False)
class TrainingRun:
    """One training in a run directory: a context, in which a script of one's own calls `fit`.

    Every `save_every` updates are one epoch to Keras: then the model is validated and saved. It is
    at the end as well. After Ctrl-C, SIGTERM and SIGHUP it is saved, not validated. With the
    weights goes a state: weights, dropout seeds, the optimizer, what was best so far. A training
    that ends at any moment, also by a kill within a save, goes on from the last one as if there
    had been no break. No other training can have the directory meanwhile. Of several processes the
    chief alone writes files and shows progress.

    Args:
        directory: path of the run directory.
        steps: updates after which to end, or None.
        minutes: minutes after which to end, over the training's whole life, or None. At least one
            of the two limits is needed.
        save_every: updates between two validations and checkpoints.
        keep_last: how many of the last checkpoints to keep.
        keep_best: how many of the best checkpoints to keep besides.
        monitor: the value by which a checkpoint is best.
        mode: "min" or "max", which values of `monitor` are better.
        patience: validations in a row without a better value after which to end, or None.
        tensorboard: whether to write event files into the run directory.
        log_every: updates between two rows of metrics.csv.
        show_progress: whether to show the progress bar, and lines on model and devices.
        resume: whether to go on with a run in the directory; without one it begins.
        overwrite: whether to replace a run in the directory.
        origin: path of a run to start from, or None.
        settings: the training's settings, a JSON-compatible dictionary. A training that goes on
            must have the same.
        may_change: names of settings that it may have otherwise.
        check_origin: function that gets the `RunDirectory` of `origin`, and may refuse it, or None.
        seed: of the weights and the dropout.
        deterministic: whether the losses of two trainings must be equal to the last bit.
        replicas: devices of each machine, see `start_devices`; None: every GPU, or the CPU as one.
        devices: the `Devices`, where they have been started already.
        accumulate: slices of a batch that each device works off one after the other; or a function
            from the number of devices of all machines to that.
        device_tflops: TFLOP/s of one device, None: those of known devices.
        probe: whether to try the largest batch first.
        command: the command line that started it, for records of what was done.

    The arguments are attributes. Entered, `directory` and `origin` are `RunDirectory`s, `devices`
    are there and `accumulate` is a number; `state` is the `TrainingState` that the training goes on
    from, or None. Begun, `speed` is the `DeviceSpeed` of the devices.

    Raises:
        ValueError: no limit is given, or an argument breaks its rule.
        UserInputError: on entering: the directory holds something else, or a run and neither
            `resume` nor `overwrite` is given; another training has it; its settings are others.
        TrainingDiverged: in `fit`: the loss or a weight is no finite number.
        CannotWrite: in `fit`: the disk is full, or another error of the operating system.

    Example:

    ```python
    with TrainingRun("runs/first", steps=10_000, resume=True) as run:
        with run.scope():
            model = build_transformer("tiny", vocabulary_size=8000)
            trainer = training_model(model)
            trainer.compile(optimizer, loss, weighted_metrics=[metrics.StepLoss(loss)])
        run.begin(trainer, train, dev, tokenizer=tokenizer)
        trainer.fit(run.batches(train), callbacks=run.callbacks, **run.fit_options)
    print(run.record)
    ```
    """

    directory: str | os.PathLike
    _: dataclasses.KW_ONLY
    steps: int | None = None
    minutes: float | None = None
    save_every: int = 1000
    keep_last: int = 5
    keep_best: int = 1
    monitor: str = "val_perplexity"
    mode: str = "min"
    patience: int | None = None
    tensorboard: bool = True
    log_every: int = 50
    show_progress: bool = True
    resume: bool = False
    overwrite: bool = False
    origin: str | os.PathLike | None = None
    check_origin: Callable | None = None
    settings: dict = dataclasses.field(default_factory=dict)
    may_change: tuple = ()
    seed: int = 1
    deterministic: bool = False
    replicas: int | None = None
    devices: Devices | None = None
    accumulate: int | Callable = 1
    device_tflops: float | None = None
    probe: bool = True
    command: str = ""

    def __post_init__(self):
        if self.steps is None and self.minutes is None:
            raise ValueError("One of `steps` and `minutes` must be given. Received: None for both")
        for name in ("steps", "save_every", "keep_last", "keep_best", "patience", "log_every"):
            if getattr(self, name) is not None or name not in ("steps", "patience"):
                check_positive_int(name, getattr(self, name))
        if self.minutes is not None:
            check_positive_number("minutes", self.minutes)
        check_one_of("mode", self.mode, ("min", "max"))
        self.state = self.speed = self._train = self._fit = self._validation = None

    @classmethod
    def of(cls, options, **arguments):
        """The training that a command's options describe; settings have the arguments' own names.

        Args:
            options: `command_line.TrainingOptions`.
            **arguments: further arguments of `TrainingRun`.
        """
        settings = options.settings
        names = [field.name for field in dataclasses.fields(cls)]
        of_settings = {name: getattr(settings, name) for name in names if hasattr(settings, name)}
        return cls(
            options.run,
            minutes=options.minutes,
            resume=options.resume,
            overwrite=options.overwrite,
            origin=options.origin,
            settings=settings.to_dict(),
            command=options.command,
            **{**of_settings, "accumulate": settings.micro_batches, **arguments},
        )

    def __enter__(self):
        with contextlib.ExitStack() as contexts:
            self.devices = self.devices or start_devices(self.replicas)
            path = self.directory
            contexts.enter_context(self.devices.watch(RunDirectory(path)))
            if self.is_chief:
                contexts.enter_context(run_lock(path))
            self.directory, self.state = open_run(
                path,
                self.devices,
                settings=self.settings,
                may_change=self.may_change,
                overwrite=self.overwrite,
                resume=self.resume,
            )
            self.origin = open_origin(self.origin, self.directory, self.state, self.resume)
            if self.origin and self.check_origin:
                self.check_origin(self.origin)
            if callable(self.accumulate):
                self.accumulate = self.accumulate(self.devices.replicas)
            make_reproducible(self.seed, self.deterministic)
            self._contexts = contexts.pop_all()
        return self

    def __exit__(self, exception_type, exception, traceback):
        return self._contexts.__exit__(exception_type, exception, traceback)

    @property
    def is_chief(self):
        """Whether this process writes the files and goes on after `fit`."""
        return self.devices.is_chief

    @property
    def step(self):
        """Updates done before the training goes on here."""
        return self.state.step if self.state else 0

    @property
    def prepared_path(self):
        """The folder beside the run directory where tokenized text is kept for other runs too."""
        return self.directory.path.parent / "prepared"

    @property
    def record(self):
        """What the training did, a `FitRecord`; None before its end."""
        return self._fit and self._fit.record

    @property
    def exit_code(self):
        """The exit code of a program that ends with the training: None, or that of a signal."""
        return self.record and self.record.exit_code

    @property
    def earlier(self):
        """The `RunDirectory` whose model and tokenizers the training takes over, or None."""
        return self.directory if self.state else self.origin

    def earlier_model(self, **options):
        """The model that the training takes over: that of the run it goes on with, or starts from.

        Args:
            **options: rates of dropout, as of `RunDirectory.load_model`.

        Returns:
            A functional `keras.Model`, or None where the training needs a new one. The state of a
            training that goes on brings the weights, see `begin`.
        """
        if self.state:
            return self.directory.load_architecture(**options)
        return self.origin and self.origin.load_model(**options)

    def scope(self):
        """Return the context in which the model is built and compiled."""
        return self.devices.scope()

    def say(self, *lines):
        """Print lines, in the chief."""
        if self.is_chief and self.show_progress:
            print(*lines, sep="\n", flush=True)

    def begin(
        self,
        model,
        train=None,
        validation=None,
        *,
        tokenizer,
        source_tokenizer=None,
        validation_steps=None,
        validators=(),
        callbacks=(),
        work=None,
        data_fingerprint=None,
    ):
        """Write what is known before the training, or make model and run what they were.

        Args:
            model: a `keras.Model` compiled with `metrics.StepLoss` among its weighted metrics. A
                second one, of a loss without smoothing and named "step_nll", adds that to the logs.
                With `use_ema=True` in the optimizer, the average is validated and saved; the
                training goes on from the weights themselves.
            train: `data.BatchReader` of the training text; None for data of one's own.
            validation: `BatchReader` of the dev text, or `validation_data` as of `fit`, or None.
            tokenizer: that of the target, which goes into the run directory.
            source_tokenizer: that of the source, where it has a vocabulary of its own.
            validation_steps: as of `fit`, for data of one's own.
            validators: callbacks that add values to the logs of an epoch, such as `BleuValidation`.
            callbacks: further callbacks, called after those that save the weights.
            work: the `StepWork` of data of one's own; of a `BatchReader` it is known.
            data_fingerprint: what tells data of one's own from others, or None.

        Raises:
            UserInputError: the state is of other text or another model, a sentence is longer than
                the learned positions, or memory runs out in the largest batch.
            ValueError: `train` or `work` is missing, or `patience` is given without validation.
        """
        if train is None and work is None:
            raise ValueError("`work` must be given where `train` is not. Received: None for both")
        if self.patience is not None and validation is None and not validators:
            raise ValueError("`patience` needs `validation` or `validators`. Received: neither")
        self._train = train
        self._set_validation(validation, validation_steps)
        precision = _precision(model)
        self.speed = DeviceSpeed.of(self.devices, precision, self.device_tflops)
        if train is not None:
            check_positions(model, train, validation)
            data_fingerprint = _fingerprint(train, validation)
            work = work or StepWork.of(train.plan, model, self.speed.total_peak_flops)
        if self.state:
            check_same_data(self.state, data_fingerprint)
        self._describe(model, precision)
        if self.is_chief and not self.state:
            self._start(model, tokenizer, source_tokenizer)
        if self.probe and train is not None:
            self.say(probe(model, train, self.devices, self.accumulate))
        if self.state:
            self._go_back(model)
        self._fit = FitCallbacks(self, model, work, data_fingerprint, validators, callbacks)
        self._contexts.push(self._fit.break_off)
        self._fit.interrupt.__enter__()
        model.stop_training = self._fit.limit_reached is not None
        self.callbacks.validate_if_due(**self._validation)
        self._has_ended = model.stop_training

    @property
    def callbacks(self):
        """The callbacks for `fit`, a `keras.callbacks.CallbackList`; further ones go to `begin`."""
        return self._fit.list

    @property
    def fit_options(self):
        """The other arguments of `fit`, a dictionary: validation, epochs and their steps."""
        first = self.step // self.save_every
        if self._has_ended:
            # No epoch is left, but `fit` puts an average in place only where one had been.
            first = max(first, 1)
        return {
            **self._validation,
            "steps_per_epoch": self.save_every,
            "initial_epoch": first,
            "epochs": first if self._has_ended else self._fit.epochs,
            "shuffle": False,  # the batches come in the order of their plan
            "verbose": 0,
        }

    def batches(self, reader):
        """Endless batches for `fit` and `evaluate`, each for all devices together.

        Args:
            reader: a `data.BatchReader`. Those of the training text, which `begin` was told of,
                begin with the step at which the training goes on.

        Raises:
            RuntimeError: the training has not begun.
        """
        if self._fit is None:
            raise RuntimeError("`begin` must be called before `batches`.")
        if reader is self._train:
            return self.devices.batches(reader, self.step, self.accumulate)
        return self.devices.batches(reader)

    def _set_validation(self, validation, steps):
        if isinstance(validation, BatchReader):
            steps = validation.plan.steps_per_epoch
            validation = self.devices.batches(validation)
        self._validation = {
            "validation_data": fixed_batches(validation, steps),
            "validation_steps": steps,
        }

    def _describe(self, model, precision):
        """Say how large the training is, and where it runs."""
        plan = self._train and self._train.plan
        size = f"{model.count_params():,} parameters"
        if plan:
            size += f", {plan.steps_per_epoch:,} steps an epoch, {plan.report()}"
        parts = self.devices.replicas * self.accumulate
        slices = f", a step in {parts} parts" if parts > 1 else ""
        self.say(size, f"{self.devices.description}, {precision}{slices}")

    def _start(self, model, tokenizer, source_tokenizer):
        self.directory.start(
            # The layers alone: how they are trained is no part of what is saved.
            model=keras.Model(model.input, model.output, name=model.name),
            tokenizer=tokenizer,
            source_tokenizer=None if source_tokenizer is tokenizer else source_tokenizer,
            settings=self.settings,
            origin=self.origin and self.origin.path,
        )

    def _go_back(self, model):
        """Make the model and the run what they were, but for settings that may change."""
        if self.is_chief:
            rewind(self.directory, self.state)
            self.directory.checksums.write_json(self.directory.settings_path, self.settings)
        with self.scope():
            self.state.restore(model)


def _fingerprint(train, validation):
    """What a training that goes on must find again: training batches and dev text."""
    if not isinstance(validation, BatchReader):
        return train.fingerprint
    return " ".join([train.fingerprint, *validation.corpus_fingerprints])


def _precision(model):
    """The dtype policy of a model's layers; that of mixed precision where some have it."""
    policies = {layer.dtype_policy.name for layer in model.layers if layer.weights}
    return max(policies, key=lambda name: (name.startswith("mixed"), name), default="float32")
