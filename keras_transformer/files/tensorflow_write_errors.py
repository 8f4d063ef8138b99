"""TensorFlow's write errors, such as a full disk, as one line for the user."""

import contextlib
from collections.abc import Iterator

import tensorflow as tf

from keras_transformer.errors import CannotWrite
from keras_transformer.types import PathLike


@contextlib.contextmanager
def tensorflow_writing(path: PathLike) -> Iterator[None]:
    """Turn TensorFlow's errors into a `CannotWrite` that names the path and the reason."""
    try:
        yield
    except tf.errors.OpError as error:
        reason = error.message.split(";")[-1].split("[Op:")[0].strip().splitlines()[0]
        raise CannotWrite(f"Cannot write {path}: {' '.join(reason.split())}.") from error
