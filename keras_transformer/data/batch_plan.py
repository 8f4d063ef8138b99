"""Which sentences form which batch, planned from lengths alone."""

import bisect
import functools

import numpy as np

from keras_transformer.argument_checks import check_positive_int
from keras_transformer.errors import UserInputError

# A cell grows while this share of it at most is padding, and until it holds this many full batches.
# Larger cells pad more and mix better. On Multi30k (10,000 subwords, batches of 4,096 tokens) 0.08,
# 0.095 and 0.11 give 7.0 %, 7.8 % and 9.3 % padding, and two sentences that shared a batch meet
# again in the next epoch in 18 %, 14 % and 10 % of cases.
CELL_PADDING = 0.095
CELL_BATCHES = 2


class BatchPlan:
    """Batches of at most `batch_tokens` source and `batch_tokens` target tokens, padding counted.

    Sentences of nearly the same lengths share a cell. Every epoch draws the batches of a cell
    afresh from its sentences and shuffles the batches of all cells. So every epoch has the same
    number of steps and the same share of padding, and any step is reached directly: nothing
    depends on the steps before it, nor on the number of replicas.

    Args:
        source_lengths: int array `(pairs,)`, source tokens with end of sentence.
        target_lengths: int array `(pairs,)`, target tokens with end of sentence.
        batch_tokens: most source tokens and most target tokens of a batch, with padding.
        seed: non-negative integer; another seed gives another order.
        shuffle: whether epochs differ; False gives the same batches, short to long, every epoch.
        line_numbers: int array `(pairs,)`: what errors call the pairs; default: from 1.

    Raises:
        UserInputError: `batch_tokens` is smaller than the longest sentence, or there is none.
        ValueError: the lengths differ in number, or another argument breaks its rule.

    Example:
        >>> plan = BatchPlan([3, 4, 9], [4, 4, 8], batch_tokens=10, seed=1, shuffle=False)
        >>> plan.steps_per_epoch
        2
    """

    def __init__(
        self,
        source_lengths,
        target_lengths,
        *,
        batch_tokens,
        seed,
        shuffle=True,
        line_numbers=None,
    ):
        check_positive_int("batch_tokens", batch_tokens)
        _check_not_negative("seed", seed)
        self.batch_tokens = batch_tokens
        self.seed = seed
        self.shuffle = shuffle
        self.source_lengths = np.asarray(source_lengths, dtype="int64")
        self.target_lengths = np.asarray(target_lengths, dtype="int64")
        self._check_lengths()
        self._check_budget(line_numbers)
        self._order = _length_order(self.source_lengths, self.target_lengths)
        self._cells = _cut_cells(
            self.source_lengths[self._order],
            self.target_lengths[self._order],
            batch_tokens,
            # Without a shuffle there is nothing to mix: as little padding as single batches allow.
            least_batches=CELL_BATCHES if shuffle else 1,
            most_padding=CELL_PADDING if shuffle else 0.0,
        )
        self._batches = _cut_batches(self._cells)
        self._epochs = {}

    @classmethod
    def of(cls, corpus, *, batch_tokens, seed, shuffle=True):
        """Plan the batches of a `ParallelCorpus`."""
        return cls(
            corpus.source_lengths + 1,
            corpus.target_lengths + 1,
            batch_tokens=batch_tokens,
            seed=seed,
            shuffle=shuffle,
            line_numbers=corpus.line_numbers,
        )

    @property
    def steps_per_epoch(self):
        """Number of batches of every epoch."""
        return len(self._batches)

    def batch(self, step):
        """Sentence numbers of global step `step`, counted from 0: int array `(batch,)`."""
        _check_not_negative("step", step)
        epoch, index = divmod(int(step), self.steps_per_epoch)
        order, sequence = self._epoch_order(epoch)
        start, stop = self._batches[sequence[index]].tolist()
        return order[start:stop]

    def epoch(self, epoch):
        """All batches of an epoch, counted from 0: list of int arrays `(batch,)`."""
        first = epoch * self.steps_per_epoch
        return [self.batch(step) for step in range(first, first + self.steps_per_epoch)]

    def target_tokens(self, step):
        """Number of target tokens of global step `step`, end of sentence counted, padding not."""
        return int(self.target_lengths[self.batch(step)].sum())

    @functools.cached_property
    def padding_share(self):
        """Share of padding among all source and target tokens of the first epoch."""
        slots = 0
        for batch in self.epoch(0):
            longest = self.source_lengths[batch].max() + self.target_lengths[batch].max()
            slots += len(batch) * int(longest)
        tokens = int(self.source_lengths.sum() + self.target_lengths.sum())
        return 1 - tokens / slots

    def _epoch_order(self, epoch):
        """Order of the sentences and of the batches in an epoch."""
        if epoch not in self._epochs:
            order, sequence = self._order, np.arange(self.steps_per_epoch)
            if self.shuffle:
                generator = np.random.default_rng([self.seed, epoch])
                order = order.copy()
                for start, stop, _ in self._cells:
                    generator.shuffle(order[start:stop])
                sequence = generator.permutation(self.steps_per_epoch)
            # Two are kept: one thread reads ahead while another asks about the epoch before.
            kept = list(self._epochs.items())[-1:]
            self._epochs = dict([*kept, (epoch, (order, sequence))])
            return order, sequence
        return self._epochs[epoch]

    def _check_lengths(self):
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
                "Lengths count the end of sentence, so they must be >= 1. "
                f"Received: a least length of {min(sources.min(), targets.min())}"
            )

    def _check_budget(self, line_numbers):
        longest = np.maximum(self.source_lengths, self.target_lengths)
        index = int(longest.argmax())
        if longest[index] > self.batch_tokens:
            line = index + 1 if line_numbers is None else int(line_numbers[index])
            raise UserInputError(
                f"`batch_tokens` must hold the longest pair: line {line} has "
                f"{self.source_lengths[index]} source and {self.target_lengths[index]} target "
                f"tokens. Received: batch_tokens={self.batch_tokens}"
            )


