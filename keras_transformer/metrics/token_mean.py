"""Mean of a value over target tokens: what perplexity and accuracy have in common."""

import abc

import keras
from keras import ops

from keras_transformer.losses.cross_entropy import to_ids, to_logits


class TokenMean(keras.metrics.Metric, abc.ABC):
    """Total of a value over all tokens that are no padding, divided by their number.

    A subclass says in `token_values` what the value of a token is. The totals are summed over
    batches and replicas, so every token counts alike, whatever batch it was in. They are float32
    under every dtype policy.
    """

    def __init__(self, padding_id=0, name=None):
        super().__init__(name=name, dtype="float32")
        self.padding_id = padding_id
        self.total = self.add_variable((), "zeros", dtype="float32", name="total")
        self.tokens = self.add_variable((), "zeros", dtype="float32", name="tokens")

    @abc.abstractmethod
    def token_values(self, labels, logits):
        """Return the value of each token, (batch, target_length)."""

    def update_state(self, labels, logits, sample_weight=None):
        """Add a batch: labels (batch, length), logits (batch, length, vocabulary_size)."""
        labels = to_ids(labels)
        weights = ops.cast(ops.not_equal(labels, self.padding_id), "float32")
        if sample_weight is not None:
            weights = weights * ops.cast(sample_weight, "float32")
        values = ops.cast(self.token_values(labels, to_logits(logits)), "float32")
        self.total.assign_add(ops.sum(values * weights))
        self.tokens.assign_add(ops.sum(weights))

    def result(self):
        """Return the mean over all tokens seen, 0 if none."""
        return ops.divide_no_nan(self.total, self.tokens)

    def get_config(self):
        return {"padding_id": self.padding_id, "name": self.name}
