"""Fine-tuning: freezing parts of a model."""

import fnmatch
from collections.abc import Iterable

import keras

from keras_transformer.errors import UserInputError
from keras_transformer.models import TransformerStacks

PARTS = ("encoder", "decoder", "embeddings")


def freeze(model: keras.Model, patterns: Iterable[str]) -> list[str]:
    """Freeze layers. Call it before `compile`.

    The weights of frozen layers are saved with the others, but get neither gradients nor a place
    in the optimizer. Their dropout stays active in training.

    Args:
        model: a model from `build_transformer`.
        patterns: names of layers, where `*` matches anything, as in "encoder_layer_*"; or
            "encoder" and "decoder" for a stack with its final norm, and "embeddings" for all
            tables, learned positions included. Source and target with a shared vocabulary have
            one embedding layer.

    Returns:
        Names of all frozen layers, in the order of the model.

    Raises:
        UserInputError: a pattern matches no layer, or no layer is left to train.

    Example:
        >>> from keras_transformer.models import build_transformer
        >>> model = build_transformer("tiny", vocabulary_size=100)
        >>> freeze(model, ["encoder_layer_1", "embeddings"])
        ['embedding', 'encoder_layer_1']
    """
    layers = {layer.name: layer for layer in model.layers if layer.weights}
    parts = _parts(TransformerStacks.of(model))
    frozen: set[str] = set()
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


def _parts(layers: TransformerStacks) -> dict[str, list[str]]:
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
