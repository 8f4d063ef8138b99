"""One step of the largest batch before a training: memory runs out now, or not at all."""

import dataclasses
import time

import numpy as np

from keras_transformer.errors import UserInputError, is_out_of_memory
from keras_transformer.training.devices.device_memory import peak_device_memory

GIBIBYTE = 2**30


@dataclasses.dataclass(frozen=True)
class ProbeRecord:
    """What a probe found; as a string it is one line for people.

    Args:
        sentences: rows of the batch that hold a sentence.
        source_length, target_length: its shape, in tokens.
        seconds: time of the step, compiling included.
        peak_bytes: most memory in use on one device, or None where the backend does not know.
    """

    sentences: int
    source_length: int
    target_length: int
    seconds: float
    peak_bytes: int | None

    def __str__(self):
        memory = ""
        if self.peak_bytes is not None:
            memory = f" into {self.peak_bytes / GIBIBYTE:.1f} GiB a device"
        after = f"first step after {self.seconds:.0f} s"
        return f"The largest batch ({_shape(self)}) fits{memory}; {after}"


def probe(model, reader, devices, accumulate=1):
    """Train one step on the largest batch of a plan, and undo it.

    Forward pass, backward pass and update run through the compiled function of the training. Then
    weights, optimizer, dropout seeds and metrics are put back: a training goes as without it.

    Args:
        model: the compiled model that is to be trained.
        reader: the `data.BatchReader` of the training text.
        devices: the `Devices` of the training.
        accumulate: slices that each device works a batch off in.

    Returns:
        A `ProbeRecord`.

    Raises:
        UserInputError: memory ran out; the message says what to do about it.

    Example:

    ```python
    print(probe(trainer, reader, devices))
    # The largest batch (512 sentences of 49 + 48 tokens) fits into 9.4 GiB a device; ...
    ```
    """
    step = reader.plan.largest_step
    inputs = reader.batch(step, row_multiple=devices.replicas * accumulate)[0]
    shape = {
        "sentences": len(reader.plan.batch(step)),
        "source_length": inputs["source_ids"].shape[1],
        "target_length": inputs["target_ids"].shape[1],
    }
    values = _values(model, devices)
    began = time.perf_counter()
    try:
        data = devices.batches(reader, step, accumulate)
        model.fit(data, steps_per_epoch=1, shuffle=False, verbose=0)
        model.optimizer.iterations.numpy()  # JAX computes, and fails, while `fit` has returned
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        record = ProbeRecord(**shape, seconds=0.0, peak_bytes=None)
        raise UserInputError(_advice(record, model, reader.plan, devices, accumulate)) from error
    seconds = time.perf_counter() - began
    _put_back(model, values)
    return ProbeRecord(**shape, seconds=seconds, peak_bytes=peak_device_memory())


def _values(model, devices):
    """Every variable of a training and its value, as an array of our own."""
    if not model.optimizer.built:
        with devices.scope():
            model.optimizer.build(model.trainable_variables)
    variables = [*model.variables, *model.optimizer.variables]
    # A step on JAX gives away the memory that `numpy()` may only look at.
    return [(variable, np.array(variable.numpy())) for variable in variables]


def _put_back(model, values):
    for variable, value in values:
        variable.assign(value)
    model.reset_metrics()
    if hasattr(model, "after_restore"):  # a training model
        model.after_restore()


def _advice(record, model, plan, devices, accumulate):
    longest = int(max(plan.source_lengths.max(), plan.target_lengths.max()))
    ways = []
    if plan.batch_tokens // 2 >= longest:
        ways.append(f"lower `--batch-tokens` from {plan.batch_tokens} to {plan.batch_tokens // 2}")
    if record.sentences > devices.replicas * accumulate:
        ways.append(f"keep it and pass `--accumulate {2 * accumulate}`, for the same result")
    if {layer.compute_dtype for layer in model.layers if layer.weights} == {"float32"}:
        ways.append("pass `--precision mixed_bfloat16`")
    slices = f" in {accumulate} slices" if accumulate > 1 else ""
    return (
        f"Out of memory on {devices.description} in a step of the largest batch "
        f"({_shape(record)}){slices}. Ways out: {'; '.join(ways) or 'a smaller model'}"
    )


def _shape(record):
    noun = "sentence" if record.sentences == 1 else "sentences"
    lengths = f"{record.source_length} + {record.target_length}"
    return f"{record.sentences:,} {noun} of {lengths} tokens"
