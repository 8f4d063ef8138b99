"""Which models Marian has a counterpart of."""

import keras

from keras_transformer.errors import UserInputError
from keras_transformer.formats.marian.architecture import ACTIVATIONS
from keras_transformer.formats.residual_scales import ResidualScales
from keras_transformer.formats.translation_model import TranslationModel
from keras_transformer.layers.transformer_decoder_layer import DECODER_UNITS
from keras_transformer.layers.transformer_layer import TransformerLayer
from keras_transformer.models import Transformer

_EPSILON = 1e-6  # of Marian's layer normalizations


def exportable_model(translator: TranslationModel, *, native: bool = False) -> Transformer:
    """Return the only model; UserInputError if Marian has no counterpart of it.

    Args:
        translator: the translator.
        native: whether the model is for Marian itself, not for `MarianMTModel`.
    """
    if len(translator.models) > 1:
        raise UserInputError(
            f"Marian's folder has one model. Received: an ensemble of {len(translator.models)}"
        )
    tokenizer = translator.tokenizer
    if tokenizer.right_to_left != translator.source_tokenizer.right_to_left:
        raise UserInputError("Marian reads and writes both sides in one direction.")
    if tokenizer.right_to_left and not native:
        raise UserInputError(
            "`MarianMTModel` has no right-to-left models: export this one with `--native`."
        )
    model = translator.models[0]
    first, embedding = model.encoder_layers[0], model.target_embedding
    attention = first.attention
    epsilon, start = first.layer_norm_epsilon, translator.tokenizer.special_tokens.bos
    width = attention.num_heads * attention.key_dim
    for name, value, allowed in (
        ("positions", embedding.positions, ["sinusoidal_t2t" if native else "sinusoidal"]),
        (
            "decoder_unit",
            model.decoder_layers[0].decoder_unit,
            DECODER_UNITS if native else ["attention"],
        ),
        ("zero_id", embedding.zero_id, [start if native else None]),
        ("hidden_source_id", model.options.hidden_source_id, [None]),
        ("layer_norm_epsilon", epsilon, [_EPSILON if native else epsilon]),
        ("normalize_first", first.normalize_first, [False, native]),
        ("final_norm", model.encoder_norm is not None, [False, native]),
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
