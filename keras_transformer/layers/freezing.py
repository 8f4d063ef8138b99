"""Layers that are frozen before they are built."""

import keras


def keep_frozen(layer: keras.layers.Layer) -> None:
    """Freeze the sub-layers of a frozen layer; to be called at the end of its `build`.

    Keras freezes the sub-layers that exist when `trainable` is set, such as by the constructor of a
    layer that is loaded or cloned: those that are made later would be trained.

    Example:
        >>> layer = keras.layers.Layer(trainable=False)
        >>> layer.part = keras.layers.Dense(2)
        >>> keep_frozen(layer)
        >>> layer.part.trainable
        False
    """
    if not layer.trainable:
        for part in layer._layers:
            part.trainable = False
