"""The start of a training's devices on either backend."""

import contextlib
import os
import sys

import keras

from keras_transformer.argument_checks import check_positive_int
from keras_transformer.backend_start import LOG_LEVEL, held_stderr


def start_devices(replicas=None):
    """Find the devices for a training and start them.

    To be called before anything is computed: a backend cannot add devices, or join other machines,
    once it has started. Several machines join by what their environment says: `TF_CONFIG` on
    TensorFlow; `KERAS_DISTRIBUTION_JOB_ADDRESSES`, `KERAS_DISTRIBUTION_NUM_PROCESSES` and
    `KERAS_DISTRIBUTION_PROCESS_ID` on JAX, or what Slurm or Open MPI tell the processes that they
    start. All wait here for each other. Each must draw the same numbers: call
    `keras.utils.set_random_seed` with one seed in all.

    Args:
        replicas: how many devices of this machine to use; each trains a copy of the model on its
            share of every batch. Where there is no GPU, the CPU is divided into so many devices.
            Default: every GPU, or the CPU as one device.

    Returns:
        `Devices`.

    Raises:
        UserInputError: there are fewer GPUs than `replicas`, or the environment does not describe
            a group of machines.
        ValueError: `replicas` is no integer > 0.
        RuntimeError: the backend has already started with fewer devices.

    Example:

    ```python
    devices = start_devices(replicas=2)
    with devices.scope():
        trainer = training_model(build_transformer(vocabulary_size=8000))
        trainer.compile(transformer_adam(hidden_dim=512), LabelSmoothingCrossEntropy(0.1))
    trainer.fit(devices.batches(reader), steps_per_epoch=1000)  # `reader`: a `data.BatchReader`
    devices.stop()
    ```
    """
    if replicas is not None:
        check_positive_int("replicas", replicas)
    if keras.backend.backend() == "jax":
        from keras_transformer.training.devices import jax_devices as backend
    else:
        from keras_transformer.training.devices import tensorflow_devices as backend
    if backend.is_one_of_several():
        print("Waiting for the other machines of this training", file=sys.stderr)
    quiet = os.environ.get(LOG_LEVEL, "0") >= "2"  # as `start_backend_quietly` sets it
    with held_stderr() if quiet else contextlib.nullcontext():
        return backend.start(replicas)
