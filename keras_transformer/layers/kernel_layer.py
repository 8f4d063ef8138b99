"""Layers whose parts share the options of kernels and biases, and their initializers."""

from collections.abc import Callable, Sequence
from typing import Any

import keras
from keras import ops

from keras_transformer.layers.composite_layer import CompositeLayer
from keras_transformer.types import Shape, Tensor


class KernelLayer(CompositeLayer):
    """Base class of layers that pass Keras's options for kernels and biases to their parts.

    Args:
        kernel_initializer, bias_initializer: initializers of the matrices and the biases.
        kernel_regularizer, bias_regularizer: regularizers, or None.
        kernel_constraint, bias_constraint: constraints, or None.
        **kwargs: arguments of `CompositeLayer`.

    Raises:
        ValueError: Keras has no initializer of that name.
    """

    def __init__(
        self,
        *,
        kernel_initializer: Any,
        bias_initializer: Any,
        kernel_regularizer: Any,
        bias_regularizer: Any,
        kernel_constraint: Any,
        bias_constraint: Any,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.kernel_initializer = checked_initializer("kernel_initializer", kernel_initializer)
        self.bias_initializer = checked_initializer("bias_initializer", bias_initializer)
        self.kernel_regularizer = keras.regularizers.get(kernel_regularizer)
        self.bias_regularizer = keras.regularizers.get(bias_regularizer)
        self.kernel_constraint = keras.constraints.get(kernel_constraint)
        self.bias_constraint = keras.constraints.get(bias_constraint)

    def kernel_options(self) -> dict[str, Any]:
        """The options for one more part, with initializers that draw their own numbers."""
        return {
            "kernel_initializer": fresh(self.kernel_initializer),
            "bias_initializer": fresh(self.bias_initializer),
            "kernel_regularizer": self.kernel_regularizer,
            "bias_regularizer": self.bias_regularizer,
            "kernel_constraint": self.kernel_constraint,
            "bias_constraint": self.bias_constraint,
        }

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
            "bias_initializer": keras.initializers.serialize(self.bias_initializer),
            "kernel_regularizer": keras.regularizers.serialize(self.kernel_regularizer),
            "bias_regularizer": keras.regularizers.serialize(self.bias_regularizer),
            "kernel_constraint": keras.constraints.serialize(self.kernel_constraint),
            "bias_constraint": keras.constraints.serialize(self.bias_constraint),
        }


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
