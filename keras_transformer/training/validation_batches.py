"""Validation batches that are the same at every validation."""

import inspect
import itertools

import keras


class FixedBatches(keras.utils.PyDataset):
    """Batches in memory, each as `fit` takes it."""

    def __init__(self, batches):
        super().__init__()
        self.batches = batches

    def __len__(self):
        return len(self.batches)

    def __getitem__(self, index):
        return self.batches[index]


def fixed_batches(validation_data, steps):
    """Hold the first batches of a generator; return other data as they are.

    A generator cannot begin anew. Keras reads its first two batches again at each validation and
    goes on behind those of the one before, so each would be of other sentences.
    """
    if not inspect.isgenerator(validation_data) or steps is None:
        return validation_data
    return FixedBatches(list(itertools.islice(validation_data, steps)))
