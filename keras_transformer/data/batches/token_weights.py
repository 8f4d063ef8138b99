"""Weights with which the sum of token losses is their mean over a global batch."""

import numpy as np
from numpy.typing import NDArray


def token_weights(labels: NDArray[np.integer], padding_id: int) -> NDArray[np.float32]:
    """Weight every target token by one over the number of target tokens of the global batch.

    The sum of token losses with these weights is their mean over real tokens, however the batch is
    later split over replicas or micro-batches.

    Args:
        labels: `(batch, target_length)`, the whole global batch.
        padding_id: id of padding, which gets weight 0.

    Returns:
        Weights in the shape of the labels, with sum 1.
    """
    is_token = labels != padding_id
    return is_token.astype("float32") / np.float32(np.count_nonzero(is_token))
