"""The simpler simple recurrent unit, which decoders have in place of self-attention."""

import functools
from typing import Any, NamedTuple

import keras
from keras import ops

from keras_transformer.argument_checks import check_vectors, known_width
from keras_transformer.layers.dense import Dense, precise_dtype
from keras_transformer.layers.kernel_layer import KernelLayer
from keras_transformer.types import Shape, Tensor

_MOST_DOUBLINGS = 31  # lengths are int32


class RecurrentState(NamedTuple):
    """What the unit keeps of earlier positions: one vector for each hypothesis."""

    values: Tensor  # float32 (rows, beams, hidden_dim)


@keras.saving.register_keras_serializable(package="keras_transformer")
class SSRU(KernelLayer):
    """A recurrent unit of one gate, the decoder's substitute for self-attention in small models.

    Position t reads its input and the state of position t - 1:

        gate = sigmoid(inputs[t] @ W_gate + b_gate)
        state = gate * state + (1 - gate) * (inputs[t] @ W_candidate)
        outputs[t] = relu(state)

    The gate does not depend on the state, so `call` computes all positions together, in about
    log2(length) passes. `step` computes one position from a state of constant size: unlike
    attention, the cost of a step does not grow with the output.

    Args:
        kernel_initializer, bias_initializer: initializers of the two matrices and of the bias.
        kernel_regularizer, bias_regularizer: regularizers, as of `keras.layers.Dense`.
        kernel_constraint, bias_constraint: constraints, as of `keras.layers.Dense`.
        **kwargs: `name`, `dtype` and `trainable`, as of `keras.layers.Layer`.

    Call arguments:
        inputs: tensor (batch, length, hidden_dim).
        is_continued: boolean tensor that broadcasts to (batch, length), False where a position
            starts from an empty state, as the first one always does; None: no other position does.

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
        """One position of every hypothesis.

        Args:
            inputs: tensor (batch, beams, hidden_dim).
            state: that of the position before, or of `start_cache`.

        Returns:
            outputs: tensor (batch, beams, hidden_dim).
            state: that of this position, in the shape of the given one.
        """
        kept, added = self._kept_and_added(inputs)
        values = kept * ops.reshape(state.values, ops.shape(kept)) + added
        outputs = ops.cast(ops.relu(values), inputs.dtype)
        return outputs, RecurrentState(ops.reshape(values, ops.shape(state.values)))

    def start_cache(self, batch_size: Tensor, beam_size: Tensor) -> RecurrentState:
        """The empty state before the first position.

        Args:
            batch_size, beam_size: ints or scalar integer tensors.
        """
        hidden_dim = self.gate.kernel.shape[-1]
        dtype = "float64" if self.compute_dtype == "float64" else "float32"
        return RecurrentState(ops.zeros((batch_size, beam_size, hidden_dim), dtype=dtype))

    def _kept_and_added(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """The gate, and what is added to the kept part of a state; in float32.

        A state is a sum over all earlier positions, which bfloat16 would spoil.
        """
        dtype = precise_dtype(inputs)
        gate = ops.sigmoid(ops.cast(self.gate(inputs), dtype))
        return gate, (1 - gate) * ops.cast(self.candidate(inputs), dtype)

    def compute_output_shape(self, inputs_shape: Shape) -> Shape:
        return tuple(inputs_shape)


def _all_states(kept: Tensor, added: Tensor) -> Tensor:
    """The states `s[t] = kept[t] * s[t - 1] + added[t]` of all positions, from an empty state.

    Every pass doubles the number of positions that a state has seen (Hillis and Steele, "Data
    Parallel Algorithms", 1986). `keras.ops.associative_scan` needs to know the length.

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
    """`kept` and `added` over the last `2 * seen` positions, from those over the last `seen`."""
    before = [[0, 0], [seen, 0], [0, 0]]
    earlier = ops.pad(added[:, :-seen], before)
    return kept * ops.pad(kept[:, :-seen], before), added + kept * earlier
