"""Model weights on disk, in HDF5 or safetensors format.

A weight file identifies each adapter by the path of its matrix. The path is the same as in the
model without adapters.
"""

import contextlib
import dataclasses
import functools
import math
import typing
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import h5py
import keras
import msgspec
import numpy as np
from keras import ops

from keras_transformer.errors import UserInputError
from keras_transformer.files import write_bytes
from keras_transformer.input_files import parse_json
from keras_transformer.installation import requiring
from keras_transformer.models import ModelOptions, Transformer
from keras_transformer.models.model_layers import layer_states
from keras_transformer.runs.checksums import ADVICE, RunChecksums, keeping_in_run
from keras_transformer.runs.run_checkpoints import BASE
from keras_transformer.runs.tensor_files import SCALE, one_line, open_tensors
from keras_transformer.runs.weight_files import WeightFile, open_weights, weight_file
from keras_transformer.types import PathLike

_GROUP = "lora/"  # prefix of all names in a file of adapters
_ADAPTER = "lora_"  # prefix of Keras's variable names
_EMBEDDING = "matrix"  # name of an embedding's weight
_ROWS = 1024  # rows of a matrix that are merged at a time


@dataclasses.dataclass(frozen=True)
class Adapter:
    """The adapter matrices A and B of a layer, which computes with `matrix + scale * A B`."""

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
        """The scaling factor of the product A B."""
        return self.layer.lora_alpha / self.layer.lora_rank


def adapters_of(model: keras.Model) -> list[Adapter]:
    """Return the adapters of a model."""
    layers = [each for each in model._flatten_layers() if getattr(each, "lora_enabled", False)]
    return [
        Adapter(layer, layer.weights[0], *(w for w in layer.weights if is_adapter(w)))
        for layer in layers
    ]


def is_adapter(variable: keras.Variable) -> bool:
    """Return whether a variable is an adapter matrix."""
    return variable.name.startswith(_ADAPTER)


def trains_adapters_alone(model: keras.Model) -> bool:
    """Return whether a model trains only adapters. If so, its checkpoints contain only adapters."""
    variables = model.trainable_variables
    return bool(variables) and all(map(is_adapter, variables))


@contextlib.contextmanager
def without_adapters(model: keras.Model) -> Iterator[None]:
    """Temporarily disable a model's adapters, both for computing and for saving."""
    layers = [adapter.layer for adapter in adapters_of(model)]
    for layer in layers:
        layer.lora_enabled = False
    try:
        yield
    finally:
        for layer in layers:
            layer.lora_enabled = True


def save_adapters(model: keras.Model, path: PathLike) -> None:
    """Write a model's adapters to a file atomically, and record the checksum in the run."""
    content = WeightFile()
    with h5py.File(content, "w", libver="v108") as file:  # halves the size of groups
        for adapter in adapters_of(model):
            group = file.create_group(_GROUP + adapter.matrix.path)
            group["a"] = keras.ops.convert_to_numpy(adapter.a)
            group["b"] = keras.ops.convert_to_numpy(adapter.b)
            group["scale"] = adapter.scale
    write_bytes(path, content.getbuffer(), keeping_in_run(path))


def base_of(path: PathLike) -> Path:
    """Return the path of the base weights for an adapter file."""
    base = Path(path).with_name(BASE)
    if base == Path(path) or not base.is_file():
        raise UserInputError(
            f"{path} contains only LoRA adapters: {BASE} must be in the same folder."
        )
    return base


def holds_adapters(datasets: Mapping[str, h5py.Dataset]) -> bool:
    """Return whether a weight file with these datasets contains adapters."""
    return any(name.startswith(_GROUP) for name in datasets)


def load_adapters(model: keras.Model, path: PathLike, datasets: Mapping[str, h5py.Dataset]) -> None:
    """Load adapters from a file into a model that already has the base weights.

    If the model has no adapters, they are merged into its matrices.
    """
    own = {adapter.matrix.path: adapter for adapter in adapters_of(model)}
    if not own:
        merge_adapters(model, [path], [datasets])
        return
    if own.keys() != _matrices(datasets):
        raise UserInputError(f"The adapters {path} are for other matrices than the model's.")
    for name, adapter in own.items():
        a, b, scale = _adapter(path, datasets, name, adapter.matrix.shape)
        if (a.shape, b.shape, scale) != (adapter.a.shape, adapter.b.shape, adapter.scale):
            raise UserInputError(f"The adapters {path} have a different rank or `lora_alpha`.")
        adapter.a.assign(a)
        adapter.b.assign(b)


