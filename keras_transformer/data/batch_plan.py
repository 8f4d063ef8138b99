"""Which sentences form which batch, planned from lengths alone."""

import functools

import numpy as np

from keras_transformer.argument_checks import check_positive_int
from keras_transformer.errors import UserInputError

# Cells may waste this share of their tokens on padding; see `_cut_cells`.
CELL_PADDING = 0.08


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
        UserInputError: `batch_tokens` is smaller than the longest sentence.

    Example:
        >>> plan = BatchPlan([3, 4, 9], [4, 4, 8], batch_tokens=10, seed=1)
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
        self.batch_tokens = batch_tokens
        self.seed = seed
        self.shuffle = shuffle
        self.source_lengths = np.asarray(source_lengths, dtype="int64")
        self.target_lengths = np.asarray(target_lengths, dtype="int64")
        self._check_budget(line_numbers)
        self._order = np.lexsort((self.source_lengths, self.target_lengths))
        self._cells = _cut_cells(
            self.source_lengths[self._order], self.target_lengths[self._order], batch_tokens
        )
        self._batches = _cut_batches(self._cells)
        self._cached_epoch = (None, None, None)

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
        epoch, index = divmod(int(step), self.steps_per_epoch)
        order, sequence = self._epoch_order(epoch)
        start, stop = self._batches[sequence[index]]
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
        cached_epoch, order, sequence = self._cached_epoch
        if cached_epoch != epoch:
            order, sequence = self._order, np.arange(self.steps_per_epoch)
            if self.shuffle:
                generator = np.random.default_rng([self.seed, epoch])
                order = order.copy()
                for start, stop, _ in self._cells:
                    generator.shuffle(order[start:stop])
                sequence = generator.permutation(self.steps_per_epoch)
            self._cached_epoch = (epoch, order, sequence)
        return order, sequence

    def _check_budget(self, line_numbers):
        longest = np.maximum(self.source_lengths, self.target_lengths)
        if longest.size == 0:
            raise UserInputError("There are no sentence pairs to plan batches from")
        index = int(longest.argmax())
        if longest[index] > self.batch_tokens:
            line = index + 1 if line_numbers is None else int(line_numbers[index])
            raise UserInputError(
                f"`batch_tokens` must hold the longest pair: line {line} has "
                f"{self.source_lengths[index]} source and {self.target_lengths[index]} target "
                f"tokens. Received: batch_tokens={self.batch_tokens}"
            )


def _cut_cells(source_lengths, target_lengths, batch_tokens):
    """Cut sorted pairs into runs `(start, stop, size)` that pad little, `size` pairs a batch.

    A run grows while its padding, measured against its own longest sentences, stays under
    `CELL_PADDING`, and in any case until it fills one batch.
    """
    change = np.flatnonzero(np.diff(source_lengths) | np.diff(target_lengths)) + 1
    starts = np.concatenate([[0], change]).tolist()
    counts = np.diff([*starts, len(source_lengths)]).tolist()
    cells = []
    start, pairs, tokens, longest_source, longest_target = 0, 0, 0, 0, 0
    for first, count in zip(starts, counts, strict=True):
        source, target = int(source_lengths[first]), int(target_lengths[first])
        wide_source, wide_target = max(longest_source, source), max(longest_target, target)
        slots = (pairs + count) * (wide_source + wide_target)
        padding = 1 - (tokens + count * (source + target)) / slots
        full = pairs and pairs >= _batch_size(batch_tokens, longest_source, longest_target)
        if full and padding > CELL_PADDING:
            size = _batch_size(batch_tokens, longest_source, longest_target)
            cells.append((start, first, size))
            start, pairs, tokens, wide_source, wide_target = first, 0, 0, source, target
        pairs, tokens = pairs + count, tokens + count * (source + target)
        longest_source, longest_target = wide_source, wide_target
    size = _batch_size(batch_tokens, longest_source, longest_target)
    cells.append((start, len(source_lengths), size))
    return cells


def _batch_size(batch_tokens, longest_source, longest_target):
    return min(batch_tokens // longest_source, batch_tokens // longest_target)


def _cut_batches(cells):
    """Split every cell into batches `(start, stop)` of nearly the same number of pairs."""
    batches = []
    for start, stop, size in cells:
        number = -(-(stop - start) // size)
        cuts = start + (stop - start) * np.arange(number + 1) // number
        batches.extend(zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True))
    return batches
