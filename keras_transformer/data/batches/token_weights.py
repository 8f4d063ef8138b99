"""The one home of the weights that make a sum of token losses the mean over a global batch."""

import numpy as np


def token_weights(labels, padding_id):
    """Weight every target token by one over the number of target tokens of the global batch.

    Multiplied with these and summed, token losses give their mean over real tokens, whatever way
    the batch is later split over replicas or micro-batches.

    Args:
        labels: int array `(batch, target_length)`, the whole global batch.
        padding_id: id of padding, which weighs nothing.

    Returns:
        A float32 array of the labels' shape whose sum is 1.
    """
    is_token = labels != padding_id
    return is_token.astype("float32") / np.float32(np.count_nonzero(is_token))
