"""LoRA adapters on disk, separate from the weights that they change.

The file names each adapter by the path of its matrix. The path is the same in the model without
adapters.
"""

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import h5py
import keras
import numpy as np

from keras_transformer.errors import UserInputError
from keras_transformer.files.weight_files import WeightFile
from keras_transformer.files.whole_files import write_bytes
from keras_transformer.runs.run_checkpoints import BASE
from keras_transformer.runs.run_checksums import keeping_in_run
from keras_transformer.types import PathLike, Shape

_GROUP = "lora/"  # begins all names in a file of adapters
_ADAPTER = "lora_"  # begins Keras's names of the variables


@dataclasses.dataclass(frozen=True)
class Adapter:
    """The matrices A and B of a layer, whose `matrix` is used as `matrix + scale * A B`."""

    layer: keras.layers.Layer
    matrix: keras.Variable
    a: keras.Variable
    b: keras.Variable

    @property
    def first_factor(self) -> keras.Variable:
        """The matrix that is not initialized to 0: A, or B in an embedding."""
        return self.b if isinstance(self.layer, keras.layers.Embedding) else self.a

    @property
    def scale(self) -> float:
        """Factor of the product A B."""
        return self.layer.lora_alpha / self.layer.lora_rank


def adapters_of(model: keras.Model) -> list[Adapter]:
    """The adapters of a model."""
    layers = [each for each in model._flatten_layers() if getattr(each, "lora_enabled", False)]
    return [
        Adapter(layer, layer.weights[0], *(w for w in layer.weights if is_adapter(w)))
        for layer in layers
    ]


def is_adapter(variable: keras.Variable) -> bool:
    """Whether a variable is a matrix of an adapter."""
    return variable.name.startswith(_ADAPTER)


def trains_adapters_alone(model: keras.Model) -> bool:
    """Whether a model trains only adapters. Its checkpoints then hold nothing else."""
    variables = model.trainable_variables
    return bool(variables) and all(map(is_adapter, variables))


@contextlib.contextmanager
def without_adapters(model: keras.Model) -> Iterator[None]:
    """A context in which a model computes and saves as if it had no adapters."""
    layers = [adapter.layer for adapter in adapters_of(model)]
    for layer in layers:
        layer.lora_enabled = False
    try:
        yield
    finally:
        for layer in layers:
            layer.lora_enabled = True


def save_adapters(model: keras.Model, path: PathLike) -> None:
    """Write a model's adapters, completely or not at all, and record the checksum in its run."""
    content = WeightFile()
    with h5py.File(content, "w", libver="v108") as file:  # halves the size of groups
        for adapter in adapters_of(model):
            group = file.create_group(_GROUP + adapter.matrix.path)
            group["a"] = keras.ops.convert_to_numpy(adapter.a)
            group["b"] = keras.ops.convert_to_numpy(adapter.b)
            group["scale"] = adapter.scale
    write_bytes(path, content.getbuffer(), keeping_in_run(path))


def base_of(path: PathLike) -> Path:
    """The file of the weights that a file's adapters change."""
    base = Path(path).with_name(BASE)
    if base == Path(path) or not base.is_file():
        raise UserInputError(f"{path} holds only LoRA adapters: {BASE} must be in its folder.")
    return base


def holds_adapters(datasets: Mapping[str, h5py.Dataset]) -> bool:
    """Whether a weight file with these datasets holds adapters."""
    return any(name.startswith(_GROUP) for name in datasets)


def load_adapters(model: keras.Model, path: PathLike, datasets: Mapping[str, h5py.Dataset]) -> None:
    """Load the adapters in a file into a model that holds the weights that they change.

    If the model has no adapters, its matrices are changed.
    """
    own = {adapter.matrix.path: adapter for adapter in adapters_of(model)}
    if not own:
        merge_adapters(model, [path], [datasets])
        return
    if own.keys() != _matrices(datasets):
        raise UserInputError(f"The adapters {path} are for different matrices than the model's.")
    for name, adapter in own.items():
        a, b, scale = _adapter(path, datasets, name)
        if (a.shape, b.shape, scale) != (adapter.a.shape, adapter.b.shape, adapter.scale):
            raise UserInputError(f"The adapters {path} have a different rank or `lora_alpha`.")
        adapter.a.assign(a)
        adapter.b.assign(b)


def merge_adapters(
    model: keras.Model,
    paths: Sequence[PathLike],
    files: Sequence[Mapping[str, h5py.Dataset]],
) -> None:
    """Add to a model's matrices the mean change by the adapters in several files, in float64.

    Raises:
        UserInputError: the adapters are of a different model, or not finite.
    """
    variables = {variable.path: variable for variable in model.variables}
    for name in sorted(_matrices(files[-1])):
        if name not in variables:
            raise _of_another_model(paths[-1], name)
        matrix = variables[name]
        total = keras.ops.convert_to_numpy(matrix).astype("float64")
        for path, datasets in zip(paths, files, strict=True):
            total += _change(path, datasets, name, matrix.shape) / len(files)
        matrix.assign(total)


def _change(
    path: PathLike, datasets: Mapping[str, h5py.Dataset], name: str, shape: Shape
) -> np.ndarray:
    """What the adapter in a file adds to a matrix of the given shape."""
    a, b, scale = _adapter(path, datasets, name)
    fits = a.ndim == b.ndim == 2 and a.shape[1] == b.shape[0]
    if not fits or (len(a), b.shape[1]) != tuple(shape):
        raise _of_another_model(path, name)
    return scale * (a.astype("float64") @ b.astype("float64"))


def not_finite(path: PathLike) -> UserInputError:
    """The error about a file of weights with numbers that are not finite."""
    return UserInputError(
        f"The weights {path} are not finite numbers: they are damaged, or their training has "
        "diverged."
    )


def _of_another_model(path: PathLike, name: str) -> UserInputError:
    return UserInputError(f"The adapters {path} are of another model: `{name}` differs.")


def _matrices(datasets: Mapping[str, h5py.Dataset]) -> set[str]:
    """Paths of the matrices that a file has adapters for."""
    return {name.removeprefix(_GROUP).rpartition("/")[0] for name in datasets}


def _adapter(
    path: PathLike, datasets: Mapping[str, h5py.Dataset], name: str
) -> tuple[np.ndarray, np.ndarray, float]:
    """A, B and the factor of their product."""
    a, b, scale = (datasets[f"{_GROUP}{name}/{part}"][...] for part in ("a", "b", "scale"))
    if not all(np.isfinite(values).all() for values in (a, b, scale)):
        raise not_finite(path)
    return a, b, float(scale)
