"""Helpers for file access through TensorFlow: GPU visibility and write errors."""

import contextlib
from collections.abc import Iterator

import keras
import tensorflow as tf

from keras_transformer.errors import CannotWrite
from keras_transformer.types import PathLike


def leave_gpus_to_keras() -> None:
    """Keep TensorFlow from allocating GPU memory if Keras uses a different backend."""
    if keras.backend.backend() != "tensorflow":
        with contextlib.suppress(RuntimeError):  # TensorFlow has already initialized its devices
            tf.config.set_visible_devices([], "GPU")


@contextlib.contextmanager
def tensorflow_writing(path: PathLike) -> Iterator[None]:
    """Convert TensorFlow errors to a `CannotWrite` error with the path and the reason."""
    try:
        yield
    except tf.errors.OpError as error:
        reason = error.message.split(";")[-1].split("[Op:")[0].strip().splitlines()[0]
        raise CannotWrite(f"Cannot write {path}: {' '.join(reason.split())}.") from error
