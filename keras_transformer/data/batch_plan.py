"""Batch planning based only on sentence lengths."""

import functools
import hashlib
import threading
from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from keras_transformer.argument_checks import check_non_negative_int, check_positive_int
from keras_transformer.data.batch_cells import (
    PaddedShape,
    PairSlots,
    cut_batches,
    cut_cells,
    cut_shape_cells,
    length_order,
)
from keras_transformer.data.corpus_mixture import CorpusMixture
from keras_transformer.data.parallel_corpus import ParallelCorpus
from keras_transformer.errors import UserInputError, refuse

# A cell grows while its share of padding is at most CELL_PADDING, and until it contains
# CELL_BATCHES full batches. Larger cells need more padding but shuffle better. On Multi30k (10,000
# subwords, batches of 4,096 tokens), values of 0.08, 0.095 and 0.11 give 7.0 %, 7.8 % and 9.3 %
# padding. Two sentences of a batch meet again in the next epoch in 18 %, 14 % and 10 % of cases.
CELL_PADDING = 0.095
CELL_BATCHES = 2
# Estimated memory for the backward pass, in units of one source token of the base model. A target
# token costs TARGET_TOKEN_MEMORY units because it passes through two attention layers and the
# logits. Every token costs one more unit per ATTENTION_SPAN tokens that it attends to.
TARGET_TOKEN_MEMORY = 3
ATTENTION_SPAN = 512