def merge_adapters(
    model: keras.Model,
    paths: Sequence[PathLike],
    files: Sequence[Mapping[str, h5py.Dataset]],
) -> None:
    """Average the changes from several adapter files in float64, and add them to a model.

    Raises:
        UserInputError: the adapters are from a different model or contain non-finite values.
    """
    variables = {variable.path: variable for variable in model.variables}
    for name in sorted(_matrices(files[-1])):
        if name not in variables:
            raise _of_another_model(paths[-1], name)
        matrix = variables[name]
        adapters = [
            _adapter(path, datasets, name, matrix.shape)
            for path, datasets in zip(paths, files, strict=True)
        ]
        total = np.array(keras.ops.convert_to_numpy(matrix))
        for start in range(0, len(total), _ROWS):  # few rows: float64 uses much memory
            rows = slice(start, start + _ROWS)
            block = total[rows].astype("float64")
            with np.errstate(over="ignore", invalid="ignore"):
                for a, b, scale in adapters:
                    block += scale * (a[rows].astype("float64") @ b) / len(files)
                total[rows] = block
        if not np.isfinite(total).all():
            raise not_finite(paths[-1])
        matrix.assign(total)


def not_finite(path: PathLike) -> UserInputError:
    """Return the error for a weight file that contains non-finite values."""
    return UserInputError(
        f"The weights {path} are not finite numbers: they are damaged, or their training has "
        "diverged."
    )


def _of_another_model(path: PathLike, name: str) -> UserInputError:
    return UserInputError(f"The adapters {path} are from another model: `{name}` differs.")


def _matrices(datasets: Mapping[str, h5py.Dataset]) -> set[str]:
    """Return the paths of the matrices for which a file contains adapters."""
    return {name.removeprefix(_GROUP).rpartition("/")[0] for name in datasets}


def _adapter(
    path: PathLike, datasets: Mapping[str, h5py.Dataset], name: str, shape: Sequence[int]
) -> tuple[np.ndarray, np.ndarray, float]:
    """Return A, B and the scaling factor of their product for a matrix of the given shape."""
    parts = [datasets[f"{_GROUP}{name}/{part}"] for part in ("a", "b", "scale")]
    rank = parts[1].shape[0] if parts[1].ndim else 0
    fitting = [(*shape[:1], rank), (rank, *shape[1:]), ()]
    fits = [part.shape for part in parts] == fitting and rank <= min(shape)
    if not fits or any(part.dtype.kind != "f" for part in parts):
        raise _of_another_model(path, name)
    a, b, scale = (part[...] for part in parts)
    if not all(np.isfinite(values).all() for values in (a, b, scale)):
        raise not_finite(path)
    return a, b, float(scale)


SAFETENSORS = ".safetensors"


def save_weights(model: keras.Model, path: PathLike) -> None:
    """Write a functional model's weights atomically, and record the checksum in the run.

    Unlike Keras's `save_weights` on a compiled model, this function omits the optimizer's moments,
    which are twice as large as the weights. LoRA adapters are merged.
    """
    content = WeightFile()
    _without_optimizer(model).save_weights(content)
    write_bytes(path, content.getbuffer(), keeping_in_run(path))


def save_base(model: keras.Model, path: PathLike) -> None:
    """Save weights like `save_weights`, but without the changes from adapters."""
    with without_adapters(model):
        save_weights(model, path)


