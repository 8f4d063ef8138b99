"""Start of Keras's backend in a command, without the notes that would bury the user's own lines."""

import contextlib
import os
import sys
import tempfile

from keras_transformer.distribution import pip_install
from keras_transformer.errors import UserInputError

BACKENDS = ("tensorflow", "jax")
LOG_LEVEL = "TF_CPP_MIN_LOG_LEVEL"


def start_backend_quietly(devices=True):
    """Import Keras with its backend and look for devices, without the notes these write to stderr.

    TensorFlow's native code tells of CPU instructions and of missing CUDA drivers before any
    setting can silence it. If the start fails, everything it wrote is shown. A user who sets the
    environment variable `TF_CPP_MIN_LOG_LEVEL` to 0 or 1 sees the notes as they come.

    Args:
        devices: whether to look for devices. A training does not: it decides first how a CPU is
            divided and which machines belong together (`training.start_devices`).

    Raises:
        UserInputError: the backend is not installed, or is one that this package has no code for.
    """
    is_quiet = os.environ.setdefault(LOG_LEVEL, "2") >= "2"  # 2: errors alone, from here on
    with held_stderr() if is_quiet else contextlib.nullcontext():
        keras = _import_keras()
        if devices:
            keras.distribution.list_devices()


def _import_keras():
    try:
        import keras
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in ("tensorflow", "jax", "torch"):
            raise
        raise UserInputError(
            f"Keras's backend {missing} is not installed: {pip_install('tensorflow')}, "
            "or [jax] with KERAS_BACKEND=jax."
        ) from error
    if keras.backend.backend() not in BACKENDS:
        raise UserInputError(
            f"KERAS_BACKEND must be one of {', '.join(BACKENDS)}. "
            f"Received: {keras.backend.backend()}"
        )
    return keras


def leave_gpus_to_keras():
    """Where Keras has another backend, keep TensorFlow off the GPUs, whose memory it would take."""
    import keras
    import tensorflow as tf

    if keras.backend.backend() != "tensorflow":
        with contextlib.suppress(RuntimeError):  # it is at work already, as somebody set it up
            tf.config.set_visible_devices([], "GPU")


@contextlib.contextmanager
def held_stderr():
    """Hold back what is written to the process's stderr, by native code too; show it on failure."""
    sys.stderr.flush()
    stderr = os.dup(2)
    with tempfile.TemporaryFile() as held:
        os.dup2(held.fileno(), 2)
        try:
            yield
        except BaseException:
            held.seek(0)
            os.write(stderr, held.read())
            raise
        finally:
            sys.stderr.flush()
            os.dup2(stderr, 2)
            os.close(stderr)
