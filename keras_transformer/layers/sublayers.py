"""Sublayers other than attention: residual blocks, feed-forward networks and SSRUs."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import keras
from keras import ops

from keras_transformer.argument_checks import check_vectors, known_width
from keras_transformer.installation import has_accelerator
from keras_transformer.layers.composite_layer import CompositeLayer, RematerializedLayer
from keras_transformer.layers.dense import Dense, Dropout, KernelLayer, precise_dtype
from keras_transformer.types import LAYER_NORM_EPSILON, Shape, Tensor


class LayerNormalization(RematerializedLayer, keras.layers.LayerNormalization):
    """Keras's layer, but with the gradient of `layer_normalization` for JAX training on CPU."""

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        if not training or keras.backend.backend() != "jax" or has_accelerator():
            return super().call(inputs)
        outputs = layer_normalization(inputs, self.gamma, self.beta, self.epsilon)
        return ops.cast(outputs, self.compute_dtype)


def layer_normalization(inputs: Tensor, gamma: Tensor, beta: Tensor, epsilon: float) -> Tensor:
    """`keras.ops.layer_normalization` over the last axis, with a gradient that saves memory.

    The gradient keeps only the inputs, whereas XLA keeps several tensors of the same size for the
    default gradient. This gradient is also faster on CPU; a similar one was slower on GPU. Forward
    mode, such as `jax.jvp`, is not supported.

    Args:
        inputs: tensor (..., dim) of any float dtype.
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
            upstream = args[0] if upstream is None else upstream  # PyTorch passes it by name
            upstream = ops.cast(upstream, dtype)
            scaled = upstream * ops.cast(gamma, dtype)
            mean_scaled = ops.mean(scaled, axis=-1, keepdims=True)
            # Adding 0 times the gradient prevents XLA from computing the following values in the
            # forward pass and keeping them in memory until this point.
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
    """The residual block around a sublayer: `block(x, sublayer(block.enter(x)))`.

    Post-norm, as in the paper, computes `LayerNorm(x + Dropout(sublayer(x)))`; pre-norm computes
    `x + Dropout(sublayer(LayerNorm(x)))`.

    With `scale` greater than 1, `LayerNorm(scale * x + Dropout(sublayer(x)))`, a post-norm stack
    preserves more of each token's identity. In the paper's form, each layer halves what remains. As
    a result, the encoder's outputs are nearly identical early in training, leaving the decoder
    nothing to attend to. DeepNorm combines the scale with smaller initial weights.

    Args:
        dropout: dropout rate for the sublayer's output.
        normalize_first: whether to normalize the sublayer's input (pre-norm).
        layer_norm_epsilon: number added to the variance.
        scale: factor for the inputs in the sum.
        seed: integer seed for dropout; if None, Keras chooses a seed.
        **kwargs: `name`, `dtype` and `trainable`, as in `keras.layers.Layer`.

    Call arguments:
        inputs: tensor (batch, length, hidden_dim), the inputs of `enter`.
        outputs: tensor of the same shape, the sublayer's output.
        shortcut: another tensor of the same shape to add to the sum, or None.
        training: whether dropout is active.

    Returns:
        Tensor (batch, length, hidden_dim), with the Keras mask of `inputs`.

    Raises:
        ValueError: an argument is invalid, such as a `dropout` outside [0, 1).

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
        """Return the sublayer's input: `inputs`, normalized if the block is pre-norm.

        Raises:
            ValueError: the block is pre-norm and `inputs` is symbolic. A functional model would
                contain the normalization twice and could not be saved.
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


@keras.saving.register_keras_serializable(package="keras_transformer")
class FeedForward(KernelLayer):
    """Two linear maps with an activation in between, applied to each position separately.

    Args:
        intermediate_dim: output size of the first map.
        dropout: dropout rate for the activations (not used in the paper).
        activation: a Keras activation or its name, such as "relu", "gelu" or "swish".
        kernel_initializer: initializer for the two matrices.
        bias_initializer: initializer for the two biases.
        kernel_regularizer, bias_regularizer: regularizers, as in `keras.layers.Dense`.
        kernel_constraint, bias_constraint: constraints, as in `keras.layers.Dense`.
        initial_gain: factor for the initial matrices, as in DeepNorm (see `ResidualBlock`).
        seed: integer seed for dropout; if None, Keras chooses a seed.
        **kwargs: `name`, `dtype` and `trainable`, as in `keras.layers.Layer`.

    Call arguments:
        inputs: tensor (batch, length, hidden_dim).
        training: whether dropout is active.

    Returns:
        Tensor (batch, length, hidden_dim), with the Keras mask of `inputs`.

    Raises:
        ValueError: `intermediate_dim` is not a positive integer, `dropout` is outside [0, 1), or
            the activation or an initializer is unknown to Keras.

    Example:
        >>> import numpy as np
        >>> tuple(FeedForward(16)(np.ones((1, 3, 4), "float32")).shape)
        (1, 3, 4)

    Reference: Vaswani et al. (2017), section 3.3.
    """

    def __init__(
        self,
        intermediate_dim: int,
        *,
        dropout: float = 0.0,
        activation: Any = "relu",
        kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        initial_gain: float = 1.0,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.expand = self._dense(self.intermediate_dim, "expand", self.activation)
        self.dropout_layer = Dropout(dropout, seed=seed, dtype=self.dtype_policy, name="dropout")

    def _dense(self, units: int, name: str, activation: Any = None) -> Dense:
        return Dense(
            units,
            activation=activation,
            **self.kernel_options((units,), (self.initial_gain,)),
            dtype=self.dtype_policy,
            name=name,
        )

    def build(self, inputs_shape: Shape) -> None:
        self.expand.build(inputs_shape)
        self.contract = self._dense(known_width("inputs", inputs_shape), "contract")
        self.contract.build((*inputs_shape[:-1], self.intermediate_dim))
        self.finish_build()

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        return self.contract(self.dropout_layer(self.expand(inputs), training=training))


_MOST_DOUBLINGS = 31  # lengths are int32


class RecurrentState(NamedTuple):
    """The state that an SSRU carries between positions: one vector per hypothesis."""

    values: Tensor  # float32 (rows, beams, hidden_dim)


@keras.saving.register_keras_serializable(package="keras_transformer")
class SSRU(KernelLayer):
    """A single-gate recurrent unit that replaces decoder self-attention in small models.

    Position t combines its input with the state of position t - 1:

        gate = sigmoid(inputs[t] @ W_gate + b_gate)
        state = gate * state + (1 - gate) * (inputs[t] @ W_candidate)
        outputs[t] = relu(state)

    The gate does not depend on the state, so `call` computes all positions together in about
    log2(length) passes. `step` computes one position from a state of constant size. Unlike in
    attention, the cost of a step does not grow with the output length.

    Args:
        kernel_initializer, bias_initializer: initializers for the two matrices and the bias.
        kernel_regularizer, bias_regularizer: regularizers, as in `keras.layers.Dense`.
        kernel_constraint, bias_constraint: constraints, as in `keras.layers.Dense`.
        **kwargs: `name`, `dtype` and `trainable`, as in `keras.layers.Layer`.

    Call arguments:
        inputs: tensor (batch, length, hidden_dim).
        is_continued: boolean tensor that broadcasts to (batch, length), False where a position
            starts from an empty state. If None, only the first position does.

    Returns:
        Tensor (batch, length, hidden_dim), with the Keras mask of `inputs`.

    Raises:
        ValueError: `inputs` is not of rank 3.

    Example:
        >>> import numpy as np
        >>> tuple(SSRU()(np.ones((1, 3, 4), "float32")).shape)
        (1, 3, 4)

    Reference: Kim et al., "From Research to Production and Back: Ludicrously Fast Neural Machine
        Translation", 2019, section 3.1.
    """

    def __init__(
        self,
        *,
        kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)

    def build(self, inputs_shape: Shape) -> None:
        hidden_dim = known_width("inputs", inputs_shape)
        for name in ("candidate", "gate"):
            dense = Dense(
                hidden_dim,
                use_bias=name == "gate",
                **self.kernel_options(),
                dtype=self.dtype_policy,
                name=name,
            )
            dense.build(inputs_shape)
            setattr(self, name, dense)
        self.finish_build()

    def call(self, inputs: Tensor, is_continued: Tensor = None) -> Tensor:
        check_vectors("inputs", inputs.shape)
        kept, added = self._kept_and_added(inputs)
        if is_continued is not None:
            kept = kept * ops.cast(ops.expand_dims(is_continued, -1), kept.dtype)
        return ops.cast(ops.relu(_all_states(kept, added)), inputs.dtype)

    def step(self, inputs: Tensor, state: RecurrentState) -> tuple[Tensor, RecurrentState]:
        """Process one position for every hypothesis.

        Args:
            inputs: tensor (batch, beams, hidden_dim).
            state: state of the previous position, or from `start_cache`.

        Returns:
            outputs: tensor (batch, beams, hidden_dim).
            state: state of this position, with the same shape as the given state.
        """
        kept, added = self._kept_and_added(inputs)
        values = kept * ops.reshape(state.values, ops.shape(kept)) + added
        outputs = ops.cast(ops.relu(values), inputs.dtype)
        return outputs, RecurrentState(ops.reshape(values, ops.shape(state.values)))

    def start_cache(self, batch_size: Tensor, beam_size: Tensor) -> RecurrentState:
        """Return the empty state before the first position.

        Args:
            batch_size, beam_size: ints or scalar integer tensors.
        """
        hidden_dim = self.gate.kernel.shape[-1]
        dtype = "float64" if self.compute_dtype == "float64" else "float32"
        return RecurrentState(ops.zeros((batch_size, beam_size, hidden_dim), dtype=dtype))

    def _kept_and_added(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Return the gate and the term to add to the kept part of the state, in float32.

        A state is a sum over all earlier positions, for which bfloat16 is not precise enough.
        """
        dtype = precise_dtype(inputs)
        gate = ops.sigmoid(ops.cast(self.gate(inputs), dtype))
        return gate, (1 - gate) * ops.cast(self.candidate(inputs), dtype)


