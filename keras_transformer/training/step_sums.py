"""The sums over a training step, with logits computed in blocks."""

import contextlib
import contextvars
import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import keras
from keras import ops

from keras_transformer.argument_checks import python_number
from keras_transformer.installation import has_accelerator
from keras_transformer.layers import PositionalEmbedding
from keras_transformer.layers.embeddings import TokenEmbedding
from keras_transformer.losses import (
    LabelSmoothingCrossEntropy,
    TokenModel,
    TokenScores,
    TokenValues,
    is_id,
    kept_mask,
    paired_divergence,
    to_labels,
    token_batch,
    token_values,
    weighted_ids,
)
from keras_transformer.metrics import Perplexity, StepLoss, TokenAccuracy, TokenLoss
from keras_transformer.training.devices.device_start import compiles_by_default
from keras_transformer.types import SpecialTokens, Tensor


class VocabularyHead(NamedTuple):
    """The embedding that converts the final vectors of a functional model to logits.

    Args:
        trunk: the model up to the final vectors (batch, length, hidden_dim).
        embedding: the embedding.
    """

    trunk: keras.Model
    embedding: TokenEmbedding

    @classmethod
    def find(cls, inputs: Any, outputs: Any) -> "VocabularyHead | None":
        """Return the head of the graph from `inputs` to `outputs`, or None if there is none."""
        if not isinstance(outputs, keras.KerasTensor):
            return None
        layer, node, _ = outputs._keras_history
        if type(layer) is not PositionalEmbedding:
            return None
        arguments = layer._inbound_nodes[node].arguments
        if not arguments.kwargs.get("reverse"):
            return None
        return cls(keras.Model(inputs, arguments.keras_tensors[0]), layer.token_embedding)

    @property
    def is_plain(self) -> bool:
        """Whether the logits are the product with a single unquantized matrix."""
        return self.embedding.quantization_mode is None

    def scores(self, score: Callable[..., TokenScores], inputs: Any, **options: Any) -> TokenScores:
        """Apply `score` to the vectors, the matrix and the bias.

        Args:
            score: `training.scores_in_blocks` for a batch.
            inputs: inputs of the model.
            **options: options of the model's `call`.
        """
        embedding, bias = self.embedding, self.embedding.logits_bias
        hidden = self.trunk.call(inputs, **options)
        mask = kept_mask(hidden)
        hidden = ops.cast(hidden, embedding.compute_dtype)
        bias = None if bias is None else ops.cast(bias, "float32")
        return score(hidden, embedding.output_matrix(), bias, mask)


def needs_scores_alone(loss: Any, metrics: Iterable[Any]) -> bool:
    """Return whether `TokenScores` are sufficient for a loss and metrics, without the logits."""
    losses = [loss, *(metric.loss for metric in metrics if isinstance(metric, _OF_LOSSES))]
    return (
        all(type(metric) in (*_OF_LOSSES, Perplexity, TokenAccuracy) for metric in metrics)
        and all(type(each) is LabelSmoothingCrossEntropy for each in losses)
        and all(each.dtype == "float32" for each in (*losses, *metrics))
        and loss.reduction not in (None, "none")
        and all(_smoothing(each) == _smoothing(loss) for each in losses if each.label_smoothing)
    )


_OF_LOSSES = (StepLoss, TokenLoss)


def _smoothing(loss: LabelSmoothingCrossEntropy) -> tuple[float, int | None]:
    return loss.label_smoothing, loss.vocabulary_size


# Maximum size in bytes of the float32 logits in a block; GPUs need large products.
BLOCK_BYTES, BLOCK_BYTES_OF_ACCELERATORS = 2**27, 2**29
_VALUES = ["float32"] * len(TokenValues._fields)


