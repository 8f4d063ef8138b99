"""TensorFlow for reading and writing files: its GPUs, and its errors, such as a full disk."""

import contextlib
from collections.abc import Iterator

import keras
import tensorflow as tf

from keras_transformer.errors import CannotWrite
from keras_transformer.types import PathLike


def leave_gpus_to_keras() -> None:
    """Keep TensorFlow from taking the GPUs' memory if Keras has a different backend."""
    if keras.backend.backend() != "tensorflow":
        with contextlib.suppress(RuntimeError):  # TensorFlow has started, and its devices are fixed
            tf.config.set_visible_devices([], "GPU")


@contextlib.contextmanager
def tensorflow_writing(path: PathLike) -> Iterator[None]:
    """Turn TensorFlow's errors into a `CannotWrite` that names the path and the reason."""
    try:
        yield
    except tf.errors.OpError as error:
        reason = error.message.split(";")[-1].split("[Op:")[0].strip().splitlines()[0]
        raise CannotWrite(f"Cannot write {path}: {' '.join(reason.split())}.") from error
