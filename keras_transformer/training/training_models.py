"""The model to `fit`, and a memory test with its largest batch."""

import dataclasses
import time
from collections.abc import Collection

import keras
import numpy as np

from keras_transformer.argument_checks import check_non_negative_number, check_positive_int
from keras_transformer.data import BatchPlan, BatchReader
from keras_transformer.errors import UserInputError, is_out_of_memory
from keras_transformer.installation import backend_name
from keras_transformer.training.devices.devices import Devices, peak_device_memory
from keras_transformer.training.step_sums import StepSums


def training_model(model: keras.Model, accumulate: int = 1, *, r_drop: float = 0.0) -> StepSums:
    """Return a model with the same layers and an exact training step on any number of devices.

    On each replica, a step processes its batch in `accumulate` slices of rows. The step sums the
    gradients of slices and replicas and updates the weights once: loss, gradients, gradient norm
    and clipping are the same as for the entire batch on one device. The layers, weights and dropout
    seeds are shared with `model`, so save `model` and use it for translation.

    With one slice, `losses.LabelSmoothingCrossEntropy` is the mean over the real tokens of all
    replicas, with or without weights. Slices add up only if the loss is a plain sum, such as
    `LabelSmoothingCrossEntropy(reduction="sum")`, and the data include weights `mask / tokens of
    the global batch`, like those from `data.fit_batches`. With several slices or R-Drop, `compile`
    rejects other losses, and `fit` rejects data without weights.

    Args:
        model: a functional model, such as the result of `models.build_transformer`. Under
            `tf.distribute`, create both models in the strategy's scope.
        accumulate: positive integer, number of slices of a batch on each replica. A step needs
            memory for only one slice. The rows of a batch must be a multiple of replicas x
            `accumulate`; pad the batch with rows of weight 0.
        r_drop: R-Drop coefficient, such as 5 for a small training text; 0 disables R-Drop. A step
            then processes each row twice, with different dropout, and adds the divergence of
            the two predictions to the loss. The result is half the loss of Liang et al., who define
            the coefficient. A step needs about twice the time and memory. The metrics cover both
            passes, without the divergence.

    Returns:
        A model to compile and fit: a `TensorFlowTrainingModel` or a `JaxTrainingModel`, depending
        on the backend. Call its `after_restore()` method after restoring its variables from a
        checkpoint.

    Raises:
        ValueError: `accumulate` is not a positive integer, or `r_drop` is negative.
        UserInputError: Keras's backend is neither TensorFlow nor JAX.

    Example:
        >>> from keras_transformer.losses import LabelSmoothingCrossEntropy
        >>> from keras_transformer.models import build_transformer
        >>> model = build_transformer("tiny", vocabulary_size=100)
        >>> exact = training_model(model, accumulate=2)
        >>> exact.compile("sgd", LabelSmoothingCrossEntropy(reduction="sum"))
        >>> exact.trainable_weights[0] is model.trainable_weights[0]
        True

    Reference: Liang et al., "R-Drop: Regularized Dropout for Neural Networks", 2021.
    """
    check_positive_int("accumulate", accumulate)
    check_non_negative_number("r_drop", r_drop)
    if backend_name() == "tensorflow":
        from keras_transformer.training.tensorflow_training_model import TensorFlowTrainingModel

        kind: type[StepSums] = TensorFlowTrainingModel
    else:
        from keras_transformer.training.jax_training_model import JaxTrainingModel

        kind = JaxTrainingModel
    exact = kind(model.input, model.output, accumulate, r_drop, name=model.name)
    exact.packed_tokens = getattr(model, "packed_tokens", None)
    return exact


GIBIBYTE = 2**30


@dataclasses.dataclass(frozen=True)
class ProbeRecord:
    """The result of a probe. `str` formats the record as one readable line.

    Args:
        sentences: number of rows that contain a sentence.
        source_length, target_length: padded lengths of the batch, in tokens.
        seconds: time of the step, including compilation.
        peak_bytes: peak memory use of one device, if reported by the backend.
    """

    sentences: int
    source_length: int
    target_length: int
    seconds: float
    peak_bytes: int | None

    def __str__(self) -> str:
        memory = ""
        if self.peak_bytes is not None:
            memory = f" into {self.peak_bytes / GIBIBYTE:.1f} GiB per device"
        after = f"first step after {self.seconds:.0f} s"
        return f"The largest batch ({_shape(self)}) fits{memory}; {after}"


