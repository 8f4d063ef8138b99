"""TensorFlow's own errors of a disk that takes no more, as a line that a user can read."""

import contextlib

import tensorflow as tf

from keras_transformer.errors import CannotWrite


@contextlib.contextmanager
def tensorflow_writing(path):
    """Turn TensorFlow's errors into a `CannotWrite` that names the path and the reason."""
    try:
        yield
    except tf.errors.OpError as error:
        reason = error.message.split(";")[-1].split("[Op:")[0].strip().splitlines()[0]
        raise CannotWrite(f"Cannot write {path}: {' '.join(reason.split())}.") from error