def _all_states(kept: Tensor, added: Tensor) -> Tensor:
    """Compute the states `s[t] = kept[t] * s[t - 1] + added[t]`, starting from an empty state.

    Each pass doubles the number of positions that a state covers (Hillis and Steele, "Data Parallel
    Algorithms", 1986). `keras.ops.associative_scan` requires a known length.

    Args:
        kept, added: float tensors (batch, length, hidden_dim).
    """
    length = kept.shape[1]
    pair = (kept, added)
    for doubling in range(_MOST_DOUBLINGS if length is None else (length - 1).bit_length()):
        doubled = functools.partial(_doubled, *pair, 2**doubling)
        if length is None:
            is_longer = ops.shape(kept)[1] > 2**doubling
            pair = ops.cond(is_longer, doubled, functools.partial(tuple, pair))
        else:
            pair = doubled()
    return pair[1]


def _doubled(kept: Tensor, added: Tensor, seen: int) -> tuple[Tensor, Tensor]:
    """Extend `kept` and `added` from the last `seen` to the last `2 * seen` positions."""
    return kept * _moved(kept, seen), added + kept * _moved(added, seen)


def _moved(values: Tensor, places: int) -> Tensor:
    """Move values (batch, length, hidden_dim) to later positions, after zeros.

    LiteRT also prepares the branches of `_all_states` that it does not run, and could not prepare
    `ops.pad` for 2 ** 30 places.
    """
    return ops.concatenate([ops.zeros_like(values[:, :places]), values[:, :-places]], axis=1)
