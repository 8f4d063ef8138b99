"""Times a few training steps."""

import argparse
import dataclasses
import functools
import gc
import platform
import resource
import time
from collections.abc import Iterable, Sequence
from typing import Any

import keras
import numpy as np

from benchmarks.invented_language import invented_corpus
from keras_transformer import losses, metrics, models, optimizers, training
from keras_transformer.data import plan_batches
from keras_transformer.errors import UserInputError
from keras_transformer.models import PRESETS
from keras_transformer.runs.run_records import machine, package_versions
from keras_transformer.training.devices.device_start import compiles_by_default
from keras_transformer.training.devices.devices import peak_device_memory
from keras_transformer.types import SpecialTokens

SHAPES = 16  # if each shape is compiled
TOKENS_A_PAIR = 25  # below the average of the invented pairs, so there are enough pairs
SEED = 1


@dataclasses.dataclass(frozen=True)
class StepTimes:
    """Measurements of a training run.

    Args:
        seconds: median time of a step, including reading but excluding steps that compile.
        middle_half: first and third quartiles of these times.
        target_tokens_per_second: speed of the counted steps, without padding.
        utilization: share of the devices' peak FLOP/s spent on products of real tokens; None if the
            peak is unknown.
        peak_bytes: highest peak memory of any device or, on a CPU, of the process.
        start_seconds: total time of the excluded steps. These are the first steps of each shape,
            which include compilation.
        losses: loss of each step.
    """

    seconds: float
    middle_half: tuple[float, float]
    target_tokens_per_second: float
    utilization: float | None
    peak_bytes: int
    start_seconds: float
    losses: list[float]


