"""Training a model further, with parts of it held as they are."""

import fnmatch

from keras_transformer.errors import UserInputError
from keras_transformer.models import TransformerStacks

PARTS = ("encoder", "decoder", "embeddings")


def freeze(model, patterns):
    """Hold layers as they are in training; to be called before `compile`.

    A layer that is frozen stays so in the model: its weights are saved with the others', get no
    gradient and no place in the optimizer. Dropout goes on in it.

    Args:
        model: a `keras.Model` from `build_transformer`.
        patterns: names of layers, in which `*` stands for anything, as in "encoder_layer_*"; or the
            words "encoder" and "decoder", a stack with its final norm, and "embeddings", all
            tables, with positions that are learned. Where source and target share a vocabulary,
            their embedding is one layer.

    Returns:
        Names of all layers that are frozen, in the order of the model.

    Raises:
        UserInputError: a pattern fits no layer, or no layer is left to train.

    Example:
        >>> from keras_transformer.models import build_transformer
        >>> model = build_transformer("tiny", vocabulary_size=100)
        >>> freeze(model, ["encoder_layer_1", "embeddings"])
        ['embedding', 'encoder_layer_1']
    """
    layers = {layer.name: layer for layer in model.layers if layer.weights}
    parts = _parts(TransformerStacks.of(model))
    frozen = set()
    for pattern in patterns:
        found = parts[pattern] if pattern in PARTS else fnmatch.filter(layers, pattern)
        if not found:
            raise UserInputError(
                f"No layer to freeze is called {pattern}. The layers are {', '.join(layers)}; "
                f"{', '.join(PARTS)} stand for several."
            )
        frozen.update(found)
    trained = [name for name in layers if name not in frozen and layers[name].trainable]
    if not trained:
        raise UserInputError(f"Frozen are all layers, {', '.join(layers)}: none is left to train.")
    for name in frozen:
        layers[name].trainable = False
    return [name for name in layers if not layers[name].trainable]


def _parts(layers):
    """Names of the layers that each word stands for."""
    embeddings = [layers.source_embedding, layers.target_embedding]
    parts = {
        "encoder": [*layers.encoder_layers, layers.encoder_norm],
        "decoder": [*layers.decoder_layers, layers.decoder_norm],
        "embeddings": embeddings,
    }
    return {
        word: [layer.name for layer in members if layer is not None]
        for word, members in parts.items()
    }
