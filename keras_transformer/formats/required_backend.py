"""Check of the backend that an export needs."""

import keras

from keras_transformer.errors import UserInputError


def check_tensorflow_backend(what: str) -> None:
    """Require the TensorFlow backend, which writes `what`, such as "A SavedModel"."""
    backend = keras.backend.backend()
    if backend != "tensorflow":
        raise UserInputError(
            f"{what} is written by the TensorFlow backend: set KERAS_BACKEND=tensorflow. "
            f"Received: {backend}"
        )
