"""Writing a run's model to a file, and making it from the run's files, which are untrusted."""

import dataclasses
import functools
import typing
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import keras
import msgspec

from keras_transformer.errors import UserInputError
from keras_transformer.files.json_files import MOST_BYTES, parse_json
from keras_transformer.files.weight_files import open_weights, weight_file
from keras_transformer.models import ModelOptions, Transformer
from keras_transformer.models.model_layers import layer_states
from keras_transformer.runs.adapter_weights import base_of, holds_adapters, load_adapters
from keras_transformer.runs.model_weights import (
    SAFETENSORS,
    count_safetensors,
    count_weights,
    load_safetensors,
    load_weights,
)
from keras_transformer.runs.run_checksums import ADVICE, RunChecksums

_OTHER_WEIGHTS = (
    f"Take other weights with --checkpoint, or {ADVICE[0].lower()}{ADVICE[1:]} If your own program "
    "wrote them, call `checksums.keep` of the `RunDirectory`."
)
_INITIALIZERS = ("kernel_initializer", "bias_initializer")
# None of them runs code or reads files.
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
    """Make the model in a run's `model.json`, with the weights in a file or new weights."""
    if weights is None:
        return _make_model(path, checksums, rates)
    if weights.suffix == SAFETENSORS:
        _check(checksums, weights)
        model = _make_model(path, checksums, rates, count_safetensors(weights), weights)
        load_safetensors(model, weights)
        _check(checksums, weights)  # the library opened it anew; it may have been replaced
        return model
    with weight_file(weights) as content:
        checksums.check_file(weights, content, _OTHER_WEIGHTS)
        with open_weights(weights, content) as datasets:
            if holds_adapters(datasets):
                model = load_run_model(path, checksums, base_of(weights), rates)
                load_adapters(model, weights, datasets)
                return model
        model = _make_model(path, checksums, rates, count_weights(weights, content), weights)
        load_weights(model, weights, content)
    return model


def _check(checksums: RunChecksums, weights: Path) -> None:
    if checksums.is_damaged(weights):
        raise UserInputError(f"{weights} is damaged: its checksum is wrong. {_OTHER_WEIGHTS}")


def model_record(model: keras.Model) -> dict[str, Any] | None:
    """What `model.json` holds: the options of a `Transformer`; None for other models.

    Warns if the model cannot be loaded from its run.
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
    record = parse_json(path, checksums.read(path, MOST_BYTES), ADVICE)
    try:
        options = _to_options(record, rates)
        total = options.count_weights()
        if num_weights is not None and total != num_weights:
            raise ValueError(f"it has {total:,} weights, and {num_weights:,} are there")
        return Transformer(options)
    except Exception as error:  # Keras may raise anything that its layers raise
        fit = f" The weights {weights} do not fit it." if weights else ""
        reason = " ".join(str(error).split())[:500]
        raise UserInputError(f"Cannot read the model {path}: {reason}.{fit}") from error


def _to_options(record: Any, rates: Mapping[str, float]) -> ModelOptions:
    """The options in `model.json`, which is untrusted, with different dropout rates."""
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
    """Require the name of a Keras initializer, or a serialized one that holds no other object."""
    if not isinstance(value, dict):
        return
    named = [value.get(key) for key in ("module", "class_name", "registered_name")]
    is_known = named[0] == "keras.initializers" and named[1] in _KERAS_INITIALIZERS
    if named[1] is None:
        raise ValueError(f"`{name}` names no class")
    # Keras would create whatever is registered under a different name instead of the class.
    if not is_known or named[2] not in (None, named[1]):
        raise ValueError(f"`{name}` names the class {named[1]!r}"[:200])
    config = value.get("config", {})
    if not isinstance(config, dict) or any(isinstance(v, (dict, list)) for v in config.values()):
        raise ValueError(f"`{name}` must be the same for all sizes, without lists or objects")


@functools.cache
def _record_type() -> Any:
    """`ModelOptions` as a record with types that JSON has; it refuses other fields."""
    hints = {**typing.get_type_hints(ModelOptions), **_JSON_TYPES}
    defaults = {field.name: field.default for field in dataclasses.fields(ModelOptions)}
    fields = [
        (name, hints[name]) if default is dataclasses.MISSING else (name, hints[name], default)
        for name, default in defaults.items()
    ]
    return msgspec.defstruct("ModelRecord", fields, kw_only=True, forbid_unknown_fields=True)