class BatchPlan:
    """Batches of at most `batch_tokens` source and target tokens each, including padding.

    Every row of a batch contains one pair; rows of a `PackedPlan` contain several. Pairs of similar
    length are grouped into cells. Each epoch redistributes the pairs of a cell among its batches
    and shuffles the batches of all cells. Every epoch therefore has the same number of steps and
    the same share of padding. You can access any step directly: a batch does not depend on earlier
    steps or on the number of replicas.

    Args:
        source_lengths: number of source tokens of each pair, `(pairs,)`, including EOS.
        target_lengths: number of target tokens of each pair, `(pairs,)`, including EOS.
        batch_tokens: maximum number of source tokens and of target tokens per padded batch.
        seed: integer >= 0; determines the order.
        shuffle: whether epochs differ; if not, all epochs use the same batches, shortest first.
        pair_name: function from the index of a pair to its name in error messages; defaults to the
            line number.
        slots: `PairSlots` for corpora with weights other than 1.
        growth: two factors >= 1 by which subword sampling lengthens sources and targets;
            `batch_tokens` limits the lengths after this growth.
        shapes: maximum number of padded shapes `(rows, source_length, target_length)`, for XLA and
            JAX, which compile each shape separately; None means no limit.

    Raises:
        UserInputError: `batch_tokens` is smaller than the longest sentence, or `source_lengths` is
            empty.
        ValueError: the numbers of source and target lengths differ, or another argument is out of
            range.

    Example:
        >>> plan = BatchPlan([3, 4, 9], [4, 4, 8], batch_tokens=10, seed=1, shuffle=False)
        >>> plan.steps_per_epoch
        2
    """

    def __init__(
        self,
        source_lengths: Sequence[int] | NDArray[np.integer],
        target_lengths: Sequence[int] | NDArray[np.integer],
        *,
        batch_tokens: int,
        seed: int,
        shuffle: bool = True,
        pair_name: Callable[[int], str] | None = None,
        slots: PairSlots | None = None,
        growth: tuple[float, float] = (1.0, 1.0),
        shapes: int | None = None,
    ) -> None:
        check_positive_int("batch_tokens", batch_tokens)
        if shapes is not None:
            check_positive_int("shapes", shapes)
        check_non_negative_int("seed", seed)
        self.batch_tokens = batch_tokens
        self.seed = seed
        self.shuffle = shuffle
        # int32 halves the memory; corpora contain tens of millions of pairs.
        self.source_lengths = np.asarray(source_lengths, dtype="int32")
        self.target_lengths = np.asarray(target_lengths, dtype="int32")
        self._check_lengths()
        self._check_budget(pair_name)
        self._slots = slots
        lengths = slots.lengths if slots else np.stack([self.source_lengths, self.target_lengths])
        if growth != (1.0, 1.0):
            grown = np.ceil(lengths * np.reshape(growth, (2, 1)))
            lengths = np.minimum(grown, batch_tokens).astype("int32")
        self._cut(lengths, shapes)
        self._epochs: dict[int, tuple[NDArray[np.integer], NDArray[np.integer]]] = {}
        self._lock = threading.Lock()

    @classmethod
    def of(
        cls,
        corpus: ParallelCorpus | CorpusMixture,
        *,
        batch_tokens: int,
        seed: int,
        shuffle: bool = True,
        growth: tuple[float, float] = (1.0, 1.0),
        shapes: int | None = None,
    ) -> Self:
        """Plan the batches of a corpus or a mixture; for other arguments, see `BatchPlan`."""
        mixture = corpus if isinstance(corpus, CorpusMixture) else CorpusMixture([corpus])
        lengths = np.stack([mixture.source_lengths, mixture.target_lengths]) + 1
        return cls(
            *lengths,
            batch_tokens=batch_tokens,
            seed=seed,
            shuffle=shuffle,
            pair_name=mixture.pair_name,
            slots=mixture.slots(lengths, seed),
            growth=growth,
            shapes=shapes,
        )

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_lock": None}  # locks cannot be pickled

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=threading.Lock())

    @property
    def steps_per_epoch(self) -> int:
        """Number of batches in every epoch."""
        return len(self._batches)

    @functools.cached_property
    def shapes(self) -> list[PaddedShape] | None:
        """Padded shapes `(rows, source_length, target_length)` of all batches, shortest first.

        None if the number of shapes is unlimited.
        """
        if self._fixed_shapes is None:
            return None
        return list(dict.fromkeys(map(tuple, self._fixed_shapes.tolist())))

    @functools.cached_property
    def fingerprint(self) -> str:
        """A hash that identifies the batches."""
        arrays = [self.source_lengths, self.target_lengths, *self._planned_arrays()]
        digest = hashlib.sha256(f"{self.batch_tokens} {self.seed} {self.shuffle}".encode())
        for array in arrays:
            digest.update(f" {array.dtype} {array.shape} ".encode())
            digest.update(np.ascontiguousarray(array).data)
        return digest.hexdigest()

    def report(self) -> str:
        """Return the number of shapes and the padding, such as `"16 shapes, 12.3% padding"`."""
        padding = f"{self.padding_share:.1%} padding"
        if self.shapes is None:
            return padding
        return f"{len(self.shapes)} shape{'s' * (len(self.shapes) > 1)}, {padding}"

    def batch(self, step: int) -> NDArray[np.integer]:
        """Return the indices of the pairs in the batch of a global step, `(batch,)`."""
        epoch, index = self._epoch_of(step)
        order, sequence = self._epoch_order(epoch)
        start, stop = self._batches[sequence[index]].tolist()
        return self._pairs(order[start:stop], epoch)

    def rows(self, step: int) -> NDArray[np.integer]:
        """Return the ascending row indices of the pairs in a global step's batch, `(batch,)`."""
        return np.arange(len(self.batch(step)))

    def room(self, step: int) -> NDArray[np.integer]:
        """Return the maximum source and target lengths of each pair in a batch, `(batch, 2)`."""
        rows = len(self.batch(step))
        if self._fixed_shapes is None:
            return np.full((rows, 2), self.batch_tokens // rows)
        return np.tile(self.padded_shape(step)[1:], (rows, 1))

    def epoch(self, epoch: int) -> list[NDArray[np.integer]]:
        """Return all batches of an epoch, in the format of `batch`."""
        first = epoch * self.steps_per_epoch
        return [self.batch(step) for step in range(first, first + self.steps_per_epoch)]

    def target_tokens(self, step: int) -> int:
        """Return the number of target tokens in a step, including EOS but not padding.

        With subword sampling, this counts the tokens before sampling, so per-token metrics stay
        comparable with and without sampling.
        """
        return int(self.target_lengths[self.batch(step)].sum())

    def padded_shape(self, step: int) -> PaddedShape:
        """Return the padded shape `(rows, source_length, target_length)` of a step.

        Subword sampling may change the shape unless the number of `shapes` is limited.
        """
        if self._fixed_shapes is None:
            lengths = self._lengths_of(self.batch(step))
            source_length, target_length = lengths.max(axis=1).tolist()
            return lengths.shape[1], source_length, target_length
        epoch, index = self._epoch_of(step)
        _, sequence = self._epoch_order(epoch)
        return tuple(self._fixed_shapes[sequence[index]].tolist())

    def padding_share_of(self, step: int) -> float:
        """Return the share of padding, including empty rows, among the tokens of a step."""
        rows, source_length, target_length = self.padded_shape(step)
        tokens = int(self._lengths_of(self.batch(step)).sum())
        return 1 - tokens / (rows * (source_length + target_length))

    @functools.cached_property
    def padding_share(self) -> float:
        """Share of padding among all source and target tokens of the first epoch."""
        order, _ = self._epoch_order(0)
        tokens = int(self._lengths_of(self._pairs(order, 0)).sum())
        rows, source_lengths, target_lengths = self._first_shapes.T
        return 1 - tokens / int((rows * (source_lengths + target_lengths)).sum())

    @functools.cached_property
    def largest_step(self) -> int:
        """The step in the first epoch whose batch needs the most memory."""
        rows, source, target = self._first_shapes.T
        tokens = source + TARGET_TOKEN_MEMORY * target
        attended = source * source + target * (source + target)
        _, sequence = self._epoch_order(0)
        return int((rows * (tokens + attended / ATTENTION_SPAN))[sequence].argmax())

    @functools.cached_property
    def _first_shapes(self) -> NDArray[np.integer]:
        """Padded shapes in the first epoch, ordered by length, `(batches, 3)`."""
        if self._fixed_shapes is not None:
            return self._fixed_shapes
        order, _ = self._epoch_order(0)
        starts, stops = self._batches.T
        lengths = self._lengths_of(self._pairs(order, 0))
        longest = np.maximum.reduceat(lengths, starts, axis=1)
        return np.stack([stops - starts, *longest], axis=1)

    def _lengths_of(self, pairs: NDArray[np.integer]) -> NDArray[np.integer]:
        """Return the source and target lengths of pairs, `(2, pairs)`."""
        return np.stack([self.source_lengths[pairs], self.target_lengths[pairs]])

    def _epoch_of(self, step: int) -> tuple[int, int]:
        """Return the epoch of a step and the index of the step within the epoch."""
        check_non_negative_int("step", step)
        return divmod(int(step), self.steps_per_epoch)

    def _pairs(self, slots: NDArray[np.integer], epoch: int) -> NDArray[np.integer]:
        if self._slots is None:
            return slots
        return self._slots.pairs(slots, epoch if self.shuffle else 0)

    def _cut(self, lengths: NDArray[np.integer], shapes: int | None) -> None:
        """Set the order, cells, batches and shapes for slots with these lengths, `(2, slots)`."""
        order = length_order(lengths)
        ordered = np.take(lengths, order, axis=1)
        # Without shuffling, cells can be single batches, which minimizes padding.
        least_batches = CELL_BATCHES if self.shuffle else 1
        self._fixed_shapes = None
        if shapes:
            cells, cell_shapes = cut_shape_cells(ordered, self.batch_tokens, shapes, least_batches)
        else:
            cells = cut_cells(
                ordered,
                self.batch_tokens,
                least_batches=least_batches,
                most_padding=CELL_PADDING if self.shuffle else 0.0,
            )
        self._order, self._batches = order, cut_batches(cells)
        self._cells = [(start, stop) for start, stop, _ in cells]
        if shapes:
            starts = [start for start, _ in self._cells]
            of_batches = np.searchsorted(starts, self._batches[:, 0], side="right") - 1
            self._fixed_shapes = np.asarray(cell_shapes)[of_batches]

    def _planned_arrays(self) -> list[NDArray[np.integer]]:
        """Return the arrays that, together with the lengths, identify the batches."""
        shapes = [] if self._fixed_shapes is None else [self._fixed_shapes]
        return [self._order, self._batches, *shapes]

    @property
    def _num_shuffled(self) -> int:
        """Number of items shuffled per epoch, not counting the slots within cells."""
        return self.steps_per_epoch

    def _epoch_order(self, epoch: int) -> tuple[NDArray[np.integer], NDArray[np.integer]]:
        """Return an epoch's order of the slots, and of the batches or packed rows."""
        with self._lock:
            if epoch not in self._epochs:
                # Keep two epochs: one thread may read ahead while another needs the previous one.
                kept = list(self._epochs.items())[-1:]
                self._epochs = dict([*kept, (epoch, self._draw_epoch(epoch))])
            return self._epochs[epoch]

    def _draw_epoch(self, epoch: int) -> tuple[NDArray[np.integer], NDArray[np.integer]]:
        order, sequence = self._order, np.arange(self._num_shuffled)
        if self.shuffle:
            generator = np.random.default_rng([self.seed, epoch])
            order = order.copy()
            for start, stop in self._cells:
                generator.shuffle(order[start:stop])
            sequence = generator.permutation(self._num_shuffled)
        return order, sequence

    def _check_lengths(self) -> None:
        sources, targets = self.source_lengths, self.target_lengths
        if sources.ndim != 1 or sources.shape != targets.shape:
            raise ValueError(
                "`source_lengths` and `target_lengths` must be 1D and of the same length. "
                f"Received: shapes {sources.shape} and {targets.shape}"
            )
        if sources.size == 0:
            raise UserInputError("There are no sentence pairs to plan batches from")
        if min(sources.min(), targets.min()) < 1:
            raise ValueError(
                "Lengths must be >= 1, as they count the end of sentence. "
                f"Received: a length of {min(sources.min(), targets.min())}"
            )

    def _check_budget(self, pair_name: Callable[[int], str] | None) -> None:
        longest = np.maximum(self.source_lengths, self.target_lengths)
        index = int(longest.argmax())
        if longest[index] > self.batch_tokens:
            name = pair_name(index) if pair_name else f"line {index + 1}"
            sources, targets = self.source_lengths[index], self.target_lengths[index]
            rule = f"fit the longest pair: {name} has {sources} source and {targets} target tokens"
            refuse("batch_tokens", rule, self.batch_tokens)
