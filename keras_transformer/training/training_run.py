"""Training in a run directory: the setup for stopping, logging, saving and resuming `fit`."""

import contextlib
import dataclasses
import inspect
import itertools
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Self, Unpack

import keras

from keras_transformer.data import BatchReader, PackedPlan
from keras_transformer.data.batch_reader import Batch
from keras_transformer.errors import UserInputError, refuse
from keras_transformer.evaluation.step_work import DeviceSpeed, StepWork, model_precision
from keras_transformer.files import say, tell
from keras_transformer.layers import PositionalEmbedding
from keras_transformer.runs.model_weights import adapters_of, trains_adapters_alone
from keras_transformer.runs.run_checkpoints import run_lock
from keras_transformer.runs.run_directory import RunDirectory
from keras_transformer.search_options import SearchKeywords, SearchOptions, search_over
from keras_transformer.text import SentencePieceTokenizer
from keras_transformer.training.checkpoints.training_state import (
    TrainingState,
    check_same_data,
    open_origin,
    open_run,
    rewind,
)
from keras_transformer.training.devices.device_start import (
    keep_compiled_programs,
    make_reproducible,
    start_devices,
)
from keras_transformer.training.devices.devices import Batches, Devices
from keras_transformer.training.fit_callbacks import (
    EpochCallbacks,
    FitCallbacks,
    FitRecord,
    OpenRun,
    compiles,
)
from keras_transformer.training.training_command import TrainingCommand
from keras_transformer.training.training_models import probe
from keras_transformer.training.training_options import TrainingKeywords, TrainingOptions
from keras_transformer.training.training_settings import SEARCH_SETTINGS, TrainingSettings
from keras_transformer.types import PathLike


