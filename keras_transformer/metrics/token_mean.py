"""Mean of a value over target tokens: what perplexity and accuracy have in common."""

import abc
from typing import Any

import keras
from keras import ops

from keras_transformer.argument_checks import check_non_negative_int, python_number
from keras_transformer.losses.cross_entropy import to_ids, to_logits, to_weights
from keras_transformer.types import Tensor


class TokenMean(keras.metrics.Metric, abc.ABC):
    """Mean of a value over all real tokens.

    Subclasses implement `token_values`. Total and number of tokens are summed over batches and
    replicas, so that each token has the same weight whatever its batch. They are float32 under
    every dtype policy.
    """

    def __init__(self, padding_id: int = 0, name: str | None = None) -> None:
        check_non_negative_int("padding_id", padding_id)
        super().__init__(name=name, dtype="float32")
        self.padding_id = python_number(padding_id)
        self.total = self.add_variable((), "zeros", dtype="float32", name="total")
        self.tokens = self.add_variable((), "zeros", dtype="float32", name="tokens")

    @abc.abstractmethod
    def token_values(self, labels: Tensor, logits: Tensor) -> Tensor:
        """Return the value of each token, (batch, target_length)."""

    def update_state(self, labels: Tensor, logits: Tensor, sample_weight: Tensor = None) -> None:
        """Add a batch: labels (batch, length), logits (batch, length, vocabulary_size)."""
        labels = to_ids(labels)
        weights = ops.cast(ops.not_equal(labels, self.padding_id), "float32")
        if sample_weight is not None:
            weights = weights * to_weights(sample_weight)
        values = ops.cast(self.token_values(labels, to_logits(logits)), "float32")
        self.total.assign_add(ops.sum(values * weights))
        self.tokens.assign_add(ops.sum(weights))

    def result(self) -> Tensor:
        """Return the mean over all tokens so far; 0 before the first."""
        return ops.divide_no_nan(self.total, self.tokens)

    def get_config(self) -> dict[str, Any]:
        return {"padding_id": self.padding_id, "name": self.name}