class TimedTraining:
    """Training on invented sentences, in one or more precisions.

    Args:
        options: the parsed command line of `benchmarks.training_step`.
        devices: the devices to train on.
    """

    def __init__(self, options: argparse.Namespace, devices: training.Devices) -> None:
        if options.preset not in PRESETS:
            raise UserInputError(
                f"--preset must be one of {', '.join(PRESETS)}. Received: {options.preset}"
            )
        self.options = options
        self.devices = devices
        pairs = max(100, options.steps * options.batch_tokens // TOKENS_A_PAIR)
        longest = min(options.max_tokens, options.batch_tokens - 1)
        corpus = invented_corpus(pairs, options.vocabulary_size, longest, SEED)
        # See `TrainingSettings`.
        self.compiles = compiles_by_default()
        if options.xla is not None and keras.backend.backend() != "jax":
            self.compiles = options.xla
        self.packs = self.compiles and not options.shapes
        if options.packing is not None:
            self.packs = options.packing
        self.reader = plan_batches(
            corpus,
            SpecialTokens(),
            batch_tokens=options.batch_tokens,
            seed=SEED,
            shapes=None if self.packs else options.shapes or (SHAPES if self.compiles else None),
            packing=self.packs,
        )

    def description(self) -> list[str]:
        """Describe the run and the machine."""
        options, plan, here = self.options, self.reader.plan, machine()
        versions = package_versions()
        backend = versions["backend"]
        model = self._build("float32")
        slices = f" in {options.accumulate} slices" if options.accumulate > 1 else ""
        return [
            f"{self.devices.description} ({here['processor']}, {here['cores']} cores), "
            f"{platform.system()}, {backend} {versions[backend]}, keras {versions['keras']}",
            f"{options.preset}: {model.count_params():,} parameters, "
            f"{model.output_shape[-1]:,} tokens",
            f"{options.steps:,} steps of {options.batch_tokens:,} source and target tokens"
            f"{slices}, {plan.padding_share:.1%} padding, {len(set(self._shapes))} shapes"
            f"{', packed' if self.packs else ''}{', XLA' if self.compiles else ''}",
        ]

    def run(self, precision: str) -> StepTimes:
        """Train a new model. All runs start with the same weights and read the same batches.

        Args:
            precision: dtype policy of the layers.

        Returns:
            The measurements.
        """
        training.make_reproducible(SEED, deterministic=False)
        options, devices = self.options, self.devices
        with devices.scope():
            model = self._compiled_model(precision)
        clock = _Clock()
        model.fit(
            devices.batches(self.reader, accumulate=options.accumulate),
            steps_per_epoch=options.steps,
            callbacks=[clock],
            shuffle=False,  # the plan has already shuffled the batches
            verbose=0,
        )
        speed = training.DeviceSpeed.of(devices, precision, options.device_tflops)
        work = training.StepWork.of(self.reader.plan, model, speed.total_peak_flops)
        result = step_times(clock.ends, clock.losses, work, self._compiling_steps())
        del model, clock, work
        gc.collect()  # frees the model, which contains reference cycles, for the next one
        return result

    def _build(self, precision: str) -> keras.Model:
        layers = self.options.num_layers
        sizes = {"num_encoder_layers": layers, "num_decoder_layers": layers} if layers else {}
        size = models.padded_vocabulary_size(self.options.vocabulary_size)
        return models.build_transformer(
            self.options.preset, vocabulary_size=size, dtype=precision, **sizes
        )

    def _compiled_model(self, precision: str) -> keras.Model:
        options = self.options
        model = self._build(precision)
        graph = model.packed() if self.packs else model
        training_model = training.training_model(graph, options.accumulate)
        compile_as_recipes(
            training_model,
            options.preset,
            options.vocabulary_size,
            precision=precision,
            jit_compile=self.compiles,
        )
        return training_model

    @functools.cached_property
    def _shapes(self) -> list[tuple[int, ...]]:
        """The padded shape of each step."""
        return [self._shape(step) for step in range(self.options.steps)]

    def _shape(self, step: int) -> tuple[int, ...]:
        multiple = self.devices.replicas * self.options.accumulate
        inputs, labels, _ = self.reader.batch(step, multiple)
        return inputs["source_ids"].shape + labels.shape

    def _compiling_steps(self) -> list[int]:
        """Return the first step of each shape, or step 0 if one graph handles all shapes."""
        if not self.compiles:
            return [0]
        return [self._shapes.index(shape) for shape in set(self._shapes)]


def compile_as_recipes(
    training_model: keras.Model,
    preset_name: str,
    vocabulary_size: int,
    *,
    precision: str,
    jit_compile: bool,
) -> None:
    """Compile a training model as the recipes do, with the same log values.

    Args:
        training_model: model returned by `training.training_model`.
        preset_name: name of the preset, which determines label smoothing and the schedule.
        vocabulary_size: number of tokens, excluding the vocabulary padding.
        precision: dtype policy of the layers.
        jit_compile: whether XLA compiles the step.
    """
    preset = PRESETS[preset_name]
    loss = losses.LabelSmoothingCrossEntropy(
        preset.label_smoothing, vocabulary_size=vocabulary_size, reduction="sum"
    )
    plain = losses.LabelSmoothingCrossEntropy(0.0, reduction="sum")
    optimizer = optimizers.transformer_adam(preset.hidden_dim, preset.warmup_steps)
    if precision == "mixed_float16":
        optimizer = keras.optimizers.LossScaleOptimizer(optimizer)
    training_model.compile(
        optimizer,
        loss,
        metrics=[metrics.TokenLoss(loss), metrics.Perplexity(), metrics.TokenAccuracy()],
        weighted_metrics=[metrics.StepLoss(loss), metrics.StepLoss(plain, name="step_nll")],
        jit_compile=jit_compile,
    )


def step_times(
    ends: Sequence[float],
    losses: list[float],
    work: training.StepWork,
    compiling: Iterable[int],
) -> StepTimes:
    """Summarize the measured times.

    Args:
        ends: times in seconds at the start of training and at the end of each step.
        losses: loss of each step.
        work: `StepWork` of the steps.
        compiling: zero-based steps to exclude. If these are all steps, none is excluded.

    Returns:
        The measurements.
    """
    seconds = np.diff(ends)
    steps = range(len(seconds))
    counted = [step for step in steps if step not in set(compiling)] or list(steps)
    time_counted = seconds[counted].sum()
    quarter, median, three_quarters = np.percentile(seconds[counted], [25, 50, 75])
    utilization = None
    if work.peak_flops is not None:
        utilization = work.total("flops", counted) / (time_counted * work.peak_flops)
    return StepTimes(
        seconds=median,
        middle_half=(quarter, three_quarters),
        target_tokens_per_second=work.total("target_tokens", counted) / time_counted,
        utilization=utilization,
        peak_bytes=peak_device_memory() or _process_peak(),
        start_seconds=seconds.sum() - time_counted,
        losses=losses,
    )


class _Clock(keras.callbacks.Callback):
    """Records the end and the loss of each step. Reading the loss waits for the device."""

    def __init__(self) -> None:
        super().__init__()
        self.ends: list[float] = []
        self.losses: list[float] = []

    def on_train_begin(self, logs: Any = None) -> None:
        self.ends.append(time.perf_counter())

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.losses.append(float(logs["step_loss"]))
        self.ends.append(time.perf_counter())


def _process_peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024  # in kibibytes on Linux
