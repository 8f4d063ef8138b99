"""The output layer of a model whose training does not need all logits at once."""

from collections.abc import Callable, Iterable
from typing import Any

import keras
from keras import ops

from keras_transformer.layers import PositionalEmbedding
from keras_transformer.layers.token_embedding import TokenEmbedding
from keras_transformer.losses import LabelSmoothingCrossEntropy
from keras_transformer.losses.token_scores import TokenScores
from keras_transformer.metrics import Perplexity, StepLoss, TokenAccuracy, TokenLoss


class VocabularyHead:
    """The embedding that turns a functional model's last vectors into logits.

    Args:
        trunk: the model up to these vectors, (batch, length, hidden_dim).
        embedding: the embedding.
    """

    def __init__(self, trunk: keras.Model, embedding: TokenEmbedding) -> None:
        self.trunk = trunk
        self.embedding = embedding

    @classmethod
    def find(cls, inputs: Any, outputs: Any) -> "VocabularyHead | None":
        """The head of the graph from `inputs` to `outputs`; None if it ends differently."""
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
        """Whether the logits are a product with one matrix that is not quantized."""
        return self.embedding.quantization_mode is None

    def scores(self, score: Callable[..., TokenScores], inputs: Any, **options: Any) -> TokenScores:
        """What `score` returns for the vectors, the matrix and the bias.

        Args:
            score: `training.scores_in_blocks` for a batch.
            inputs: inputs of the model.
            **options: options of the model's `call`.
        """
        embedding, bias = self.embedding, self.embedding.logits_bias
        hidden = ops.cast(self.trunk.call(inputs, **options), embedding.compute_dtype)
        bias = None if bias is None else ops.cast(bias, "float32")
        return score(hidden, embedding.output_matrix(), bias)


def needs_scores_alone(loss: Any, metrics: Iterable[Any]) -> bool:
    """Whether the `TokenScores` of a loss suffice for the loss and metrics, without the logits."""
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
