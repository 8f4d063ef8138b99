"""Which models Marian has a counterpart of."""

from collections.abc import Collection

import keras

from keras_transformer.errors import UserInputError
from keras_transformer.formats.marian.architecture import ACTIVATIONS
from keras_transformer.formats.residual_scales import ResidualScales
from keras_transformer.inference.translator import Translator
from keras_transformer.layers.transformer_layer import TransformerLayer
from keras_transformer.models import Transformer


def exportable_model(
    translator: Translator,
    positions: str = "sinusoidal",
    layer_norm_epsilon: float | None = None,
    decoder_units: Collection[str] = ("attention",),
) -> Transformer:
    """The only model; UserInputError if Marian has no counterpart of it.

    Args:
        translator: the translator.
        positions: the kind of positions that it must have.
        layer_norm_epsilon: the epsilon that it must have; None: any.
        decoder_units: the decoder's units that it may have.
    """
    if len(translator.models) > 1:
        raise UserInputError(
            f"Marian's folder has one model. Received: an ensemble of {len(translator.models)}"
        )
    model = translator.models[0]
    first, embedding = model.encoder_layers[0], model.target_embedding
    attention = first.attention
    epsilon = first.layer_norm_epsilon
    width = attention.num_heads * attention.key_dim
    for name, value, allowed in (
        ("positions", embedding.positions, [positions]),
        ("decoder_unit", model.decoder_layers[0].decoder_unit, decoder_units),
        ("layer_norm_epsilon", epsilon, [layer_norm_epsilon or epsilon]),
        ("normalize_first", first.normalize_first, [False]),
        ("final_norm", model.encoder_norm is not None, [False]),
        ("activation", keras.activations.serialize(first.activation), sorted(ACTIVATIONS)),
        ("value_dim", attention.value_dim, [attention.key_dim]),
        ("num_heads x key_dim", width, [model.hidden_dim]),
        ("hidden_dim % 2", model.hidden_dim % 2, [0]),
    ):
        if value not in allowed:
            raise UserInputError(
                f"Marian's models have no counterpart of `{name}={value!r}`: it must be "
                f"{' or '.join(map(repr, allowed))}."
            )
    ResidualScales(model, "Marian", ("decoder_unit",))  # refuses what it cannot make plain
    return model


def activation_name(layer: TransformerLayer) -> str:
    """Marian's name of a layer's activation."""
    activation = keras.activations.serialize(layer.activation)
    return {"silu": "swish"}.get(activation, activation)
