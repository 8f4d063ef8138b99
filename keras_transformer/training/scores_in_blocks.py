"""The scores of a batch and the gradient of its loss in one pass, without keeping its logits."""

from collections.abc import Callable, Sequence
from typing import Any

import keras
from keras import ops

from keras_transformer.backend_start import has_accelerator
from keras_transformer.losses.cross_entropy import token_values
from keras_transformer.losses.label_smoothing_cross_entropy import LabelSmoothingCrossEntropy
from keras_transformer.losses.token_batch import is_id, to_labels, weighted_ids
from keras_transformer.losses.token_scores import TokenScores, TokenValues
from keras_transformer.types import Tensor

# Maximum bytes of one block's float32 logits; a GPU needs large products.
BLOCK_BYTES, BLOCK_BYTES_OF_ACCELERATORS = 2**27, 2**29
_VALUES = ["float32"] * len(TokenValues._fields)


def scores_in_blocks(
    loss: LabelSmoothingCrossEntropy,
    y_true: Tensor,
    sample_weight: Tensor,
    hidden: Tensor,
    output_matrix: Tensor,
    bias: Tensor | None = None,
    *,
    scale: Any = 1.0,
    needs_gradient: bool = True,
) -> TokenScores:
    """Return the `TokenScores` of the logits `hidden x output_matrix + bias`.

    The tokens are read in blocks. Because the loss and its weights are known, a block's logits
    immediately give their gradient, and its products with the matrix and the vectors: no logits are
    kept or recomputed. Products have the dtype of `hidden`; logits, values and sums over blocks are
    float32.

    Args:
        loss: the loss of the training, float32, with a scalar reduction.
        y_true: labels, as the loss takes them.
        sample_weight: weights or None, as the loss takes them.
        hidden: floats (batch, length, hidden_dim).
        output_matrix: floats (hidden_dim, vocabulary_size), of the same dtype.
        bias: float32 (vocabulary_size,), or None.
        scale: number by which the loss will be multiplied, so that no token's gradient is too
            small for float16.
        needs_gradient: whether `slope` has a gradient, which takes two thirds of the time.

    Raises:
        ValueError: the same errors as the loss.

    Reference: Hsu et al., "Liger Kernel: Efficient Triton Kernels for LLM Training", 2024, section
    3.2, fused linear cross entropy. Wijmans et al., "Cut Your Losses in Large-Vocabulary Language
    Models", 2024, read the vocabulary in blocks instead and compute the logits twice.
    """
    shape = (*hidden.shape[:-1], output_matrix.shape[-1])
    ids = ops.cast(to_labels(y_true, shape), "int32")
    ids = ops.where(is_id(ids, shape[-1]), ids, 0)
    _, weights = weighted_ids(
        y_true, shape, sample_weight, loss.padding_id, vocabulary_size=loss.vocabulary_size
    )
    blocks = _Blocks(hidden, shape[-1])
    inputs = [blocks.split(each) for each in (ids, weights * scale)]
    options = (loss.label_smoothing, loss.vocabulary_size)

    def logits_of(rows: Tensor, matrix: Tensor, bias: Sequence[Tensor]) -> Tensor:
        logits = ops.cast(ops.matmul(rows, matrix), "float32")
        return ops.add(logits, bias[0]) if bias else logits

    def values_of(hidden: Tensor, matrix: Tensor, *bias: Tensor) -> TokenValues:
        def read(sums: list[Tensor], block: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
            rows, ids, _ = block
            values, _ = token_values(ids, logits_of(rows, matrix, bias), *options)
            return sums, list(values)

        _, values = blocks.scan(read, [], [blocks.split(hidden), *inputs], _VALUES)
        return TokenValues(*map(blocks.join, values))

    @ops.custom_gradient
    def with_gradient(hidden: Tensor, matrix: Tensor, *bias: Tensor) -> tuple[Any, Callable]:
        transposed = ops.transpose(matrix)

        def read(sums: list[Tensor], block: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
            rows, ids, weights = block
            values, gradient_of = token_values(ids, logits_of(rows, matrix, bias), *options)
            by_logits = gradient_of(weights)
            low = ops.cast(by_logits, rows.dtype)
            found = [ops.matmul(ops.transpose(rows), low)]
            found += [ops.sum(by_logits, axis=0)] if bias else []
            sums = [
                ops.add(s, ops.cast(each, "float32")) for s, each in zip(sums, found, strict=True)
            ]
            return sums, [ops.matmul(low, transposed), *values]

        nothing = [ops.zeros(each.shape, "float32") for each in (matrix, *bias)]
        sums, (by_hidden, *values) = blocks.scan(
            read, nothing, [blocks.split(hidden), *inputs], [hidden.dtype, *_VALUES]
        )
        gradients = [blocks.join(by_hidden), *sums]

        def gradient(*upstream: Any) -> tuple[Tensor, ...]:
            factor = keras.tree.flatten(upstream)[0] / scale
            return tuple(
                ops.cast(factor * ops.cast(each, "float32"), of.dtype)
                for each, of in zip(gradients, (hidden, matrix, *bias), strict=True)
            )

        return (ops.zeros(()), *map(blocks.join, values)), gradient

    parameters = [hidden, output_matrix] + ([] if bias is None else [bias])
    if not needs_gradient:
        return TokenScores(values_of(*parameters), ops.zeros(()), shape[-1])
    slope, *values = with_gradient(*parameters)
    return TokenScores(TokenValues(*map(ops.stop_gradient, values)), slope, shape[-1])


class _Blocks:
    """Splits the tokens of a batch into blocks.

    Block j of n holds tokens j, j + n, j + 2 n and so on: if the rows of a batch are on several
    devices, every block gets its share of each device's rows.
    """

    def __init__(self, hidden: Tensor, vocabulary_size: int) -> None:
        self.shape = ops.shape(hidden)[:-1]
        size = BLOCK_BYTES_OF_ACCELERATORS if has_accelerator() else BLOCK_BYTES
        most = max(1, size // (4 * vocabulary_size))
        self.tokens = self.shape[0] * self.shape[1]
        self.number = self.tokens // most + 1
        self.size = (self.tokens + self.number - 1) // self.number

    def split(self, values: Tensor) -> Tensor:
        """(batch, length, ...) -> (size, number, ...), padded with zeros."""
        rest = tuple(values.shape[2:])
        values = ops.reshape(values, (self.tokens, *rest))
        missing = self.number * self.size - self.tokens
        if not isinstance(missing, int) or missing:
            values = ops.concatenate([values, ops.zeros((missing, *rest), values.dtype)])
        return ops.reshape(values, (self.size, self.number, *rest))

    def join(self, values: Tensor) -> Tensor:
        """(number, size, ...) -> (batch, length, ...)."""
        rest = tuple(values.shape[2:])
        values = ops.reshape(ops.swapaxes(values, 0, 1), (self.number * self.size, *rest))
        return ops.reshape(values[: self.tokens], (*self.shape, *rest))

    def scan(
        self,
        read: Callable[..., Any],
        sums: list[Tensor],
        inputs: list[Tensor],
        dtypes: Sequence[str],
    ) -> tuple[list[Tensor], list[Tensor]]:
        """Read the blocks one after another, with the memory of one block.

        Args:
            read: maps sums and a block of every input to new sums and the block's outputs.
            sums: the initial sums.
            inputs: tensors (size, number, ...).
            dtypes: dtypes of the outputs.

        Returns:
            sums: the final sums.
            outputs: tensors (number, size, ...).
        """
        if keras.backend.backend() == "jax":
            import jax

            return jax.lax.scan(read, sums, [jax.numpy.swapaxes(each, 0, 1) for each in inputs])
        import tensorflow as tf

        def read_one(index, sums, outputs):
            # Not transposed beforehand: oneDNN logs an error if it cannot transpose integers.
            sums, found = read(sums, [tf.gather(each, index, axis=1) for each in inputs])
            pairs = zip(outputs, found, strict=True)
            return index + 1, sums, [array.write(index, value) for array, value in pairs]

        outputs = [tf.TensorArray(dtype, self.number) for dtype in dtypes]
        _, sums, outputs = tf.while_loop(
            lambda index, sums, outputs: index < self.number,
            read_one,
            (0, sums, outputs),
            parallel_iterations=1,  # the memory of one block
            maximum_iterations=self.number,
        )
        return sums, [array.stack() for array in outputs]
