"""Code shared by the readers and writers of external model formats."""

import inspect
from collections.abc import Collection, Iterator
from typing import Any, NamedTuple

import keras
import numpy as np

from keras_transformer.errors import UserInputError, reject
from keras_transformer.formats.preset_files import ImportedModel, save_preset
from keras_transformer.layers.transformer_layers import TransformerDecoderLayer, TransformerLayer
from keras_transformer.models import Transformer
from keras_transformer.runs.run_directory import RunDirectory
from keras_transformer.types import PathLike, Tensor

# Layer options that the writers use or that do not affect the outputs of a trained layer.
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


class Weight(NamedTuple):
    """A model weight and its location in the model.

    Args:
        variable: the weight's variable.
        side: "encoder" or "decoder".
        layer: number of the layer; None for a weight before or after all layers.
        unit: attribute of the layer, such as "cross_attention", or "embeddings", "logits" or
            "norm".
        part: sublayer of the unit: an attention projection, a part of `FeedForward` or `SSRU`, or
            "norm"; otherwise the unit itself.
        kind: "kernel", "bias", "gamma", "beta" or "table".
        scale: residual scale, for the last matrix and bias of a sublayer.
    """

    variable: keras.Variable
    side: str
    layer: int | None
    unit: str
    part: str
    kind: str
    scale: float = 1.0

    def plain(self) -> np.ndarray:
        """Return a float32 copy of the value for a program with plain residual connections.

        `LayerNorm(scale * x + f(x))` equals `LayerNorm(x + f(x) / scale)`, so the last matrix and
        bias of each sublayer are divided by its scale. Only the effective epsilon of the
        normalization changes, which changes the outputs by a fraction of less than 1e-6. This does
        not work for pre-norm, which does not normalize the sum.
        """
        value = float32_copy(self.variable)
        return value if self.scale == 1 else value / np.float32(self.scale)


def float32_copy(tensor: Tensor) -> np.ndarray:
    """Return a new C-contiguous float32 array with a tensor's values."""
    tensor = keras.ops.convert_to_tensor(tensor)  # NumPy warns about variables
    return np.array(keras.ops.convert_to_numpy(tensor), dtype="float32", order="C")


def activation_name(model: Transformer) -> str:
    """Return the Keras name of the activation in a model's feed-forward networks."""
    return str(keras.activations.serialize(model.encoder_layers[0].activation))


_UNITS = ("attention", "self_attention", "ssru", "cross_attention", "feed_forward")
_PARTS = {"ssru": ("candidate", "gate"), "feed_forward": ("expand", "contract")}
# No matrix is applied to an SSRU's states, but the states are sums of the candidates.
_LAST = ("output", "candidate", "contract")


def weights_of(model: Transformer) -> Iterator[Weight]:
    """Yield all weights of a model except learned positions."""
    source, target = model.source_embedding, model.target_embedding
    tokens = target.token_embedding
    yield Weight(tokens.matrix, "decoder", None, "embeddings", "embeddings", "table")
    if source is not target:
        table = source.token_embedding.matrix
        yield Weight(table, "encoder", None, "embeddings", "embeddings", "table")
    if not target.tie_weights:
        yield Weight(tokens.reverse_matrix, "decoder", None, "logits", "logits", "kernel")
    if tokens.logits_bias is not None:
        yield Weight(tokens.logits_bias, "decoder", None, "logits", "logits", "bias")
    for side, layers, norm in (
        ("encoder", model.encoder_layers, model.encoder_norm),
        ("decoder", model.decoder_layers, model.decoder_norm),
    ):
        for number, layer in enumerate(layers):
            yield from _weights_of_layer(layer, side, number)
        if norm is not None:
            yield Weight(norm.gamma, side, None, "norm", "norm", "gamma")
            yield Weight(norm.beta, side, None, "norm", "norm", "beta")


def _weights_of_layer(layer: Any, side: str, number: int) -> Iterator[Weight]:
    for name in _UNITS:
        unit = getattr(layer, name, None)
        if unit is None:
            continue
        block = getattr(layer, "self_attention_block" if name == "ssru" else f"{name}_block")
        parts = {part: getattr(unit, part) for part in _PARTS.get(name, ())} or unit.projections
        for part, dense in parts.items():
            scale = block.scale if part in _LAST else 1.0
            yield Weight(dense.kernel, side, number, name, part, "kernel", scale)
            if dense.bias is not None:
                yield Weight(dense.bias, side, number, name, part, "bias", scale)
        yield Weight(block.norm.gamma, side, number, name, "norm", "gamma")
        yield Weight(block.norm.beta, side, number, name, "norm", "beta")


def check_layers(model: Transformer, program: str, written: Collection[str] = ()) -> None:
    """Reject layers that an external program does not support.

    Args:
        model: model to check.
        program: name of the program, for error messages.
        written: additional layer options that this program's writer supports.

    Raises:
        UserInputError: the model has B2T connections, scaled pre-norm residuals, or a layer option
            that the writer does not support.
    """
    _refuse_other_options(model, program, written)
    first = model.encoder_layers[0]
    if first.b2t_connection:
        reject(
            f"{program} supports only residual connections that are plain or can be made plain",
            residual_connection="b2t",
        )
    if first.normalize_first and any(weight.scale != 1 for weight in weights_of(model)):
        reject(
            f"{program} does not support scaled residual connections in pre-norm",
            residual_scale=first.residual_scale,
            normalize_first=True,
        )


def _refuse_other_options(model: Transformer, program: str, written: Collection[str]) -> None:
    """Reject layers with an option that the writer does not support."""
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


# Model options that depend on the vocabularies and are not training settings.
_OF_VOCABULARIES = ("vocabulary_size", "source_vocabulary_size", "padding_id", "hidden_source_id")


def settings_of(options: dict[str, Any]) -> dict[str, Any]:
    """Return model options as training settings, which use the same names."""
    own = {name: value for name, value in options.items() if name not in _OF_VOCABULARIES}
    return {"preset": "base", **own}


def write_run(imported: ImportedModel, run_directory: PathLike, origin: PathLike) -> RunDirectory:
    """Write an imported model as a run. The run is written atomically."""
    save_preset(run_directory, imported, origin=origin)
    return RunDirectory(run_directory)
