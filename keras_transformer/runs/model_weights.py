"""A model's weights on disk, without its optimizer's."""

import keras
from keras import ops

from keras_transformer.errors import UserInputError
from keras_transformer.files.weight_files import WeightFile, open_weights, weight_file
from keras_transformer.files.whole_files import write_bytes
from keras_transformer.runs.run_checksums import keeping_in_run
from keras_transformer.types import PathLike


def save_weights(model: keras.Model, path: PathLike) -> None:
    """Write a functional model's weights, whole or not at all, and record a run's checksum.

    Unlike Keras's `save_weights` on a compiled model, this leaves out the optimizer's moments,
    which are twice as large as the weights.
    """
    content = WeightFile()
    _without_optimizer(model).save_weights(content)
    write_bytes(path, content.getbuffer(), keeping_in_run(path))


def load_weights(model: keras.Model, path: PathLike, content: WeightFile | None = None) -> None:
    """Load weights that `save_weights` wrote, also into a compiled model.

    Args:
        model: the model to load into.
        path: the file.
        content: the file's content, already checked by `open_weights`; None reads the file.

    Raises:
        UserInputError: the file cannot be read or is refused (see `open_weights`), it holds the
            weights of another model, or weights that are infinite or NaN.
    """
    if content is None:
        with weight_file(path) as content:
            with open_weights(path, content):
                pass
            return load_weights(model, path, content)
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


def count_weights(path: PathLike, content: WeightFile) -> int:
    """Return the number of floating-point weights in a file, not counting the optimizer's."""
    with open_weights(path, content) as datasets:
        return sum(
            dataset.size
            for name, dataset in datasets.items()
            if dataset.dtype.kind in "fV" and not name.startswith("optimizer/")
        )


def _without_optimizer(model: keras.Model) -> keras.Model:
    """A model over the same layers."""
    return keras.Model(model.inputs, model.outputs, name=model.name)


def weights_are_finite(model: keras.Model) -> bool:
    """Whether all trainable weights are finite."""
    return all(bool(ops.all(ops.isfinite(weight))) for weight in model.trainable_variables)