def load_weights(model: keras.Model, path: PathLike, content: WeightFile | None = None) -> None:
    """Load weights written by `save_weights`. The model may be compiled.

    A checkpoint from LoRA training contains only the adapters; the base weights are read from
    `base.weights.h5` in the same folder. If the model has adapters, they are set from the file. If
    the file has no adapters, the model's weights are set, and its adapters are reinitialized.

    Args:
        model: model that receives the weights.
        path: weight file.
        content: contents of the file, already checked by `open_weights`; None reads the file.

    Raises:
        UserInputError: the file cannot be read or is refused (see `open_weights`), it contains the
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
        raise UserInputError(f"The weights {path} are from another model.") from error
    for factor, value in beginnings:
        factor.assign(value)  # Keras sets both matrices to 0, so the gradient vanishes
    if not weights_are_finite(model):
        raise not_finite(path)


def count_weights(datasets: Mapping[str, h5py.Dataset]) -> int:
    """Return the number of floating-point weights in a file, excluding optimizer weights."""
    return sum(
        dataset.size
        for name, dataset in datasets.items()
        if dataset.dtype.kind in "fV" and not name.startswith("optimizer/")
    )


def _without_optimizer(model: keras.Model) -> keras.Model:
    """Return a model with the same layers but no optimizer."""
    return keras.Model(model.inputs, model.outputs, name=model.name)


def weights_are_finite(model: keras.Model) -> bool:
    """Return whether all trainable weights are finite."""
    return all(bool(ops.all(ops.isfinite(weight))) for weight in model.trainable_variables)


def save_safetensors(
    model: keras.Model, path: PathLike, precision: Literal["float32", "int8"] = "float32"
) -> None:
    """Write a functional model's weights atomically, and record the checksum in the run.

    A tensor name consists of the layer name, the index in the layer and the weight name, such as
    "encoder_layer_1.0.query_key_value_kernel". With `"int8"`, matrices are stored as integers from
    -127 to 127. The tensor NAME.scale contains the divisors: one for each token of an embedding,
    and one for each column of any other matrix.

    Raises:
        UserInputError: the `safetensors` package is missing, or the weights are not float32.
    """
    with requiring("interop", f"Writing {path} needs the safetensors package"):
        from safetensors.numpy import save
    variables = _by_name(model)
    types = {str(variable.dtype) for variable in variables.values()}
    if types != {"float32"}:
        raise UserInputError(
            f"Weights must be in float32 to be written as safetensors. Received: {sorted(types)}"
        )
    arrays = {name: keras.ops.convert_to_numpy(value) for name, value in variables.items()}
    if precision == "int8":
        arrays = {k: each for name in arrays for k, each in _in_int8(name, arrays[name]).items()}
    write_bytes(path, save(arrays), keeping_in_run(path))


def _in_int8(name: str, array: np.ndarray) -> dict[str, np.ndarray]:
    """Return a matrix in int8 with its divisors. Other arrays are returned unchanged."""
    if array.ndim < 2:
        return {name: array}
    values, scale = rounded_to_int8(array, by_rows=name.endswith(f".{_EMBEDDING}"))
    return {name: values, f"{name}{SCALE}": scale}


def rounded_to_int8(array: np.ndarray, by_rows: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return a float32 matrix as integers from -127 to 127 and their divisors.

    There is one divisor for each row or for each column, in a shape that broadcasts.
    """
    axes = (array.ndim - 1,) if by_rows else tuple(range(array.ndim - 1))
    most = np.abs(array).max(axes, keepdims=True)
    scale = np.float32(127) / np.maximum(most, np.float32(1e-30))  # a row of zeros needs one too
    return np.rint(np.clip(array * scale, -127, 127)).astype("int8"), scale


def load_safetensors(model: keras.Model, path: Path) -> None:
    """Load weights written by `save_safetensors`.

    Raises:
        UserInputError: the file cannot be read or is damaged, it contains the weights of a
            different model, or weights are infinite or NaN.
    """
    variables = _by_name(model)
    with open_tensors(path) as tensors:
        _check_shapes(
            path,
            {name: tuple(tensors.shape(name)) for name in tensors.names},
            {name: tuple(variable.shape) for name, variable in variables.items()},
        )
        for name, variable in variables.items():
            variable.assign(tensors.weights(name, tuple(variable.shape)))
    if not weights_are_finite(model):
        raise not_finite(path)


def _check_shapes(
    path: Path, found: dict[str, tuple[int, ...]], expected: dict[str, tuple[int, ...]]
) -> None:
    """Require that the tensor shapes match. The error names the first mismatch."""
    for name in [*expected, *found]:
        if found.get(name) == expected.get(name):
            continue
        fault = f"has the shape {found.get(name)} instead of {expected.get(name)}"
        if name not in found:
            fault = "is missing"
        elif name not in expected:
            fault = "is left over"
        raise UserInputError(
            f"The weights {path} are from another model: the tensor `{one_line(name)}` {fault}."
        )


def count_safetensors(path: Path) -> int:
    """Return the number of weights in a safetensors file."""
    with open_tensors(path) as tensors:
        return sum(math.prod(tensors.shape(name)) for name in tensors.names)


def _by_name(model: keras.Model) -> dict[str, keras.Variable]:
    """Return the weights of a model, keyed by tensor name."""
    return {
        f"{layer.name}.{number}.{_name(variable)}": variable
        for layer in model.layers
        for number, variable in enumerate(layer.weights)
    }


def _name(variable: keras.Variable) -> str:
    """Return the last part of a tensor name, prefixed with the projection in attention layers."""
    names = variable.path.split("/")
    is_of_attention = len(names) > 2 and names[-3].endswith("attention")
    return "_".join(names[-2:]) if is_of_attention else names[-1]


_OTHER_WEIGHTS = (
    f"Use other weights with --checkpoint, or {ADVICE[0].lower()}{ADVICE[1:]} If your own program "
    "wrote them, call `checksums.keep` of the `RunDirectory`."
)
_INITIALIZERS = ("kernel_initializer", "bias_initializer")
# Loading these objects neither runs code nor reads files.
_KERAS_INITIALIZERS = (
    "Constant",
    "GlorotNormal",
    "GlorotUniform",
    "HeNormal",
    "HeUniform",
    "LecunNormal",
    "LecunUniform",
    "Ones",
    "Orthogonal",
    "RandomNormal",
    "RandomUniform",
    "TruncatedNormal",
    "VarianceScaling",
    "Zeros",
)
_JSON_TYPES = {
    "activation": str | None,
    "dtype": str,
    **dict.fromkeys(_INITIALIZERS, str | dict[str, Any]),
}


