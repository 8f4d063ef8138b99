"""A model's weights on disk, without its optimizer's."""

import keras
from keras import ops

from keras_transformer.errors import UserInputError
from keras_transformer.files.weight_files import WeightFile, open_weights, read_weight_file
from keras_transformer.files.whole_files import write_bytes
from keras_transformer.runs.run_checksums import keeping_in_run


def save_weights(model, path):
    """Write a functional model's weights, whole or not at all; a run keeps their checksum.

    A compiled model's own `save_weights` adds the optimizer's moments, twice the size of the
    weights.
    """
    content = WeightFile()
    _without_optimizer(model).save_weights(content)
    write_bytes(path, content.getbuffer(), keeping_in_run(path))


def load_weights(model, path, content=None):
    """Read what `save_weights` wrote; a compiled model's own method misses the optimizer's part.

    Args:
        model: the model.
        path: the file.
        content: its content, a `WeightFile` that `open_weights` has looked at; None: it is read
            from the file.

    Raises:
        UserInputError: the file cannot be read or is refused (see `open_weights`), it holds the
            weights of another model, or weights that are not finite numbers.
    """
    if content is None:
        content = read_weight_file(path)
        with open_weights(path, content):
            pass
    content.seek(0)
    try:
        _without_optimizer(model).load_weights(content)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserInputError(f"The weights {path} are of another model.") from error
    if not weights_are_finite(model):
        raise UserInputError(
            f"The weights {path} are not finite numbers: they are damaged, or their training has "
            "diverged."
        )


def count_weights(path, content):
    """Return how many floating-point numbers weights have, without the optimizer's."""
    with open_weights(path, content) as datasets:
        return sum(
            dataset.size
            for name, dataset in datasets.items()
            if dataset.dtype.kind in "fV" and not name.startswith("optimizer/")
        )


def _without_optimizer(model):
    """A model over the same layers."""
    return keras.Model(model.inputs, model.outputs, name=model.name)


def weights_are_finite(model):
    """Whether no weight of the model is NaN or infinite."""
    return all(bool(ops.all(ops.isfinite(weight))) for weight in model.trainable_variables)
