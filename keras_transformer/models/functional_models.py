"""Functional models from untrusted files: what they may name, and how much memory they take.

A `Transformer` is saved as its options. Custom models, and runs and `.keras` files of earlier
versions, name every layer.
"""

import copy
import math
import threading
from collections.abc import Iterator, Mapping
from typing import Any

import keras

from keras_transformer.models.model_options import machine_memory
from keras_transformer.models.transformer import Transformer

# Besides the layers of this package: what its models name, and a few more Keras classes. None of
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
_MODELS = ("Functional", "GenerativeModel")  # the second in files of earlier versions


@keras.saving.register_keras_serializable("keras_transformer", name="GenerativeModel")
class EarlierTransformer(Transformer):
    """The class that `.keras` files of earlier versions name: they load as a `Transformer`."""

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Any:
        return _transformer_or_own(keras.Model.from_config(config, custom_objects))


def load_architecture(
    architecture: Any, num_weights: int | None = None, rates: Mapping[str, float] | None = None
) -> keras.Model:
    """Build a model, with new weights, from what `Model.to_json` wrote of a functional model.

    Args:
        architecture: the value of that JSON.
        num_weights: number of weights, if known.
        rates: dropout rates that replace the layers' own.

    Returns:
        A `Transformer` if the layers form one, else a functional model.

    Raises:
        ValueError: the architecture names a class that no model of this package has, it cannot be
            built, it takes more memory than the machine has, or it has a different number of
            weights. All of this is checked before memory is allocated.
    """
    check_classes(architecture)
    config = _as_new(architecture["config"], rates or {})
    sizes = _weight_sizes(config)
    needed = sum(num * itemsize for num, itemsize in sizes)
    if needed > machine_memory():
        raise ValueError(
            f"its weights take {needed / 1e9:,.0f} GB, and this machine has "
            f"{machine_memory() / 1e9:,.0f} GB of memory"
        )
    total = sum(num for num, _ in sizes)
    if num_weights is not None and total != num_weights:
        raise ValueError(f"it has {total:,} weights, and {num_weights:,} are there")
    return _transformer_or_own(_make(config))


def check_classes(architecture: Any) -> None:
    """Require a functional model that names only classes of which our models consist.

    Raises:
        ValueError: it names a different class, such as a user's own function.
    """
    if not isinstance(architecture, dict) or not isinstance(architecture.get("config"), dict):
        raise ValueError("it is not a model")
    if architecture.get("class_name") not in _MODELS:
        raise ValueError(f"it names the class {architecture.get('class_name')!r}"[:200])
    for entry in _entries(architecture["config"]):
        if not _is_known(entry):
            raise ValueError(
                f"it names the class {entry['class_name']!r}"[:200]
                + ", and may name those of this package and a few of Keras's own"
            )
        if entry["class_name"] in _INITIALIZERS:
            check_initializer("initializer", entry)


def check_initializer(name: str, value: Any) -> None:
    """Require the name of a Keras initializer, or a serialized Keras initializer.

    Raises:
        ValueError: it is a different class, or contains one.
    """
    if isinstance(value, dict) and "class_name" not in value:
        raise ValueError(f"`{name}` names no class")
    for entry in _entries(value):
        if entry["class_name"] not in _INITIALIZERS or not _is_known(entry):
            raise ValueError(f"`{name}` names the class {entry['class_name']!r}"[:200])
        if any(isinstance(option, list) for option in entry.get("config", {}).values()):
            raise ValueError(f"`{name}` must be the same for all sizes, without lists")


def _entries(values: Any) -> Iterator[dict[str, Any]]:
    """Every object in a JSON value that names a class, at any depth."""
    left = [values]
    while left:
        value = left.pop()
        if isinstance(value, list):
            left += value
        elif isinstance(value, dict):
            left += value.values()
            if "class_name" in value:
                yield value


def _is_known(entry: dict[str, Any]) -> bool:
    """Whether an entry names a class of which our models consist."""
    registered = entry.get("registered_name")
    if isinstance(registered, str) and registered.startswith(_PACKAGE):
        found = keras.saving.get_registered_object(registered)
        return isinstance(found, type) and (found.__module__, found.__name__) == (
            entry.get("module"),
            entry["class_name"],
        )
    # Keras would create whatever is registered under a different name instead of the class.
    if registered not in (None, entry["class_name"]):
        return False
    names = (entry.get("module"), entry["class_name"])
    return all(name is None or isinstance(name, str) for name in names) and names in _CLASSES


def _as_new(config: dict[str, Any], rates: Mapping[str, float]) -> dict[str, Any]:
    """The configuration with new rates and trainable layers."""
    try:
        config = copy.deepcopy(config)
        for layer in config["layers"]:
            of_layer = layer["config"]
            if layer["class_name"] == "PositionalEmbedding":
                of_layer.setdefault("word_dropout", 0.0)  # files of older versions lack it
            of_layer.update({name: rates[name] for name in rates if name in of_layer})
            of_layer["trainable"] = True  # only the training itself had frozen layers
    except (TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ValueError("it is not a functional model") from error
    return config


def _weight_sizes(config: dict[str, Any]) -> list[tuple[int, int]]:
    """Elements and bytes per element of each floating-point weight, without allocating it."""
    found: list[Any] = []

    def make() -> None:
        try:
            with keras.StatelessScope(initialize_variables=False):
                model = _make(config)
            found.append([_size(variable) for variable in model.weights if _is_float(variable)])
        except ValueError as error:
            found.append(error)

    # Keras remembers variables without values per thread, and would initialize them later.
    thread = threading.Thread(target=make)
    thread.start()
    thread.join()
    (sizes,) = found
    if isinstance(sizes, ValueError):
        raise sizes
    return sizes


def _transformer_or_own(model: keras.Model) -> keras.Model:
    """A functional model as a `Transformer` if its layers form one, else unchanged."""
    try:
        return Transformer.of(model)
    except ValueError:  # a custom model
        return model


def _make(config: dict[str, Any]) -> keras.Model:
    if not {"name", "input_layers", "output_layers"} <= config.keys():
        raise ValueError("it is not a functional model")
    try:
        return keras.Model.from_config(copy.deepcopy(config))  # Keras modifies its argument
    except Exception as error:  # Keras raises whatever its layers raise
        reason = " ".join(str(error).split())
        # Keras shows the whole configuration first, and then the reason.
        short = reason if len(reason) <= 300 else f"{reason[:80]} ... {reason[-220:]}"
        raise ValueError(f"Keras cannot make it: {short}") from error


def _is_float(variable: Any) -> bool:
    return "float" in str(variable.dtype)


def _size(variable: Any) -> tuple[int, int]:
    bits = {"float64": 64, "float32": 32}.get(str(variable.dtype), 16)
    return math.prod(variable.shape), bits // 8
