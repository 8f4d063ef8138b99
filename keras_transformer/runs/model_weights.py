"""A model's weights on disk, without optimizer weights, as HDF5 or safetensors."""

import importlib.util
import math
from pathlib import Path

import keras
import numpy as np
from keras import ops

from keras_transformer.distribution import pip_install
from keras_transformer.errors import UserInputError
from keras_transformer.files.tensor_files import open_tensors
from keras_transformer.files.weight_files import WeightFile, open_weights, weight_file
from keras_transformer.files.whole_files import write_bytes
from keras_transformer.runs.adapter_weights import (
    adapters_of,
    base_of,
    holds_adapters,
    load_adapters,
    not_finite,
    without_adapters,
)
from keras_transformer.runs.run_checksums import keeping_in_run
from keras_transformer.types import PathLike

SAFETENSORS = ".safetensors"


def save_weights(model: keras.Model, path: PathLike) -> None:
    """Write a functional model's weights, completely or not at all, and record the run's checksum.

    Unlike Keras's `save_weights` on a compiled model, this leaves out the optimizer's moments,
    which are twice as large as the weights. LoRA adapters are merged.
    """
    content = WeightFile()
    _without_optimizer(model).save_weights(content)
    write_bytes(path, content.getbuffer(), keeping_in_run(path))


def save_base(model: keras.Model, path: PathLike) -> None:
    """Like `save_weights`, but save the weights without the changes by adapters."""
    with without_adapters(model):
        save_weights(model, path)


def load_weights(model: keras.Model, path: PathLike, content: WeightFile | None = None) -> None:
    """Load weights that `save_weights` wrote; the model may be compiled.

    A checkpoint of training with LoRA holds only the adapters; the weights that they change are
    read from `base.weights.h5` in the same folder. If the model has adapters, they get the values
    in the file. If the file has no adapters, the model gets the weights, and its adapters start
    anew.

    Args:
        model: the model to load into.
        path: the file.
        content: the file's content, already checked by `open_weights`; None reads the file.

    Raises:
        UserInputError: the file cannot be read or is refused (see `open_weights`), it holds the
            weights of a different model, or weights are infinite or NaN.
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
        factor.assign(value)  # Keras sets both matrices to 0, which gives no gradient
    if not weights_are_finite(model):
        raise not_finite(path)


def count_weights(path: PathLike, content: WeightFile) -> int:
    """Return the number of floating-point weights in a file, without optimizer weights."""
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


def save_safetensors(model: keras.Model, path: PathLike) -> None:
    """Write a functional model's weights, completely or not at all, and record the run's checksum.

    The name of a tensor has the layer, the number in the layer, and the name of the weight, such as
    "encoder_layer_1.0.query_key_value_kernel".

    Raises:
        UserInputError: the package safetensors is missing, or the weights are not float32.
    """
    if importlib.util.find_spec("safetensors") is None:
        raise UserInputError(
            f"Writing {path} needs the package safetensors: {pip_install('interop')}"
        )
    from safetensors.numpy import save

    variables = _by_name(model)
    types = {str(variable.dtype) for variable in variables.values()}
    if types != {"float32"}:
        raise UserInputError(
            f"Weights must be in float32 to be written as safetensors. Received: {sorted(types)}"
        )
    arrays = {name: keras.ops.convert_to_numpy(value) for name, value in variables.items()}
    write_bytes(path, save(arrays), keeping_in_run(path))


def load_safetensors(model: keras.Model, path: Path) -> None:
    """Load weights that `save_safetensors` wrote.

    Raises:
        UserInputError: the file cannot be read or is damaged, it holds the weights of a different
            model, or weights are infinite or NaN.
    """
    variables = _by_name(model)
    with open_tensors(path) as tensors:
        _check_shapes(
            path,
            {name: tuple(tensors.shape(name)) for name in tensors.names},
            {name: tuple(variable.shape) for name, variable in variables.items()},
        )
        for name, variable in variables.items():
            variable.assign(tensors.read(name))
    if not weights_are_finite(model):
        raise not_finite(path)


def _check_shapes(
    path: Path, found: dict[str, tuple[int, ...]], expected: dict[str, tuple[int, ...]]
) -> None:
    """Require the tensors of a model; the error names the first tensor that differs."""
    for name in [*expected, *found]:
        if found.get(name) == expected.get(name):
            continue
        fault = f"has the shape {found.get(name)} instead of {expected.get(name)}"
        if name not in found:
            fault = "is missing"
        elif name not in expected:
            fault = "is left over"
        shown = "".join(c if c.isprintable() else " " for c in name[:200])
        raise UserInputError(
            f"The weights {path} are of another model: the tensor `{shown}` {fault}."
        )


def count_safetensors(path: Path) -> int:
    """Return the number of weights in a file."""
    with open_tensors(path) as tensors:
        return sum(math.prod(tensors.shape(name)) for name in tensors.names)


def _by_name(model: keras.Model) -> dict[str, keras.Variable]:
    """The weights of a model, by tensor name."""
    return {
        f"{layer.name}.{number}.{_name(variable)}": variable
        for layer in model.layers
        for number, variable in enumerate(layer.weights)
    }


def _name(variable: keras.Variable) -> str:
    """The last part of a tensor's name; attention weights are prefixed with their projection."""
    names = variable.path.split("/")
    is_of_attention = len(names) > 2 and names[-3].endswith("attention")
    return "_".join(names[-2:]) if is_of_attention else names[-1]
