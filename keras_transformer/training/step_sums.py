"""Base class of the training models: a step is the sum over slices of its batch."""

import contextlib
import contextvars
import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import keras
from keras import ops

from keras_transformer.argument_checks import python_number
from keras_transformer.losses.cross_entropy import paired_divergence
from keras_transformer.losses.token_batch import token_batch
from keras_transformer.losses.token_scores import TokenScores
from keras_transformer.metrics import StepLoss
from keras_transformer.special_tokens import SpecialTokens
from keras_transformer.training.devices.device_start import compiles_by_default
from keras_transformer.training.scores_in_blocks import scores_in_blocks
from keras_transformer.training.vocabulary_head import VocabularyHead, needs_scores_alone

# The function that scores the batch of the current step. Keras traces the steps of several replicas
# within one another, each in a thread, and every thread has its own value.
_score: contextvars.ContextVar[Callable[..., TokenScores] | None] = contextvars.ContextVar(
    "score", default=None
)


class StepSums(keras.Model):
    """A functional model that reads a batch in `accumulate` slices, and may read it twice (R-Drop).

    `step_losses` are the `StepLoss` metrics given to `compile`, which add up a step's slices.
    `with_xla` says whether XLA compiles the step, or each replica's part of it.

    Steps compute the logits block by block if the model is from `build_transformer` and its loss
    and metrics are from this package; see `scoring`.
    """

    jit_compile: bool
    with_xla: bool
    packed_tokens: SpecialTokens | None = None  # of a model from `Transformer.packed`

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
        # Hidden from Keras, which tracks these layers already.
        self.__dict__["_head"] = VocabularyHead.find(inputs, outputs)

    def call(self, inputs: Any, training: bool | None = None, mask: Any = None) -> Any:
        """Same as `keras.Model.call`; within `scoring`, the output is the batch's `TokenScores`."""
        score = _score.get()
        if score is None:
            return super().call(inputs, training=training, mask=mask)
        return self._head.scores(score, inputs, training=training, mask=mask)

    @contextlib.contextmanager
    def scoring(self, labels: Any, weights: Any, **options: Any) -> Iterator[None]:
        """Context in which calls return `TokenScores`, if loss and metrics need nothing else.

        Args:
            labels, weights: labels and weights of the batch; the weights may be None.
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
        """Same as `keras.Model.compile`; refuses a loss whose slices do not add up to the whole.

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
        """Refuse a batch without weights: its loss may be a mean, which slices do not add up to."""
        _, _, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
        if self._needs_weights and sample_weight is None:
            raise ValueError(
                "Batches must include weights if `accumulate` is above 1 or `r_drop` above 0. "
                f"Received: none, accumulate={self.accumulate}, r_drop={self.r_drop}"
            )

    def passes(self, data: Any) -> Any:
        """The rows that a training step reads; with R-Drop, each row twice at half its weight."""
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
        """Same as `keras.Model.compute_loss`; in training, it adds R-Drop's term for `passes`."""
        loss = super().compute_loss(x, y, y_pred, sample_weight, training)
        if not (self.r_drop and training):
            return loss
        padding_id = getattr(self.loss, "padding_id", -1)  # Keras's own losses have none
        _, logits, weights = token_batch(y, y_pred, sample_weight, padding_id)
        # Both rows of a pair have half the token's weight.
        divergence = ops.sum(paired_divergence(logits) * weights[::2])
        return loss + self.r_drop * divergence

    def check_rows(self, rows: int | None) -> None:
        """Refuse rows that do not divide into equal slices; None means not known yet."""
        if rows is not None and rows % self.accumulate:
            raise ValueError(
                "The rows of a batch must be a multiple of replicas x `accumulate`. Received on "
                f"one replica: {rows} rows, accumulate={self.accumulate}"
            )