def _check_not_negative(name, value):
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 0:
        raise ValueError(f"`{name}` must be an integer >= 0. Received: {name}={value!r}")


def _length_order(source_lengths, target_lengths):
    """Order in which neighbors have nearly the same lengths on both sides.

    Sorted by the longer side, which bounds a batch; among equals from short source to short
    target, and back in the next run, so that no length ever jumps.
    """
    longest = np.maximum(source_lengths, target_lengths)
    difference = source_lengths - target_lengths
    return np.lexsort((np.where(longest % 2, difference, -difference), longest))


def _cut_cells(source_lengths, target_lengths, batch_tokens, **limits):
    """Cut ordered pairs into cells `(start, stop, size)`, `size` pairs a full batch.

    All cells but the last hold full batches only. Works on runs of equal lengths, of which even a
    corpus of millions of pairs has only some thousands.
    """
    pairs = len(source_lengths)
    change = np.diff(source_lengths, prepend=-1) | np.diff(target_lengths, prepend=-1)
    starts = np.flatnonzero(change)
    run_lengths = (source_lengths[starts].tolist(), target_lengths[starts].tolist())
    run_stops = [*starts[1:].tolist(), pairs]
    cells, start = [], 0
    while start < pairs:
        stop, size = _grow_cell(start, run_stops, run_lengths, batch_tokens, **limits)
        if stop < pairs:
            stop -= (stop - start) % size
        cells.append((start, stop, size))
        start = stop
    return cells


def _grow_cell(start, run_stops, run_lengths, batch_tokens, least_batches, most_padding):
    """Add runs from pair `start` on while they pad little: the stop and the size of a batch."""
    source_lengths, target_lengths = run_lengths
    stop, size, tokens, longest_source, longest_target = start, None, 0, 0, 0
    for run in range(bisect.bisect_right(run_stops, start), len(run_stops)):
        source, target = source_lengths[run], target_lengths[run]
        longest_source, longest_target = max(longest_source, source), max(longest_target, target)
        tokens += (run_stops[run] - stop) * (source + target)
        slots = (run_stops[run] - start) * (longest_source + longest_target)
        pads_much = tokens < (1 - most_padding) * slots
        if size and pads_much and stop - start >= least_batches * size:
            break
        stop, size = run_stops[run], batch_tokens // max(longest_source, longest_target)
    return stop, size


def _cut_batches(cells):
    """Split every cell into batches of nearly the same number of pairs: int array `(batches, 2)`.

    Every row is the start and the stop of a batch.
    """
    batches = []
    for start, stop, size in cells:
        number = -(-(stop - start) // size)
        cuts = start + (stop - start) * np.arange(number + 1) // number
        batches.append(np.stack([cuts[:-1], cuts[1:]], axis=1))
    return np.concatenate(batches)
