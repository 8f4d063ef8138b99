"""Writing a run's model to a file, and making it from the run's files, which are untrusted."""

import dataclasses
import functools
import json
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
from keras_transformer.models.functional_models import (
    check_classes,
    check_initializer,
    load_architecture,
)
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


def model_record(model: keras.Model) -> Any:
    """What `model.json` holds: a `Transformer`'s options, or a functional model as Keras writes it.

    Warns if the model cannot be loaded from its run.
    """
    try:
        model = Transformer.of(model)
        record = model.options.to_config()
    except ValueError:  # layers of the user's own
        if isinstance(model, Transformer):
            model = keras.Model(model.input, model.output, name=model.name)
        record = json.loads(model.to_json())
        record.pop("compile_config", None)  # the settings describe the training
    try:
        if _is_functional(record):
            check_classes(record)
        else:
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
        if _is_functional(record):
            return load_architecture(record, num_weights, rates)
        options = _to_options(record, rates)
        total = options.count_weights()
        if num_weights is not None and total != num_weights:
            raise ValueError(f"it has {total:,} weights, and {num_weights:,} are there")
        return Transformer(options)
    except Exception as error:  # Keras may raise anything that its layers raise
        fit = f" The weights {weights} do not fit it." if weights else ""
        reason = " ".join(str(error).split())[:500]
        raise UserInputError(f"Cannot read the model {path}: {reason}.{fit}") from error


def _is_functional(record: Any) -> bool:
    """Whether a record names classes: a user's own model, or a model from an earlier version."""
    return isinstance(record, dict) and ("class_name" in record or "config" in record)


def _to_options(record: Any, rates: Mapping[str, float]) -> ModelOptions:
    """The options in `model.json`, which is untrusted, with different dropout rates."""
    try:
        fields = msgspec.structs.asdict(msgspec.convert(record, _record_type()))
    except (msgspec.ValidationError, OverflowError, RecursionError) as error:
        raise ValueError(str(error)) from error
    for name in _INITIALIZERS:
        check_initializer(name, fields[name])
    options = ModelOptions(**{**fields, **rates})
    if not isinstance(options.dtype, str):
        raise ValueError(f"`dtype` must name a plain dtype policy. Received: {fields['dtype']}")
    return options


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