def load_run_model(
    path: Path, checksums: RunChecksums, weights: Path | None, rates: Mapping[str, float]
) -> keras.Model:
    """Create the model from a run's `model.json`, with weights from a file or new weights."""
    if weights is None:
        return _make_model(path, checksums, rates)
    if weights.suffix == SAFETENSORS:
        _check(checksums, weights)
        model = _make_model(path, checksums, rates, count_safetensors(weights), weights)
        load_safetensors(model, weights)
        _check(checksums, weights)  # the library reopened the file, which may have been replaced
        return model
    with weight_file(weights) as content:
        checksums.check_file(weights, content, _OTHER_WEIGHTS)
        with open_weights(weights, content) as datasets:
            if holds_adapters(datasets):
                model = load_run_model(path, checksums, base_of(weights), rates)
                load_adapters(model, weights, datasets)
                return model
            num_weights = count_weights(datasets)
        model = _make_model(path, checksums, rates, num_weights, weights)
        load_weights(model, weights, content)
    return model


def _check(checksums: RunChecksums, weights: Path) -> None:
    if checksums.is_damaged(weights):
        raise UserInputError(f"{weights} is damaged: its checksum is wrong. {_OTHER_WEIGHTS}")


def model_record(model: keras.Model) -> dict[str, Any] | None:
    """Return the options of a `Transformer` for `model.json`, or None for other models.

    Warn if the model cannot be loaded from its run.
    """
    record = None
    try:
        record = Transformer.of(model).options.to_config()
        _to_options(record, {})
        if any("quantized" in state for state in layer_states(model).values()):
            raise ValueError("its layers are quantized")
    except ValueError as error:
        warnings.warn(f"The model cannot be loaded from its run: {error}.", stacklevel=3)
    return record


def _make_model(
    path: Path,
    checksums: RunChecksums,
    rates: Mapping[str, float],
    num_weights: int | None = None,
    weights: Path | None = None,
) -> keras.Model:
    record = parse_json(path, checksums.read(path), ADVICE)
    try:
        options = _to_options(record, rates)
        total = options.count_weights()
        if num_weights is not None and total != num_weights:
            raise ValueError(f"it has {total:,} weights, and the file contains {num_weights:,}")
        return Transformer(options)
    except Exception as error:  # Keras passes on any exception from its layers
        fit = f" The weights {weights} do not match it." if weights else ""
        reason = " ".join(str(error).split())[:500]
        raise UserInputError(f"Cannot read the model {path}: {reason}.{fit}") from error


def _to_options(record: Any, rates: Mapping[str, float]) -> ModelOptions:
    """Parse the options in an untrusted `model.json`, and replace the given dropout rates."""
    try:
        fields = msgspec.structs.asdict(msgspec.convert(record, _record_type()))
    except (msgspec.ValidationError, OverflowError, RecursionError) as error:
        raise ValueError(str(error)) from error
    for name in _INITIALIZERS:
        _check_initializer(name, fields[name])
    options = ModelOptions(**{**fields, **rates})
    if not isinstance(options.dtype, str):
        raise ValueError(f"`dtype` must name a plain dtype policy. Received: {fields['dtype']}")
    return options


def _check_initializer(name: str, value: Any) -> None:
    """Require an initializer's name, or a serialized Keras initializer without nested objects."""
    if not isinstance(value, dict):
        return
    named = [value.get(key) for key in ("module", "class_name", "registered_name")]
    is_known = named[0] == "keras.initializers" and named[1] in _KERAS_INITIALIZERS
    if named[1] is None:
        raise ValueError(f"`{name}` does not name a class")
    # Given a different registered name, Keras would create whatever is registered under that name.
    if not is_known or named[2] not in (None, named[1]):
        raise ValueError(f"`{name}` names the class {named[1]!r}"[:200])
    config = value.get("config", {})
    if not isinstance(config, dict) or any(isinstance(v, (dict, list)) for v in config.values()):
        raise ValueError(f"`{name}` must be the same for all sizes, without lists or objects")


@functools.cache
def _record_type() -> Any:
    """Return a record type for `ModelOptions` with JSON types; it refuses unknown fields."""
    hints = {**typing.get_type_hints(ModelOptions), **_JSON_TYPES}
    defaults = {field.name: field.default for field in dataclasses.fields(ModelOptions)}
    fields = [
        (name, hints[name]) if default is dataclasses.MISSING else (name, hints[name], default)
        for name, default in defaults.items()
    ]
    return msgspec.defstruct("ModelRecord", fields, kw_only=True, forbid_unknown_fields=True)
