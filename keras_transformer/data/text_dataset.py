"""Text batches as a `keras.utils.PyDataset`."""

import itertools
from typing import Any

import keras

from keras_transformer.data.batch_cells import PaddedShape
from keras_transformer.data.batch_reader import Batch, BatchReader


class TextDataset(keras.utils.PyDataset):
    """The batches of a reader, epoch by epoch, with a mask of real tokens as weights.

    Args:
        reader: the batch reader; its plan must have fixed shapes.
        row_multiple: see `BatchReader.batch`.
        for_language_model: whether to use the targets as the only input, named `token_ids`.
        **options: see `keras.utils.PyDataset`.
    """

    def __init__(
        self, reader: BatchReader, row_multiple: int, for_language_model: bool, **options: Any
    ) -> None:
        super().__init__(**options)
        self.reader = reader
        self._row_multiple = row_multiple
        self._for_language_model = for_language_model
        self._epoch = 0
        self._steps = self._order()

    def __len__(self) -> int:
        return self.reader.plan.steps_per_epoch

    def __getitem__(self, index: int) -> Batch:
        inputs, labels, weights = self.reader.batch(self._steps[index], self._row_multiple)
        if self._for_language_model:
            inputs = {"token_ids": inputs["target_ids"]}
        return inputs, labels, (weights > 0).astype("float32")

    def on_epoch_end(self) -> None:
        """Continue with the next epoch of the plan."""
        self._epoch += 1
        self._steps = self._order()

    def _order(self) -> list[int]:
        """Return the steps of this epoch in reading order.

        If the first two batches share a length, Keras on TensorFlow assumes that all batches have
        that length. The first two batches therefore differ in both lengths whenever possible.
        """
        plan = self.reader.plan
        steps = range(self._epoch * len(self), (self._epoch + 1) * len(self))
        pairs = itertools.combinations_with_replacement(plan.shapes or [], 2)
        leading = [
            next(step for step in steps if plan.padded_shape(step) == shape)
            for shape in max(pairs, key=_differing_lengths)
        ]
        return list(dict.fromkeys([*leading, *steps]))


def _differing_lengths(pair: tuple[PaddedShape, PaddedShape]) -> int:
    (_, *first), (_, *second) = pair
    return sum(a != b for a, b in zip(first, second, strict=True))