def probe(
    model: keras.Model,
    reader: BatchReader,
    devices: Devices,
    accumulate: int = 1,
    *,
    device_tokens: int | None = None,
    fixed: Collection[str] = (),
) -> ProbeRecord:
    """Train one step on the largest batch of a plan, and undo the step.

    The forward pass, backward pass and update run in the compiled training function. Weights,
    optimizer, dropout seeds and metrics are then restored, so training is not affected.

    Args:
        model: the compiled model to be trained.
        reader: reader of the training text.
        devices: the devices to train on.
        accumulate: number of slices of a batch that each device processes sequentially.
        device_tokens: the setting from which `accumulate` was computed, if any.
        fixed: settings that must not change and are not suggested: "batch_tokens", "precision".

    Returns:
        The shape, time and memory use of the step.

    Raises:
        UserInputError: memory ran out; the message suggests changes.

    Example:

    ```python
    print(probe(training_model, reader, devices))
    # The largest batch (512 sentences of 49 + 48 tokens) fits into 9.4 GiB per device; ...
    ```
    """
    step = reader.plan.largest_step
    inputs = reader.batch(step, row_multiple=devices.replicas * accumulate)[0]
    record = ProbeRecord(
        sentences=len(reader.plan.batch(step)),
        source_length=inputs["source_ids"].shape[1],
        target_length=inputs["target_ids"].shape[1],
        seconds=0.0,
        peak_bytes=None,
    )
    values = _values(model, devices)
    began = time.perf_counter()
    try:
        data = devices.batches(reader, step, accumulate)
        model.fit(data, steps_per_epoch=1, shuffle=False, verbose=0)
        model.optimizer.iterations.numpy()  # JAX may compute, and fail, after `fit` has returned
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        slices = f" in {accumulate} slices" if accumulate > 1 else ""
        parts = devices.replicas * accumulate
        ways = _ways_out(record, model, reader.plan, parts, accumulate, device_tokens, fixed)
        raise UserInputError(
            f"Out of memory on {devices.description} in a step of the largest batch "
            f"({_shape(record)}){slices}. To fix this: {'; '.join(ways)}"
        ) from error
    seconds = time.perf_counter() - began
    _put_back(model, values)
    return dataclasses.replace(record, seconds=seconds, peak_bytes=peak_device_memory())


def _values(model: keras.Model, devices: Devices) -> list[tuple[keras.Variable, np.ndarray]]:
    """Return each variable of a training model with a copy of its value."""
    if not model.optimizer.built:
        with devices.scope():
            model.optimizer.build(model.trainable_variables)
    variables = [*model.variables, *model.optimizer.variables]
    # On JAX, a step donates memory that `numpy()` may share.
    return [(variable, np.array(variable.numpy())) for variable in variables]


def _put_back(model: keras.Model, values: list[tuple[keras.Variable, np.ndarray]]) -> None:
    for variable, value in values:
        variable.assign(value)
    model.reset_metrics()
    if hasattr(model, "after_restore"):  # a training model
        model.after_restore()


def _ways_out(
    record: ProbeRecord,
    model: keras.Model,
    plan: BatchPlan,
    parts: int,
    accumulate: int,
    device_tokens: int | None,
    fixed: Collection[str],
) -> list[str]:
    """Suggest allowed changes that reduce the memory use of a step with `parts` slices in total."""
    longest = int(max(plan.source_lengths.max(), plan.target_lengths.max()))
    ways = []
    if plan.batch_tokens // 2 >= longest and "batch_tokens" not in fixed:
        ways.append(f"lower `--batch-tokens` from {plan.batch_tokens} to {plan.batch_tokens // 2}")
    if record.sentences > parts:
        more = f"pass `--accumulate {2 * accumulate}`"
        if device_tokens is not None:
            tokens = plan.batch_tokens * (2 if getattr(model, "r_drop", 0) else 1)
            fewer = max(1, tokens // (2 * parts))
            more = f"lower `--device-tokens` from {device_tokens} to {fewer}"
        ways.append(f"{'keep it and ' if ways else ''}{more}, for the same result")
    is_float32 = {layer.compute_dtype for layer in model.layers if layer.weights} == {"float32"}
    if is_float32 and "precision" not in fixed:
        ways.append("pass `--precision mixed_bfloat16`")
    return ways or ["use devices with more memory" if fixed else "use a smaller model"]


def _shape(record: ProbeRecord) -> str:
    noun = "sentence" if record.sentences == 1 else "sentences"
    lengths = f"{record.source_length} + {record.target_length}"
    return f"{record.sentences:,} {noun} of {lengths} tokens"
