"""Whether a model has a position for every token."""

import math
from typing import Any

import keras

from keras_transformer.data import BatchReader
from keras_transformer.errors import UserInputError
from keras_transformer.layers import PositionalEmbedding


def check_positions(model: keras.Model, *readers: Any) -> None:
    """Refuse text with a sentence that has more tokens, EOS counted, than a model has positions.

    `readers` other than `data.BatchReader` are passed over.
    """
    limits = [
        layer.kind.limit
        for layer in model.layers
        if isinstance(layer, PositionalEmbedding) and layer.kind.limit is not None
    ]
    plans = [reader.plan for reader in readers if isinstance(reader, BatchReader)]
    lengths = [side.max() for plan in plans for side in (plan.source_lengths, plan.target_lengths)]
    longest, most = max(lengths, default=0), min(limits, default=math.inf)
    sampled = [x.plan.batch_tokens for x in readers if isinstance(x, BatchReader) and x.is_sampled]
    if longest <= most < max(sampled, default=0):
        raise UserInputError(
            "`max_length` must be at least `batch_tokens` where subwords are sampled: a sentence "
            f"may get so many. Received: max_length={most}, batch_tokens={max(sampled)}"
        )
    if longest > most:
        raise UserInputError(
            f"`max_length` must be at least {longest}, the tokens of the longest sentence, or "
            f"longer ones must go. Received: max_length={most}"
        )