def scores_in_blocks(
    loss: LabelSmoothingCrossEntropy,
    y_true: Tensor,
    sample_weight: Tensor,
    hidden: Tensor,
    output_matrix: Tensor,
    bias: Tensor | None = None,
    mask: Tensor | None = None,
    *,
    scale: Any = 1.0,
    needs_gradient: bool = True,
) -> TokenScores:
    """Return the `TokenScores` of the logits `hidden x output_matrix + bias`.

    The tokens are processed in blocks. Because the loss and its weights are known in advance, the
    gradients of a block can be computed as soon as its logits are available. No logits need to be
    stored or recomputed. Products have the dtype of `hidden`; logits, values and sums over blocks
    are float32.

    Args:
        loss: float32 training loss with a scalar reduction.
        y_true: labels in the format that the loss accepts.
        sample_weight: weights in the format that the loss accepts, or None.
        hidden: floats (batch, length, hidden_dim).
        output_matrix: floats (hidden_dim, vocabulary_size) with the same dtype.
        bias: float32 (vocabulary_size,), or None.
        mask: the `kept_mask` of the logits. None uses the mask of `hidden`.
        scale: factor by which the loss will be multiplied to keep the gradient of each token
            representable in float16.
        needs_gradient: whether `slope` needs a gradient, which accounts for two thirds of the time.

    Raises:
        ValueError: the loss rejects the arguments.

    Reference: Hsu et al., "Liger Kernel: Efficient Triton Kernels for LLM Training", 2024, section
    3.2, fused linear cross entropy. Wijmans et al., "Cut Your Losses in Large-Vocabulary Language
    Models", 2024, process the vocabulary in blocks instead and compute the logits twice.
    """
    shape = (*hidden.shape[:-1], output_matrix.shape[-1])
    ids = ops.cast(to_labels(y_true, shape), "int32")
    ids = ops.where(is_id(ids, shape[-1]), ids, 0)
    mask = kept_mask(hidden) if mask is None else mask
    _, weights = weighted_ids(
        y_true, shape, sample_weight, loss.padding_id, mask, vocabulary_size=loss.vocabulary_size
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
        return TokenScores(values_of(*parameters), ops.zeros(()), mask, shape[-1])
    slope, *values = with_gradient(*parameters)
    values = TokenValues(*map(ops.stop_gradient, values))
    return TokenScores(values, slope, mask, shape[-1])


class _Blocks:
    """Splits the tokens of a batch into blocks.

    Block j of n contains tokens j, j + n, j + 2 n and so on: if the rows of a batch are on several
    devices, each block contains a share of each device's rows.
    """

    def __init__(self, hidden: Tensor, vocabulary_size: int) -> None:
        self.shape = ops.shape(hidden)[:-1]
        size = BLOCK_BYTES_OF_ACCELERATORS if has_accelerator() else BLOCK_BYTES
        most = max(1, size // (4 * vocabulary_size))
        self.tokens = self.shape[0] * self.shape[1]
        self.number = self.tokens // most + 1
        self.size = (self.tokens + self.number - 1) // self.number

    def split(self, values: Tensor) -> Tensor:
        """Reshape (batch, length, ...) to (size, number, ...), padded with zeros."""
        rest = tuple(values.shape[2:])
        values = ops.reshape(values, (self.tokens, *rest))
        missing = self.number * self.size - self.tokens
        if not isinstance(missing, int) or missing:
            values = ops.concatenate([values, ops.zeros((missing, *rest), values.dtype)])
        return ops.reshape(values, (self.size, self.number, *rest))

    def join(self, values: Tensor) -> Tensor:
        """Reshape (number, size, ...) to (batch, length, ...)."""
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
        """Process the blocks sequentially, using the memory of one block.

        Args:
            read: function that maps sums and a block of each input to new sums and outputs.
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
            # Do not transpose beforehand: oneDNN logs an error if it cannot transpose integers.
            sums, found = read(sums, [tf.gather(each, index, axis=1) for each in inputs])
            pairs = zip(outputs, found, strict=True)
            return index + 1, sums, [array.write(index, value) for array, value in pairs]

        outputs = [tf.TensorArray(dtype, self.number) for dtype in dtypes]
        _, sums, outputs = tf.while_loop(
            lambda index, sums, outputs: index < self.number,
            read_one,
            (0, sums, outputs),
            parallel_iterations=1,  # limit memory to one block
            maximum_iterations=self.number,
        )
        return sums, [array.stack() for array in outputs]


# The function that scores the batch of the current step. Keras traces the steps of several replicas
# in nested threads, and each thread has its own value.
_score: contextvars.ContextVar[Callable[..., TokenScores] | None] = contextvars.ContextVar(
    "score", default=None
)


class StepSums(TokenModel):
    """A functional model that processes a batch in `accumulate` slices, and twice for R-Drop.

    `step_losses` contains the `StepLoss` metrics passed to `compile`, which sum over the slices of
    a step. `with_xla` is True if XLA compiles the step, or each replica's part of the step.

    Steps compute the logits block by block if the model is from `build_transformer` and its loss
    and metrics are from this package; see `scoring`.
    """

    jit_compile: bool
    with_xla: bool
    packed_tokens: SpecialTokens | None = None  # for a model from `Transformer.packed`

    def __init__(
        self,
        inputs: Any,
        outputs: Any,
        accumulate: int = 1,
        r_drop: float = 0.0,
        name: str | None = None,
    ) -> None:
        super().__init__(inputs=inputs, outputs=outputs, name=name)
        self.accumulate = python_number(accumulate)
        self.r_drop = python_number(r_drop)
        # Hidden from Keras, which already tracks these layers.
        self.__dict__["_head"] = VocabularyHead.find(inputs, outputs)

    def call(self, inputs: Any, training: bool | None = None, mask: Any = None) -> Any:
        """Call the model. Within `scoring`, the outputs are the `TokenScores` of the batch."""
        score = _score.get()
        if score is None:
            return super().call(inputs, training=training, mask=mask)
        return self._head.scores(score, inputs, training=training, mask=mask)

    @contextlib.contextmanager
    def scoring(self, labels: Any, weights: Any, **options: Any) -> Iterator[None]:
        """Make calls in this context return `TokenScores` if the loss and metrics allow it.

        Args:
            labels, weights: labels and weights of the batch; weights may be None.
            **options: options of `training.scores_in_blocks`.
        """
        if not (self._needs_scores_alone and self._head and self._head.is_plain):
            yield
            return
        score = functools.partial(scores_in_blocks, self.loss, labels, weights, **options)
        token = _score.set(score)
        try:
            yield
        finally:
            _score.reset(token)

    def compile(self, *args: Any, **options: Any) -> None:
        """Compile like `keras.Model.compile`, refusing losses whose slices do not sum to the total.

        `jit_compile="auto"` compiles the step with XLA on a GPU, on a TPU and on JAX.
        """
        bound = inspect.signature(keras.Model.compile).bind(self, *args, **options)
        given = {name: value for name, value in bound.arguments.items() if name != "self"}
        if given.get("jit_compile", "auto") == "auto" and not given.get("run_eagerly"):
            given["jit_compile"] = compiles_by_default()
        metrics = keras.tree.flatten([given.get("metrics"), given.get("weighted_metrics")])
        metrics = [metric for metric in metrics if metric is not None]
        self.step_losses = [metric for metric in metrics if isinstance(metric, StepLoss)]
        self._needs_scores_alone = not self.r_drop and needs_scores_alone(
            given.get("loss"), metrics
        )
        if self._needs_weights:
            for loss in (given.get("loss"), *(metric.loss for metric in self.step_losses)):
                self._check_is_sum(loss)
        super().compile(**given)
        self.with_xla = self.jit_compile

    def _check_is_sum(self, loss: object) -> None:
        reduction = getattr(loss, "reduction", None)
        if reduction != "sum":
            raise ValueError(
                "`loss` must be a `keras.losses.Loss` with reduction 'sum' if `accumulate` is "
                f"above 1 or `r_drop` above 0, in `StepLoss` too. Received: loss={loss} with "
                f"reduction {reduction!r}, accumulate={self.accumulate}, r_drop={self.r_drop}"
            )

    @property
    def _needs_weights(self) -> bool:
        return self.accumulate > 1 or self.r_drop > 0

    def check_weights(self, data: Any) -> None:
        """Reject a batch without weights, because its loss may be a mean instead of a sum."""
        _, _, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
        if self._needs_weights and sample_weight is None:
            raise ValueError(
                "Batches must include weights if `accumulate` is above 1 or `r_drop` above 0. "
                f"Received: none, accumulate={self.accumulate}, r_drop={self.r_drop}"
            )

    def passes(self, data: Any) -> Any:
        """Return the rows of a training step; with R-Drop, each row twice with half its weight."""
        self.check_weights(data)
        if not self.r_drop:
            return data
        inputs, labels, weights = keras.tree.map_structure(
            lambda rows: ops.repeat(rows, 2, axis=0), data
        )
        return inputs, labels, weights / 2

    def compute_loss(
        self,
        x: Any = None,
        y: Any = None,
        y_pred: Any = None,
        sample_weight: Any = None,
        training: bool = True,
    ) -> Any:
        """Compute the loss. In training, add the R-Drop term for `passes`."""
        loss = super().compute_loss(x, y, y_pred, sample_weight, training)
        if not (self.r_drop and training):
            return loss
        padding_id = getattr(self.loss, "padding_id", -1)  # Keras losses lack this attribute
        _, logits, weights = token_batch(y, y_pred, sample_weight, padding_id)
        # Each row of a pair has half of a token's weight.
        divergence = ops.sum(paired_divergence(logits) * weights[::2])
        return loss + self.r_drop * divergence

    def check_rows(self, rows: int | None) -> None:
        """Reject rows that cannot be divided into equal slices; `rows` is None if unknown."""
        if rows is not None and rows % self.accumulate:
            raise ValueError(
                "The rows of a batch must be a multiple of replicas x `accumulate`. Received on "
                f"one replica: {rows} rows, accumulate={self.accumulate}"
            )
