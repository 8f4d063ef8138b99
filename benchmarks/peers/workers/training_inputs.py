"""Training input as read by the workers: one full batch.

Axes in the shape comments:
    batch    sentence pairs
    length   positions on a side
"""

from typing import NamedTuple

import numpy as np

DROPOUT = 0.1
LABEL_SMOOTHING = 0.1
LEARNING_RATE = 1e-4
ADAM = {"beta_1": 0.9, "beta_2": 0.98, "epsilon": 1e-9}


class TrainingBatch(NamedTuple):
    """A batch without padding."""

    source_ids: np.ndarray  # int32 (batch, length)
    target_ids: np.ndarray  # int32 (batch, length), the decoder input: BOS, tokens
    labels: np.ndarray  # int32 (batch, length): tokens, EOS


def read_batch(path: str) -> TrainingBatch:
    """Read the batch from a file."""
    with np.load(path) as arrays:
        return TrainingBatch(*(arrays[name] for name in TrainingBatch._fields))
