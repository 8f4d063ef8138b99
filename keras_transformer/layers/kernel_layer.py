"""Layers whose parts share the options of kernels and biases, and their initializers."""

from collections.abc import Callable, Sequence
from typing import Any

import keras
from keras import ops

from keras_transformer.layers.composite_layer import CompositeLayer
from keras_transformer.types import Shape, Tensor

# What every `KernelLayer` takes, as Keras's own layers do.
_OPTIONS = tuple(
    f"{of}_{kind}"
    for of in ("kernel", "bias")
    for kind in ("initializer", "regularizer", "constraint")
)


class KernelLayer(CompositeLayer):
    """Base class of layers that pass Keras's options for kernels and biases to their parts.

    Their constructors take `kernel_initializer`, `bias_initializer`, `kernel_regularizer` and so
    on; `KeepsArguments` keeps them.
    """

    def kernel_options(self) -> dict[str, Any]:
        """The options for one more part, with initializers that draw their own numbers."""
        return {name: fresh(getattr(self, name)) for name in _OPTIONS}


def fresh(initializer: Any) -> Any:
    """A copy that draws different numbers: a Keras initializer returns the same ones at every call.

    With an integer seed the copy returns the same numbers too, as in Keras's own layers. With a
    seed generator no copy is made: the initializer returns different numbers at every call, and a
    copy would start over.
    """
    has_generator = isinstance(getattr(initializer, "seed", None), keras.random.SeedGenerator)
    return (
        initializer.clone() if hasattr(initializer, "clone") and not has_generator else initializer
    )


class SideBySide(keras.initializers.Initializer):
    """Draws each part of a fused weight separately: otherwise it would have the wrong scale.

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
