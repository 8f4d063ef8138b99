"""A model's architecture as data from anybody: what it may name, and how much memory it takes."""

import copy
import math
import threading
from typing import Any

import keras

from keras_transformer.models.generation.generative_model import GenerativeModel
from keras_transformer.models.model_size import machine_memory

# Beside the layers of this package: what its models name, and a few more of Keras's own. None of
# them runs code or reads files that an architecture names.
_LAYERS = ("Dense", "Dropout", "Embedding", "InputLayer", "LayerNormalization")
_INITIALIZERS = (
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
_CLASSES = {
    ("keras.src.models.functional", "Functional"),
    ("keras", "DTypePolicy"),
    (None, "__keras_tensor__"),
    *(("keras.layers", name) for name in _LAYERS),
    *(("keras.initializers", name) for name in _INITIALIZERS),
}
_PACKAGE = "keras_transformer>"


def load_architecture(architecture: Any, num_weights: int | None = None) -> GenerativeModel:
    """Make a model of what `Model.to_json` wrote, with new weights.

    Args:
        architecture: the value of that JSON.
        num_weights: number of its weights, if known.

    Returns:
        A `GenerativeModel`, though the architecture may name Keras's `Functional`.

    Raises:
        ValueError: the architecture names a class that no model of this package has, it cannot be
            made, it takes more memory than the machine has, or it has another number of weights.
            All of that is checked before memory is allocated.
    """
    check_classes(architecture)
    sizes = _without_values(architecture)
    needed = sum(num * itemsize for num, itemsize in sizes)
    if needed > machine_memory():
        raise ValueError(
            f"its weights take {needed / 1e9:,.0f} GB, and this machine has "
            f"{machine_memory() / 1e9:,.0f} GB of memory"
        )
    total = sum(num for num, _ in sizes)
    if num_weights is not None and total != num_weights:
        raise ValueError(f"it has {total:,} weights, and {num_weights:,} are there")
    return _make(architecture)


def check_classes(architecture: Any) -> None:
    """Require that each class which an architecture names is one that our models are made of.

    Raises:
        ValueError: it names another class, such as a function of the user's own.
    """
    values = [architecture]
    while values:
        value = values.pop()
        if isinstance(value, list):
            values += value
        elif isinstance(value, dict):
            values += value.values()
            if "class_name" in value and not _is_known(value):
                raise ValueError(f"it names the class {value['class_name']!r}"[:200])


def _is_known(entry: dict[str, Any]) -> bool:
    """Whether an entry is of a class that our models are made of."""
    registered = entry.get("registered_name")
    if isinstance(registered, str) and registered.startswith(_PACKAGE):
        found = keras.saving.get_registered_object(registered)
        return isinstance(found, type) and (found.__module__, found.__name__) == (
            entry.get("module"),
            entry["class_name"],
        )
    # Keras would make whatever is registered under another name, in the place of the class.
    if registered not in (None, entry["class_name"]):
        return False
    names = (entry.get("module"), entry["class_name"])
    return all(name is None or isinstance(name, str) for name in names) and names in _CLASSES


def _without_values(architecture: Any) -> list[tuple[int, int]]:
    """Number of elements, and bytes of one, of each floating-point weight; none takes memory."""
    found: list[Any] = []

    def make() -> None:
        try:
            with keras.StatelessScope(initialize_variables=False):
                model = _make(architecture)
            found.append([_size(variable) for variable in model.weights if _is_float(variable)])
        except ValueError as error:
            found.append(error)

    # Keras remembers variables without values for the thread, and would give them some later.
    thread = threading.Thread(target=make)
    thread.start()
    thread.join()
    (sizes,) = found
    if isinstance(sizes, ValueError):
        raise sizes
    return sizes


def _make(architecture: Any) -> GenerativeModel:
    try:
        # Keras takes apart what it is given.
        model = keras.saving.deserialize_keras_object(copy.deepcopy(architecture))
    except Exception as error:  # Keras raises whatever its layers raise
        reason = " ".join(str(error).split())
        raise ValueError(f"Keras cannot make it: {reason[:200]}") from error
    if not isinstance(model, keras.Model):
        raise ValueError("it is no model")
    if isinstance(model, GenerativeModel):
        return model
    return GenerativeModel(model.input, model.output, name=model.name)


def _is_float(variable: Any) -> bool:
    return "float" in str(variable.dtype)


def _size(variable: Any) -> tuple[int, int]:
    bits = {"float64": 64, "float32": 32}.get(str(variable.dtype), 16)
    return math.prod(variable.shape), bits // 8
