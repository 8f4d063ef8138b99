"""Making a run's model from its files, which are not trusted."""

from collections.abc import Mapping
from pathlib import Path

from keras_transformer.errors import UserInputError
from keras_transformer.files.json_files import parse_json
from keras_transformer.files.weight_files import open_weights, weight_file
from keras_transformer.layers import PositionalEmbedding
from keras_transformer.models import GenerativeModel
from keras_transformer.models.architecture import load_architecture
from keras_transformer.runs.adapter_weights import base_of, holds_adapters, load_adapters
from keras_transformer.runs.model_weights import count_weights, load_weights
from keras_transformer.runs.run_checksums import ADVICE, RunChecksums
from keras_transformer.runs.safetensors_weights import (
    SAFETENSORS,
    count_safetensors,
    load_safetensors,
)

_OTHER_WEIGHTS = (
    f"Take other weights with --checkpoint, or {ADVICE[0].lower()}{ADVICE[1:]} Where a program of "
    "yours wrote them, call `checksums.keep` of the `RunDirectory`."
)


def load_run_model(
    path: Path, checksums: RunChecksums, weights: Path | None, rates: Mapping[str, float]
) -> GenerativeModel:
    """Make the model of a run's `model.json`, with the weights in a file or new ones."""
    if weights is None:
        return _make_model(path, checksums, rates)
    if weights.suffix == SAFETENSORS:
        if checksums.is_damaged(weights):
            raise UserInputError(f"{weights} is damaged: its checksum is wrong. {_OTHER_WEIGHTS}")
        model = _make_model(path, checksums, rates, count_safetensors(weights), weights)
        load_safetensors(model, weights)
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


def _make_model(
    path: Path,
    checksums: RunChecksums,
    rates: Mapping[str, float],
    num_weights: int | None = None,
    weights: Path | None = None,
) -> GenerativeModel:
    architecture = parse_json(path, checksums.read(path), ADVICE)
    try:
        for layer in architecture["config"]["layers"]:
            config = layer["config"]
            if layer["class_name"] == PositionalEmbedding.__name__:
                config.setdefault("word_dropout", 0.0)  # runs of older versions lack it
            config.update({name: rates[name] for name in rates if name in config})
            config["trainable"] = True  # only the training itself had frozen layers
        architecture.pop("compile_config", None)
        return load_architecture(architecture, num_weights)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        fit = f" The weights {weights} do not fit it." if weights else ""
        raise UserInputError(f"Cannot read the model {path}: {error}.{fit}") from error
