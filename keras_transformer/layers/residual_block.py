"""Residual connection, dropout and layer normalization around a sub-layer."""

from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from keras_transformer.argument_checks import (
    check_bool,
    check_positive_number,
    check_rate,
    check_seed,
)
from keras_transformer.backend_start import has_accelerator
from keras_transformer.layers.composite_layer import CompositeLayer
from keras_transformer.layers.dense import precise_dtype
from keras_transformer.layers.dropout import Dropout
from keras_transformer.types import Shape, Tensor

LAYER_NORM_EPSILON = 1e-6


class LayerNormalization(keras.layers.LayerNormalization):
    """Keras's layer; on JAX, on a CPU, with the gradient of `layer_normalization`."""

    def call(self, inputs: Tensor) -> Tensor:
        if keras.backend.backend() != "jax" or has_accelerator():
            return super().call(inputs)
        outputs = layer_normalization(inputs, self.gamma, self.beta, self.epsilon)
        return ops.cast(outputs, self.compute_dtype)


def layer_normalization(inputs: Tensor, gamma: Tensor, beta: Tensor, epsilon: float) -> Tensor:
    """`keras.ops.layer_normalization` over the last axis, whose gradient keeps only the inputs.

    For the plain gradient, XLA keeps several tensors of their size. On a CPU, this one also takes
    less time; on a GPU, one like it took more.

    Args:
        inputs: tensor (..., dim), of any float dtype.
        gamma, beta: tensors (dim,).
        epsilon: number added to the variance.

    Returns:
        Tensor with the shape and the dtype of `inputs`.

    Reference: Ba et al., "Layer Normalization", 2016.
    """

    @ops.custom_gradient
    def normalize(
        inputs: Tensor, gamma: Tensor, beta: Tensor
    ) -> tuple[Tensor, Callable[..., tuple[Tensor, Tensor, Tensor]]]:
        def gradient(*args: Tensor, upstream: Tensor = None) -> tuple[Tensor, Tensor, Tensor]:
            dtype = precise_dtype(inputs)
            upstream = args[0] if upstream is None else upstream  # torch passes it by name
            upstream = ops.cast(upstream, dtype)
            scaled = upstream * ops.cast(gamma, dtype)
            mean_scaled = ops.mean(scaled, axis=-1, keepdims=True)
            # Adding 0 times the gradient keeps XLA from computing what follows in the forward pass
            # and storing it until here.
            vectors = ops.cast(inputs, dtype) + 0 * mean_scaled
            mean, variance = ops.moments(vectors, axes=-1, keepdims=True)
            inverse = ops.rsqrt(variance + epsilon)
            normalized = (vectors - mean) * inverse
            along = ops.mean(scaled * normalized, axis=-1, keepdims=True)
            rows = tuple(range(len(inputs.shape) - 1))
            return (
                ops.cast((scaled - mean_scaled - normalized * along) * inverse, inputs.dtype),
                ops.cast(ops.sum(upstream * normalized, axis=rows), gamma.dtype),
                ops.cast(ops.sum(upstream, axis=rows), beta.dtype),
            )

        return ops.layer_normalization(inputs, gamma, beta, axis=-1, epsilon=epsilon), gradient

    return normalize(inputs, gamma, beta)


@keras.saving.register_keras_serializable(package="keras_transformer")
class ResidualBlock(CompositeLayer):
    """The residual block around a sub-layer: `block(x, sublayer(block.enter(x)))`.

    Post-norm, the paper's form, is `LayerNorm(x + Dropout(sublayer(x)))`; pre-norm is
    `x + Dropout(sublayer(LayerNorm(x)))`.

    With a `scale` above 1, `LayerNorm(scale * x + Dropout(sublayer(x)))`, a post-norm stack keeps
    more of each token's identity. In the paper's form each layer halves it: early in training the
    encoder's outputs are nearly alike, and the decoder finds nothing in them to attend to. DeepNorm
    is this scale with smaller initial weights.

    Args:
        dropout: rate of dropout on the sub-layer's output.
        normalize_first: whether to normalize the sub-layer's input (pre-norm).
        layer_norm_epsilon: number added to the variance.
        scale: factor of the inputs in the sum.
        seed: integer, seed of the dropout; None: Keras chooses one.
        **kwargs: `name`, `dtype` and `trainable`, as in `keras.layers.Layer`.

    Call arguments:
        inputs: tensor (batch, length, hidden_dim), the inputs of `enter`.
        outputs: tensor of the same shape, the sub-layer's output.
        shortcut: another tensor of the same shape to add to the sum, or None.
        training: whether dropout is active.

    Returns:
        Tensor (batch, length, hidden_dim), with the Keras mask of `inputs`.

    Raises:
        ValueError: an argument breaks its rule, such as a `dropout` outside [0, 1).

    Example:
        >>> import numpy as np
        >>> block, x = ResidualBlock(), np.ones((1, 3, 4), "float32")
        >>> tuple(block(x, 2 * block.enter(x)).shape)
        (1, 3, 4)

    Reference: Vaswani et al. (2017), sections 3.1 and 5.4; Xiong et al. (2020) for pre-norm;
        Wang et al., "DeepNet: Scaling Transformers to 1,000 Layers", 2022, for DeepNorm.
    """

    def __init__(
        self,
        *,
        dropout: float = 0.0,
        normalize_first: bool = False,
        layer_norm_epsilon: float = LAYER_NORM_EPSILON,
        scale: float = 1.0,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_rate("dropout", dropout)
        check_bool("normalize_first", normalize_first)
        check_positive_number("layer_norm_epsilon", layer_norm_epsilon)
        check_positive_number("scale", scale)
        check_seed("seed", seed)
        self.dropout_layer = Dropout(dropout, seed=seed, dtype=self.dtype_policy, name="dropout")
        self.norm = LayerNormalization(
            epsilon=self.layer_norm_epsilon, dtype=self.dtype_policy, name="norm"
        )

    def build(
        self,
        inputs_shape: Shape,
        outputs_shape: Shape | None = None,
        shortcut_shape: Shape | None = None,
    ) -> None:
        if not self.norm.built:  # `enter` is called first
            self.norm.build(inputs_shape)
        self.finish_build()

    def enter(self, inputs: Tensor) -> Tensor:
        """The sub-layer's input: `inputs`, normalized if pre-norm; same shape.

        Raises:
            ValueError: the block is pre-norm and `inputs` is symbolic: a functional model would
                have the normalization twice, and could not save it.
        """
        if not self.normalize_first:
            return inputs
        if isinstance(inputs, keras.KerasTensor):
            raise ValueError(
                "A pre-norm `ResidualBlock` must be entered in the `call` of a layer, with "
                f"tensors. Received: {inputs}"
            )
        return self.norm(inputs)

    def call(
        self,
        inputs: Tensor,
        outputs: Tensor,
        shortcut: Tensor = None,
        training: bool | None = None,
    ) -> Tensor:
        kept = inputs if self.scale == 1 else inputs * ops.cast(self.scale, self.compute_dtype)
        total = kept + self.dropout_layer(outputs, training=training)
        if shortcut is not None:
            total = total + shortcut
        return total if self.normalize_first else self.norm(total)

    def compute_output_shape(
        self,
        inputs_shape: Shape,
        outputs_shape: Shape | None = None,
        shortcut_shape: Shape | None = None,
    ) -> Shape:
        return tuple(inputs_shape)
