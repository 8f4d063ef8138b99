"""Validation batches that are the same at every validation."""

import inspect
import itertools
from collections.abc import Iterable, Sequence
from typing import TypeVar

import keras

Data = TypeVar("Data", bound=Iterable[object] | None)


class FixedBatches(keras.utils.PyDataset):
    """Batches in memory, each as `fit` takes it."""

    def __init__(self, batches: Sequence[object]) -> None:
        super().__init__()
        self.batches = batches

    def __len__(self) -> int:
        return len(self.batches)

    def __getitem__(self, index: int) -> object:
        return self.batches[index]


def fixed_batches(validation_data: Data, steps: int | None) -> Data | FixedBatches:
    """Keep the first batches of a generator in memory; return other data unchanged.

    A generator cannot restart: Keras would read its first two batches at each validation and
    continue after those of the previous one, so each validation would see other sentences.
    """
    if not inspect.isgenerator(validation_data) or steps is None:
        return validation_data
    return FixedBatches(list(itertools.islice(validation_data, steps)))
