"""A model's weights on disk, without its optimizer's."""

import io

import keras
from keras import ops

from keras_transformer.files.whole_files import whole_file


def save_weights(model, path, before_rename=None):
    """Write a functional model's weights to `path`, whole or not at all.

    A compiled model's own `save_weights` adds the optimizer's moments, twice the size of the
    weights.

    Args:
        model: the model.
        path: the file, `*.weights.h5`.
        before_rename: as of `whole_files.whole_file`.

    Raises:
        CannotWrite: the disk is full, or another error of the operating system.
    """
    # HDF5 does not outlive an error of the disk, such as one that is full: it ends the process.
    content = _FileInMemory()
    _without_optimizer(model).save_weights(content)
    with whole_file(path, before_rename) as partial:
        partial.write_bytes(content.getbuffer())


class _FileInMemory(io.BytesIO):
    """Has a name such as Keras wants of a file of weights."""

    def __str__(self):
        return "model.weights.h5"


def load_weights(model, path):
    """Read what `save_weights` wrote; a compiled model's own method misses the optimizer's part."""
    _without_optimizer(model).load_weights(path)


def _without_optimizer(model):
    """A model over the same layers."""
    return keras.Model(model.inputs, model.outputs, name=model.name)


def weights_are_finite(model):
    """Whether no weight of the model is NaN or infinite."""
    return all(bool(ops.all(ops.isfinite(weight))) for weight in model.trainable_variables)
