"""Mean of a value over target tokens: what perplexity and accuracy have in common."""

import abc

import keras
from keras import ops

from keras_transformer.argument_checks import KeepsArguments, check_non_negative_int
from keras_transformer.losses.token_batch import sum_dtype, token_batch
from keras_transformer.types import Tensor


class TokenMean(KeepsArguments, keras.metrics.Metric, abc.ABC):
    """Mean of a value over all real tokens.

    Subclasses implement `token_values`. The total and the number of tokens are summed over batches
    and replicas, so that each token has the same weight whatever its batch. Both are float32 under
    every dtype policy, or float64 if `dtype` says so.
    """

    def __init__(
        self,
        padding_id: int = 0,
        name: str | None = None,
        dtype: str | keras.DTypePolicy | None = None,
    ) -> None:
        check_non_negative_int("padding_id", padding_id)
        super().__init__(name=name, dtype=sum_dtype(dtype))
        self.total = self.add_variable((), "zeros", dtype=self.dtype, name="total")
        self.tokens = self.add_variable((), "zeros", dtype=self.dtype, name="tokens")

    @abc.abstractmethod
    def token_values(self, labels: Tensor, logits: Tensor) -> Tensor:
        """Return the value of each token, (batch, target_length)."""

    def update_state(self, y_true: Tensor, y_pred: Tensor, sample_weight: Tensor = None) -> None:
        """Add a batch: labels (batch, length), logits (batch, length, vocabulary_size)."""
        ids, logits, weights = token_batch(
            y_true, y_pred, sample_weight, self.padding_id, dtype=self.dtype
        )
        values = ops.cast(self.token_values(ids, logits), self.dtype)
        self.total.assign_add(ops.sum(values * weights))
        self.tokens.assign_add(ops.sum(weights))

    def result(self) -> Tensor:
        """Return the mean over all tokens so far; 0 before the first."""
        return ops.divide_no_nan(self.total, self.tokens)
