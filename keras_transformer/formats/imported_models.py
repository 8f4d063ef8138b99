"""What readers and writers of other programs' models share: residual scales and imports."""

import inspect
from collections.abc import Collection, Iterator
from typing import Any

import numpy as np

from keras_transformer.errors import UserInputError
from keras_transformer.formats.preset_files import ImportedModel, save_preset
from keras_transformer.layers.transformer_layers import TransformerDecoderLayer, TransformerLayer
from keras_transformer.models import Transformer
from keras_transformer.runs.run_directory import RunDirectory
from keras_transformer.types import PathLike

# Options of a layer that writers read, or that do not affect a trained layer's outputs.
_WRITTEN = {"intermediate_dim", "num_heads", "key_dim", "value_dim", "activation", "use_bias"}
_WRITTEN |= {
    "layer_norm_epsilon",
    "normalize_first",
    "positions",
    "residual_scale",
    "b2t_connection",
}
_OF_TRAINING = {"dropout", "attention_dropout", "activation_dropout", "initial_gain", "seed"}
_OF_TRAINING |= {f"{w}_{o}" for w in ("kernel", "bias") for o in ("initializer", "regularizer")}
_OF_TRAINING |= {"kernel_constraint", "bias_constraint"}


class ResidualScales:
    """Converts a model's weights so that every residual connection is plain.

    `LayerNorm(scale * x + f(x))` is `LayerNorm(x + f(x) / scale)`: the last matrix and bias of each
    sub-layer are divided by its scale. Only the effective epsilon of the normalization changes,
    which is less than 1e-6 of the outputs. The identity does not hold for pre-norm, which has no
    normalization there.

    Args:
        model: the model.
        program: name of the program, for the error.
        written: options of layers that its writer knows besides those that all do.

    Raises:
        UserInputError: the model has B2T connections, or scales in pre-norm; or its layers have an
            option that no writer knows, such as a new option.
    """

    def __init__(self, model: Transformer, program: str, written: Collection[str] = ()) -> None:
        _refuse_other_options(model, program, written)
        first = model.encoder_layers[0]
        if first.b2t_connection:
            raise UserInputError(
                f"{program} has only plain residual connections, or those that can be made plain. "
                "Received: residual_connection='b2t'"
            )
        self._scales = {id(weight): scale for weight, scale in _last_weights(model)}
        if first.normalize_first and set(self._scales.values()) != {1.0}:
            raise UserInputError(
                f"{program} has no scaled residual connections in pre-norm. "
                f"Received: residual_scale={first.residual_scale}, normalize_first=True"
            )

    def plain(self, weight: object, value: np.ndarray) -> np.ndarray:
        """Return a weight's value; the last weights of a sub-layer are divided by its scale."""
        scale = self._scales.get(id(weight), 1.0)
        return value if scale == 1 else value / np.asarray(scale, value.dtype)


def _refuse_other_options(model: Transformer, program: str, written: Collection[str]) -> None:
    """Refuse layers with an option that no writer knows."""
    parameters = [
        parameter
        for layer_class in (TransformerLayer, TransformerDecoderLayer)
        for parameter in inspect.signature(layer_class).parameters.values()
    ]
    known = _WRITTEN | _OF_TRAINING | {"options", "kwargs"} | {*written}
    others = [p for p in parameters if p.name not in known]
    for layer in (*model.encoder_layers, *model.decoder_layers):
        config = layer.get_config()
        for option in others:
            if config.get(option.name, option.default) != option.default:
                raise UserInputError(
                    f"{program} has no counterpart of `{option.name}={config[option.name]!r}`: it "
                    f"must be {option.default!r}."
                )


def _last_weights(model: Transformer) -> Iterator[tuple[object, float]]:
    """Yield the last matrix and bias of each sub-layer, each with the sub-layer's scale."""
    for layer in (*model.encoder_layers, *model.decoder_layers):
        contract = layer.feed_forward.contract
        yield from ((w, layer.feed_forward_block.scale) for w in (contract.kernel, contract.bias))
        for name in ("attention", "self_attention", "cross_attention"):
            attention = getattr(layer, name, None)
            if attention is not None:
                scale = getattr(layer, f"{name}_block").scale
                output = attention.projections["output"]
                yield from ((w, scale) for w in (output.kernel, output.bias))
        if getattr(layer, "ssru", None) is not None:
            # No matrix comes after its states, but they are sums of the candidates.
            yield layer.ssru.candidate.kernel, layer.self_attention_block.scale


_SETTINGS = (
    *("num_encoder_layers", "num_decoder_layers", "hidden_dim", "intermediate_dim", "num_heads"),
    *("key_dim", "dropout", "activation", "tie_weights", "layer_norm_epsilon", "normalize_first"),
    *("final_norm", "positions", "max_length", "use_bias", "use_logits_bias", "decoder_unit"),
    "zero_id",
)


def settings_of(options: dict[str, Any]) -> dict[str, Any]:
    """The options of a model as settings of a training, whose names are the same."""
    return {"preset": "base", **{name: options[name] for name in _SETTINGS if name in options}}


def write_run(imported: ImportedModel, run_directory: PathLike, origin: PathLike) -> RunDirectory:
    """Write an imported model as a run; it appears complete or not at all."""
    save_preset(run_directory, imported, origin=origin)
    return RunDirectory(run_directory)
