"""Initializers of weights that are drawn part by part."""

from collections.abc import Callable, Sequence
from typing import Any

import keras
from keras import ops

from keras_transformer.types import Shape, Tensor


def checked_initializer(name: str, identifier: Any) -> Callable[..., Tensor]:
    """The initializer that an argument stands for."""
    try:
        found = keras.initializers.get(identifier)
    except ValueError:
        found = None
    if found is None:
        raise ValueError(
            f"`{name}` must be an initializer or its name. Received: {name}={identifier!r}"
        )
    return found


def fresh(initializer: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """A copy that draws other numbers: one of Keras's gives the same each time it is called.

    With an integer seed the copy gives the same too, as in Keras's own layers. With a seed
    generator none is made: it gives other numbers each time, and a copy would begin anew.
    """
    has_generator = isinstance(getattr(initializer, "seed", None), keras.random.SeedGenerator)
    return (
        initializer.clone() if hasattr(initializer, "clone") and not has_generator else initializer
    )


class SideBySide(keras.initializers.Initializer):
    """Draws each part of a fused weight as a weight of its own: else it has the wrong scale.

    Each part is multiplied by its gain.
    """

    def __init__(
        self,
        initializer: Callable[..., Tensor],
        widths: Sequence[int],
        gains: Sequence[float] | None = None,
    ) -> None:
        self.initializer = initializer
        self.widths = tuple(widths)
        self.gains = (1.0,) * len(self.widths) if gains is None else tuple(gains)

    def __call__(self, shape: Shape, dtype: str | None = None) -> Tensor:
        parts = [
            fresh(self.initializer)((*shape[:-1], width), dtype=dtype) * gain
            for width, gain in zip(self.widths, self.gains, strict=True)
        ]
        return ops.concatenate(parts, axis=-1)
