"""A model's weights on disk, without its optimizer's."""

import keras
import numpy as np
from keras import ops

from keras_transformer.errors import UserInputError
from keras_transformer.files.weight_files import WeightFile, open_weights, weight_file
from keras_transformer.files.whole_files import write_bytes
from keras_transformer.runs.adapter_weights import (
    adapters_of,
    base_of,
    holds_adapters,
    load_adapters,
    without_adapters,
)
from keras_transformer.runs.run_checksums import keeping_in_run
from keras_transformer.types import PathLike


def save_weights(model: keras.Model, path: PathLike) -> None:
    """Write a functional model's weights, whole or not at all, and record a run's checksum.

    Unlike Keras's `save_weights` on a compiled model, this leaves out the optimizer's moments,
    which are twice as large as the weights. Adapters of LoRA are merged.
    """
    content = WeightFile()
    _without_optimizer(model).save_weights(content)
    write_bytes(path, content.getbuffer(), keeping_in_run(path))


def save_base(model: keras.Model, path: PathLike) -> None:
    """As `save_weights`, of the weights that a model's adapters change."""
    with without_adapters(model):
        save_weights(model, path)


def load_weights(model: keras.Model, path: PathLike, content: WeightFile | None = None) -> None:
    """Load weights that `save_weights` wrote, also into a compiled model.

    Of a training with LoRA, a checkpoint has the adapters alone: the weights that they change are
    read from `base.weights.h5` beside it. A model with adapters of its own gets those of the file;
    from a file without any it gets the weights, and its adapters begin anew.

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
            with open_weights(path, content) as datasets:
                if holds_adapters(datasets):
                    load_weights(model, base_of(path))
                    return load_adapters(model, path, datasets)
            return load_weights(model, path, content)
    content.seek(0)
    factors = [each.first_factor for each in adapters_of(model)]
    beginnings = [(each, np.array(ops.convert_to_numpy(each))) for each in factors]
    try:
        _without_optimizer(model).load_weights(content)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserInputError(f"The weights {path} are of another model.") from error
    for factor, value in beginnings:
        factor.assign(value)  # Keras sets both matrices to 0, where no gradient leads away
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