class TrainingRun(OpenRun):
    """A training run in a run directory, used as a context manager around `fit`.

    Each Keras epoch consists of `save_every` updates, after which the model is validated and saved.
    The last epoch may be shorter. After Ctrl-C, SIGTERM or SIGHUP, the model is saved without
    validation. Each checkpoint consists of weights and a state: the dropout seeds, the optimizer
    and the best values so far. Training can be stopped at any time, even killed in the middle of a
    save, and resumes from the last state with the same results as an uninterrupted run. The
    directory is locked against other training runs. With several processes, only the chief writes
    files and shows progress.

    Args:
        directory: path of the run directory.
        options: the training options.
        **keywords: fields of `TrainingOptions` that override the fields of `options`.

    Attributes:
        directory: the `RunDirectory`.
        options: the `TrainingOptions`; `settings` and `command` are also attributes of the run.
        origin: the `RunDirectory` of the run to start from, or None; set on entering.
        devices: the `Devices`; set on entering.
        accumulate: the number of slices; set on entering.
        state: the `TrainingState` from which training resumes, or None; set on entering.
        speed: the `DeviceSpeed` of the devices; set by `begin`.

    Raises:
        ValueError: both limits are missing, or an option is invalid.
        UserInputError: on entry, the directory contains other files, or it contains a run but
            neither `resume` nor `overwrite` is set; another process is training in it; or the
            settings differ.
        TrainingDiverged: the loss or a weight becomes infinite or NaN during `fit`.
        CannotWrite: the disk is full during `fit`, or the operating system reports another error.

    Example:

    ```python
    with training.TrainingRun("runs/first", steps=10_000, resume=True) as run:
        with run.scope():
            model = build_transformer("tiny", vocabulary_size=8000)
            training_model = training.training_model(model)
            training_model.compile(optimizer, loss, weighted_metrics=[metrics.StepLoss(loss)])
        run.begin(training_model, train, dev, tokenizer=tokenizer)
        training_model.fit(run.batches(train), callbacks=run.callbacks, **run.fit_options)
    print(run.record)
    ```
    """

    origin: RunDirectory | None
    accumulate: int
    speed: DeviceSpeed

    def __init__(
        self,
        directory: PathLike,
        options: TrainingOptions | None = None,
        **keywords: Unpack[TrainingKeywords],
    ) -> None:
        self.directory = RunDirectory(directory)
        if options is None:
            self.options = TrainingOptions(**keywords)
        else:
            self.options = dataclasses.replace(options, **keywords)
        self._fit: FitCallbacks | None = None

    @classmethod
    def of(
        cls, call: TrainingCommand[TrainingSettings], **keywords: Unpack[TrainingKeywords]
    ) -> Self:
        """Create the training run for a command.

        Args:
            call: settings, run directory and limits of a training command.
            **keywords: fields of `TrainingOptions` to override.
        """
        return cls(call.run, call.training_options(), **keywords)

    def __enter__(self) -> Self:
        options = self.options
        with contextlib.ExitStack() as contexts:
            self.devices = options.devices or start_devices(options.replicas)
            contexts.enter_context(self.devices.watch(self.directory))
            if self.is_chief:
                contexts.enter_context(run_lock(self.directory.path))
            self.directory, self.state = open_run(self.directory.path, self.devices, options)
            self.origin = open_origin(self.directory, self.state, options)
            if options.needs_origin and not self.earlier:
                raise UserInputError(
                    "`lora_rank` adapts a trained model: name its run with --from RUN. Received: "
                    "no run to start from"
                )
            self.accumulate = options.slices(self.devices.replicas)
            make_reproducible(options.seed, options.deterministic)
            self._contexts = contexts.pop_all()
        return self

    def __exit__(self, kind: Any, exception: BaseException | None, traceback: Any) -> bool | None:
        has_handled = self._contexts.__exit__(kind, exception, traceback)
        if isinstance(exception, KeyboardInterrupt) and not has_handled and self.is_chief:
            if self._fit is None:
                tell("Training has not started. Run the same command again.")
            else:
                tell("Training is complete. Run the same command with --resume for what follows.")
        return has_handled

    @property
    def prepared_path(self) -> Path:
        """The folder next to the run directory for tokenized text, shared by all runs."""
        return self.directory.path.parent / "prepared"

    @property
    def record(self) -> FitRecord:
        """The record of the training run. Raises RuntimeError before training has ended."""
        if self._fit is None or self._fit.record is None:
            raise RuntimeError("`record` is available only after training has ended.")
        return self._fit.record

    @property
    def exit_code(self) -> int | None:
        """The program's exit code if a signal ended training; see `FitRecord.exit_code`."""
        return self.record.exit_code

    @property
    def earlier(self) -> RunDirectory | None:
        """The run whose model and tokenizers are reused, or None."""
        return self.directory if self.state else self.origin

    def earlier_model(self, **options: float) -> keras.Model | None:
        """Return the model of the run to resume or start from.

        Args:
            **options: dropout rates; see `RunDirectory.load_model`.

        Returns:
            A functional model, or None if training needs a new one. `begin` restores the weights of
            a resumed run.
        """
        if self.state:
            return self.directory.load_architecture(**options)
        return None if self.origin is None else self.origin.load_model(None, **options)

    def say(self, *lines: object) -> None:
        """Print lines in the chief process only."""
        if self.is_chief and self.options.show_progress:
            say(*lines)

    def begin(
        self,
        model: keras.Model,
        train: BatchReader | None = None,
        validation: BatchReader | Iterable[object] | None = None,
        *,
        tokenizer: SentencePieceTokenizer,
        source_tokenizer: SentencePieceTokenizer | None = None,
        validation_steps: int | None = None,
        validators: Sequence[keras.callbacks.Callback] = (),
        callbacks: Sequence[keras.callbacks.Callback] = (),
        work: StepWork | None = None,
        data_fingerprint: str | None = None,
    ) -> None:
        """Start a new run, or restore the model and the run to resume training.

        Args:
            model: a model compiled with `metrics.StepLoss` among its weighted metrics. A second
                `StepLoss` named "step_nll", whose loss has no smoothing, is also logged. If the
                optimizer uses `use_ema=True`, the average is validated and saved; training
                continues from the actual weights.
            train: reader of the training text. None means that `fit` receives other data.
            validation: reader of the dev text, or `validation_data` for `fit`.
            tokenizer: target tokenizer, saved in the run directory.
            source_tokenizer: source tokenizer, if the source has its own vocabulary.
            validation_steps: the argument of `fit`, if `validation` is not a reader.
            validators: callbacks that add values to the epoch logs, such as `BleuValidation`.
            callbacks: further callbacks, called after the callbacks that save the weights.
            work: the work of the training steps; required without `train`.
            data_fingerprint: identifies the training data, if `train` is None.

        Raises:
            UserInputError: the state belongs to a different text or model, a sentence exceeds the
                number of learned positions, or memory is insufficient for the largest batch.
            ValueError: `train` and `work` are both missing, or `patience` is given without
                validation.
        """
        if self.options.patience is not None and validation is None and not validators:
            raise ValueError("`patience` needs `validation` or `validators`. Received: neither")
        if compiles(model):
            keep_compiled_programs()
        self._train, self._validation_text = train, validation
        self._validation = validation_options(self.devices, validation, validation_steps)
        precision = model_precision(model)
        self.speed = DeviceSpeed.of(self.devices, precision, self.options.device_tflops)
        if train is not None:
            readers = [each for each in (train, validation) if isinstance(each, BatchReader)]
            check_positions(model, readers)
            check_packing(model, readers)
            data_fingerprint = training_fingerprint(train, validation)
            work = work or StepWork.of(train.plan, model, self.speed.total_peak_flops)
        elif work is None:
            raise ValueError("`work` must be given if `train` is not. Received: None for both")
        if self.state:
            check_same_data(self.state, data_fingerprint)
        self._describe(model, precision)
        if self.options.probe and train is not None:
            self._try_largest_batch(model, train)  # before this run replaces an older run
        if self.is_chief and not self.state:
            self._start(model, tokenizer, source_tokenizer)
        if self.state:
            self._go_back(model, self.state)
        measured = self.diagnostic_batch if self.options.layer_diagnostics else None
        self._fit = FitCallbacks(
            self, model, work, data_fingerprint, measured, validators, callbacks
        )
        self._contexts.enter_context(self._fit)
        model.stop_training = self._fit.limit_reached is not None
        if self.is_chief and not model.stop_training:
            self.directory.undo_tuning(self._own_search())
            self._remove_results()
        self._fit.list.validate_if_due(**self._validation)
        self._has_ended = model.stop_training

    def adopt(self, settings: TrainingSettings) -> None:
        """Replace the settings before `begin`, for example with settings fitted to the text.

        Args:
            settings: the new settings. Settings for devices and random numbers must not change.
        """
        self.options = dataclasses.replace(self.options, **settings.training_options())
        self.accumulate = self.options.slices(self.devices.replicas)

    @property
    def callbacks(self) -> EpochCallbacks:
        """The `keras.callbacks.CallbackList` for `fit`. Pass your own callbacks to `begin`."""
        return self._begun("callbacks").list

    @property
    def fit_options(self) -> dict[str, Any]:
        """The remaining arguments of `fit`: validation, epochs and steps per epoch."""
        epochs = self._begun("fit_options").epochs
        first = self.step // self.options.save_every
        if self._has_ended:
            # No epoch is left, but `fit` finalizes an average only after at least one epoch.
            first = max(first, 1)
        return {
            **self._validation,
            "steps_per_epoch": self.options.save_every,
            "initial_epoch": first,
            "epochs": first if self._has_ended else epochs,
            "shuffle": False,  # the plan determines the order of the batches
            "verbose": 0,
        }

    def batches(self, reader: BatchReader) -> Batches:
        """Return an endless stream of batches for `fit` and `evaluate`, each for all devices.

        Args:
            reader: reader of the batches. If it is the reader of the training text that was passed
                to `begin`, the batches start at the step from which training resumes.

        Raises:
            RuntimeError: `begin` has not been called.
        """
        self._begun("batches")
        if reader is self._train:
            return self.devices.batches(reader, self.step, self.accumulate)
        return self.devices.batches(reader)

    @property
    def diagnostic_batch(self) -> Batch:
        """Return the batch of the dev or training text that `LayerDiagnostics` measures.

        This is the middle batch of an epoch, because the shortest dev sentences come first.
        """
        for reader in (self._validation_text, self._train):
            if isinstance(reader, BatchReader):
                return reader.batch(reader.plan.steps_per_epoch // 2)
        raise ValueError("`layer_diagnostics` needs a `BatchReader` in `begin`. Received: none")

    def _begun(self, name: str) -> FitCallbacks:
        if self._fit is None:
            raise RuntimeError(f"`begin` must be called before `{name}`.")
        return self._fit

    def _describe(self, model: keras.Model, precision: str) -> None:
        """Print the sizes of the model and the text, and the devices."""
        size = f"{model.count_params():,} parameters"
        if self._train is not None:
            plan = self._train.plan
            steps = plan.steps_per_epoch
            size += f", {steps:,} step{'s'[: steps != 1]} per epoch, {plan.report()}"
        parts = self.devices.replicas * self.accumulate
        slices = f", each step in {parts} parts" if parts > 1 else ""
        self.say(size, f"{self.devices.description}, {precision}{slices}")
        if trains_adapters_alone(model):
            ranks = {adapter.layer.lora_rank for adapter in adapters_of(model)}
            trained = sum(math.prod(each.shape) for each in model.trainable_variables)
            total = model.count_params()
            self.say(
                f"LoRA of rank {', '.join(map(str, sorted(ranks)))}: {trained:,} of {total:,} "
                f"weights are trained ({100 * trained / total:.1f}%)"
            )

    def _try_largest_batch(self, model: keras.Model, train: BatchReader) -> None:
        """Run the probe, without suggesting changes to anything inherited from a run."""
        taken_over = ("batch_tokens", "precision") if self.state else ("precision",)
        record = probe(
            model,
            train,
            self.devices,
            self.accumulate,
            device_tokens=self.settings.get("device_tokens"),
            fixed=taken_over if self.earlier else (),
        )
        self.say(record)

    def _start(
        self,
        model: keras.Model,
        tokenizer: SentencePieceTokenizer,
        source_tokenizer: SentencePieceTokenizer | None,
    ) -> None:
        self.directory.start(
            model=keras.Model(model.input, model.output, name=model.name),  # only the layers
            tokenizer=tokenizer,
            source_tokenizer=None if source_tokenizer is tokenizer else source_tokenizer,
            settings=self.settings,
            origin=None if self.origin is None else self.origin.path,
            search=self._search_of_origin(),
        )

    def _remove_results(self) -> None:
        """Remove the results written when training last ended, because training continues."""
        run = self.directory
        others = (run.path / name for name in self.options.results)
        for path in (*others, run.report_path, run.scores_path, run.weights_path):
            run.checksums.remove(path)

    def _own_search(self) -> SearchKeywords:
        """Return the fields of `SearchOptions` that the settings determine."""
        own: Any = {name: self.settings[name] for name in SEARCH_SETTINGS if name in self.settings}
        return own

    def _search_of_origin(self) -> dict[str, Any] | None:
        """Return the search options of `origin`, if it has any, overridden by the settings."""
        search = {} if self.origin is None else self.origin.search_defaults()
        if not search:
            return None
        both = search_over(search, self._own_search())
        SearchOptions(**both)  # checks that the options are compatible
        return both

    def _go_back(self, model: keras.Model, state: TrainingState) -> None:
        """Restore the model and the run, except for settings that may change."""
        if self.is_chief:
            rewind(self.directory, state)
            self.directory.checksums.write_json(self.directory.settings_path, self.settings)
        with self.scope():
            state.restore(model)


class FixedBatches(keras.utils.PyDataset):
    """In-memory batches in the format that `fit` accepts."""

    def __init__(self, batches: Sequence[object]) -> None:
        super().__init__()
        self.batches = batches

    def __len__(self) -> int:
        return len(self.batches)

    def __getitem__(self, index: int) -> object:
        return self.batches[index]


def validation_options(
    devices: Devices, validation: BatchReader | Iterable[object] | None, steps: int | None
) -> dict[str, Any]:
    """Return the validation arguments of `fit` for a reader or other data.

    The first batches of a generator are kept in memory, because generators cannot be restarted. In
    each validation, Keras would reuse the first two batches and then continue where the previous
    validation stopped, so each validation would use different sentences.
    """
    if isinstance(validation, BatchReader):
        steps = validation.plan.steps_per_epoch
        validation = devices.batches(validation)
    if inspect.isgenerator(validation) and steps is not None:
        validation = FixedBatches(list(itertools.islice(validation, steps)))
    return {"validation_data": validation, "validation_steps": steps}


def training_fingerprint(
    train: BatchReader, validation: BatchReader | Iterable[object] | None
) -> str:
    """Return the fingerprints of training batches and dev text, which must match to resume."""
    if not isinstance(validation, BatchReader):
        return train.fingerprint
    return " ".join([train.fingerprint, *validation.corpus_fingerprints])


def check_packing(model: keras.Model, readers: Iterable[BatchReader]) -> None:
    """Reject packed batches for a model that treats each row as one sentence."""
    tokens = getattr(model, "packed_tokens", None)
    for reader in readers:
        if isinstance(reader.plan, PackedPlan) and tokens != reader.special_tokens:
            raise ValueError(
                "Packed batches need a training model of `Transformer.packed` with their "
                f"special tokens, {reader.special_tokens}. Received: a model with {tokens}"
            )


def check_positions(model: keras.Model, readers: Iterable[BatchReader]) -> None:
    """Reject text with sentences that, including EOS, exceed a model's number of positions."""
    limits = [
        layer.kind.limit
        for layer in model.layers
        if isinstance(layer, PositionalEmbedding) and layer.kind.limit is not None
    ]
    plans = [reader.plan for reader in readers]
    longest = max(max(plan.source_lengths.max(), plan.target_lengths.max()) for plan in plans)
    most = min(limits, default=math.inf)
    sampled = [reader.plan.batch_tokens for reader in readers if reader.is_sampled]
    if longest <= most < max(sampled, default=0):
        rule = "be at least `batch_tokens` if subwords are sampled: a sentence may get that many"
        refuse("max_length", f"{rule} tokens", most, batch_tokens=max(sampled))
    if longest > most:
        rule = f"be at least {longest}, the tokens of the longest sentence"
        refuse("max_length", f"{rule}; otherwise, drop longer sentences", most)
