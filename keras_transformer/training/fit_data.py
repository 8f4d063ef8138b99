"""The data of `fit`: what they must be, and the same batches at every validation."""

import inspect
import itertools
import math
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import keras

from keras_transformer.data import BatchReader
from keras_transformer.errors import UserInputError
from keras_transformer.layers import PositionalEmbedding
from keras_transformer.training.devices.devices import Devices

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


def validation_options(
    devices: Devices, validation: BatchReader | Iterable[object] | None, steps: int | None
) -> dict[str, Any]:
    """Return the arguments of `fit` for validation, from a reader or from other data."""
    if isinstance(validation, BatchReader):
        steps = validation.plan.steps_per_epoch
        validation = devices.batches(validation)
    return {"validation_data": fixed_batches(validation, steps), "validation_steps": steps}


def training_fingerprint(
    train: BatchReader, validation: BatchReader | Iterable[object] | None
) -> str:
    """Return what must stay the same on a resume: training batches and dev text."""
    if not isinstance(validation, BatchReader):
        return train.fingerprint
    return " ".join([train.fingerprint, *validation.corpus_fingerprints])


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
