"""Fine-tuning with frozen layers, low-rank adapters (LoRA) or weights rounded to int8."""

import fnmatch
from collections.abc import Iterable

import keras

from keras_transformer.argument_checks import check_positive_int, check_positive_number
from keras_transformer.errors import UserInputError, refuse
from keras_transformer.layers.composite_layer import CompositeLayer
from keras_transformer.models import Transformer
from keras_transformer.runs.model_weights import adapters_of, is_adapter

PARTS = ("encoder", "decoder", "embeddings")


def freeze(model: keras.Model, patterns: Iterable[str]) -> list[str]:
    """Freeze layers. Call this before `compile`.

    Frozen layers are saved with the model but have no gradients and no optimizer variables. Their
    dropout stays active during training.

    Args:
        model: a model from `build_transformer`.
        patterns: layer names, in which `*` is a wildcard, such as "encoder_layer_*"; "encoder" or
            "decoder" for a stack with its final norm; or "embeddings" for all embedding tables,
            including learned positions. With a shared vocabulary, source and target share one
            embedding layer.

    Returns:
        The names of all frozen layers, in model order.

    Raises:
        UserInputError: a pattern does not match any layer, or no layer is left to train.

    Example:
        >>> from keras_transformer.models import build_transformer
        >>> model = build_transformer("tiny", vocabulary_size=100)
        >>> freeze(model, ["encoder_layer_1", "embeddings"])
        ['embedding', 'encoder_layer_1']
    """
    layers = {layer.name: layer for layer in model.layers if layer.weights}
    parts = _parts(Transformer.of(model))
    frozen: set[str] = set()
    for pattern in patterns:
        found = parts[pattern] if pattern in PARTS else fnmatch.filter(layers, pattern)
        if not found:
            raise UserInputError(
                f"No layer to freeze is called {pattern}. The layers are {', '.join(layers)}; "
                f"{', '.join(PARTS)} stand for several layers."
            )
        frozen.update(found)
    trained = [name for name in layers if name not in frozen and layers[name].trainable]
    if not trained:
        raise UserInputError(f"All layers are frozen: {', '.join(layers)}. None is left to train.")
    for name in frozen:
        layers[name].trainable = False
    return [name for name in layers if not layers[name].trainable]


def enable_lora(model: keras.Model, rank: int, lora_alpha: float | None = None) -> None:
    """Freeze a model and add trainable low-rank adapters (LoRA). Call this before `compile`.

    Each matrix W of the attention projections, feed-forward networks and embeddings is replaced by
    W + lora_alpha / rank * A B. Only the adapters A (inputs, rank) and B (rank, outputs) are
    trained. B, or A in an embedding, is initialized to 0, which leaves the initial model unchanged.
    Layers frozen by `freeze` do not receive adapters. The checkpoints of a `TrainingRun` contain
    only the adapters; loading or averaging checkpoints merges the adapters into the weights.

    Args:
        model: a trained model from `build_transformer` or `build_language_model`, or any functional
            model with layers from this package; all other layers are frozen.
        rank: positive integer, at most the smaller side of each matrix; usually 4 to 16.
        lora_alpha: positive number. None means `rank`.

    Raises:
        ValueError: `rank` or `lora_alpha` is not positive, or `rank` is too large.
        UserInputError: no layer supports adapters, the model already has adapters, or a matrix has
            a constraint or is quantized.

    Example:
        >>> from keras_transformer.models import build_transformer
        >>> model = build_transformer("tiny", vocabulary_size=100)
        >>> enable_lora(model, rank=2)
        >>> {weight.name for weight in model.trainable_weights if "encoder" in weight.path} == {
        ...     "lora_kernel_a", "lora_kernel_b"
        ... }
        True

    Reference: Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models", 2021.
    """
    check_positive_int("rank", rank)
    if lora_alpha is not None:
        check_positive_number("lora_alpha", lora_alpha)
    layers = [each for each in model.layers if isinstance(each, CompositeLayer) and each.trainable]
    matrices = [
        part for each in layers for part in each._flatten_layers() if hasattr(part, "lora_enabled")
    ]
    if not matrices:
        raise UserInputError(
            "`model` must have attention, feed-forward networks or embeddings of keras_transformer "
            f"that are not frozen. Received: {', '.join(layer.name for layer in model.layers)}"
        )
    if adapters_of(model):
        raise UserInputError("`enable_lora` must be called once. Received: a model with adapters")
    smallest = min(matrices, key=lambda part: min(part.weights[0].shape))
    if rank > min(smallest.weights[0].shape):
        rule = f"be at most {min(smallest.weights[0].shape)}, the smaller side of {smallest.path}"
        refuse("rank", rule, rank)
    for part in matrices:
        names = ("kernel_constraint", "embeddings_constraint", "quantization_mode")
        given = [f"{name}={value}" for name in names if (value := getattr(part, name, None))]
        if given:
            raise UserInputError(
                "A matrix with adapters cannot have a constraint or be quantized. Received: "
                f"{part.path} with {given[0]}"
            )
    for layer in model.layers:
        if layer in layers:
            layer.enable_lora(rank, lora_alpha)
        else:
            layer.trainable = False
    for weight in model.weights:
        weight.trainable = is_adapter(weight)


def round_to_int8(model: keras.Model) -> None:
    """Round all matrices to int8 in every forward pass (quantization-aware training).

    The weights themselves, and the biases and normalizations, stay in float32: training moves them
    to values that lose less when an export rounds them in the same way. Call this before `compile`.

    Args:
        model: a model from `build_transformer` or `build_language_model`.

    Example:
        >>> import numpy as np
        >>> from keras_transformer.models import build_transformer
        >>> model = build_transformer("tiny", vocabulary_size=100)
        >>> inputs = {"source_ids": np.array([[5, 3]]), "target_ids": np.array([[2, 7]])}
        >>> before = model(inputs)
        >>> round_to_int8(model)
        >>> bool(np.all(before == model(inputs)))
        False
    """
    for layer in model._flatten_layers():
        if hasattr(layer, "rounds_to_int8"):
            layer.rounds_to_int8 = True


def _parts(model: Transformer) -> dict[str, list[str]]:
    """Return the names of the layers that each keyword represents."""
    embeddings = [model.source_embedding, model.target_embedding]
    parts = {
        "encoder": [*model.encoder_layers, model.encoder_norm],
        "decoder": [*model.decoder_layers, model.decoder_norm],
        "embeddings": embeddings,
    }
    return {
        word: [layer.name for layer in members if layer is not None]
        for word, members in parts.items()
    }
