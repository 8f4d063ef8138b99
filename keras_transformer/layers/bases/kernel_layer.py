"""Layers whose parts have kernels and biases that are made alike."""

from typing import Any

import keras

from keras_transformer.layers.bases.composite_layer import CompositeLayer
from keras_transformer.layers.initialization import checked_initializer, fresh


class KernelLayer(CompositeLayer):
    """Base class of layers that hand Keras's options of kernels and biases to their parts.

    Args:
        kernel_initializer, bias_initializer: initializers of the matrices and of the biases.
        kernel_regularizer, bias_regularizer: regularizers, or None.
        kernel_constraint, bias_constraint: constraints, or None.
        **kwargs: arguments of `CompositeLayer`.

    Raises:
        ValueError: Keras knows no initializer of that name.
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
        """The options for one more part, whose initializers draw numbers of their own."""
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
