"""Whether a model has a position for every token, where it learns them."""

import math

from keras_transformer.data import BatchReader
from keras_transformer.errors import UserInputError
from keras_transformer.layers import PositionalEmbedding


def check_positions(model, *readers):
    """Refuse text with a sentence that is longer than a model's learned positions.

    Of `readers`, what is no `data.BatchReader` is passed over. End of sentence counts.
    """
    limits = [
        layer.max_length
        for layer in model.layers
        if isinstance(layer, PositionalEmbedding) and layer.positions == "learned"
    ]
    plans = [reader.plan for reader in readers if isinstance(reader, BatchReader)]
    lengths = [side.max() for plan in plans for side in (plan.source_lengths, plan.target_lengths)]
    longest, most = max(lengths, default=0), min(limits, default=math.inf)
    if longest > most:
        raise UserInputError(
            f"`max_length` must be at least {longest}, the tokens of the longest sentence, or "
            f"longer ones must go. Received: max_length={most}"
        )
