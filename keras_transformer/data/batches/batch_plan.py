"""Which sentences form which batch, planned from lengths alone."""

import functools
import hashlib
import threading

import numpy as np

from keras_transformer.argument_checks import check_non_negative_int, check_positive_int
from keras_transformer.data.batches.length_cells import cut_batches, cut_cells, length_order
from keras_transformer.data.batches.shape_cells import cut_shape_cells
from keras_transformer.data.corpus_mixture import CorpusMixture
from keras_transformer.errors import UserInputError

# A cell grows while this share of it at most is padding, and until it holds this many full batches.
# Larger cells pad more and mix better. On Multi30k (10,000 subwords, batches of 4,096 tokens) 0.08,
# 0.095 and 0.11 give 7.0 %, 7.8 % and 9.3 % padding, and two sentences that shared a batch meet
# again in the next epoch in 18 %, 14 % and 10 % of cases.
CELL_PADDING = 0.095
CELL_BATCHES = 2
# What a batch keeps for the backward pass, in units of one source token of the base model: a target
# token passes two attentions and the logits, and every token keeps as much again for each this many
# others that it attends to.
TARGET_TOKEN_MEMORY = 3
ATTENTION_SPAN = 512


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
        pair_name: function from a pair's number to what errors call it; default: lines from 1.
        slots: `PairSlots` of pairs that an epoch does not read once each; default: each once.
        growth: two numbers >= 1: room is planned for sources and targets that become so many
            times as long when they are read (subword sampling), inside the same budget.
        shapes: None, or the most padded shapes `(rows, source_length, target_length)` of batches,
            for compilers that compile a step anew for each (XLA, so also JAX).

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
        pair_name=None,
        slots=None,
        growth=(1.0, 1.0),
        shapes=None,
    ):
        check_positive_int("batch_tokens", batch_tokens)
        if shapes is not None:
            check_positive_int("shapes", shapes)
        check_non_negative_int("seed", seed)
        self.batch_tokens = batch_tokens
        self.seed = seed
        self.shuffle = shuffle
        # Half of the memory of 64 bits: corpora have tens of millions of pairs.
        self.source_lengths = np.asarray(source_lengths, dtype="int32")
        self.target_lengths = np.asarray(target_lengths, dtype="int32")
        self._check_lengths()
        self._check_budget(pair_name)
        self._slots = slots
        self._order, self._cells, cell_shapes = self._cut_cells(growth, shapes)
        self._batches = cut_batches(self._cells)
        self._fixed_shapes = None
        if cell_shapes:
            starts = [start for start, _, _ in self._cells]
            cells = np.searchsorted(starts, self._batches[:, 0], side="right") - 1
            self._fixed_shapes = np.asarray(cell_shapes)[cells]
        self._epochs = {}
        self._lock = threading.Lock()

    @classmethod
    def of(cls, corpus, *, batch_tokens, seed, shuffle=True, growth=(1.0, 1.0), shapes=None):
        """Plan the batches of a `ParallelCorpus` or a `CorpusMixture`."""
        mixture = corpus if isinstance(corpus, CorpusMixture) else CorpusMixture([corpus])
        source_lengths, target_lengths = mixture.source_lengths + 1, mixture.target_lengths + 1
        return cls(
            source_lengths,
            target_lengths,
            batch_tokens=batch_tokens,
            seed=seed,
            shuffle=shuffle,
            pair_name=mixture.pair_name,
            slots=mixture.slots(source_lengths, target_lengths, seed),
            growth=growth,
            shapes=shapes,
        )

    @property
    def steps_per_epoch(self):
        """Number of batches of every epoch."""
        return len(self._batches)

    @functools.cached_property
    def shapes(self):
        """Padded shapes `(rows, source_length, target_length)` of all batches, or None.

        A list from short to long of at most as many as were asked for; None where that was none:
        then every batch has its own.
        """
        if self._fixed_shapes is None:
            return None
        return list(dict.fromkeys(map(tuple, self._fixed_shapes.tolist())))

    @functools.cached_property
    def fingerprint(self):
        """A string that is the same for plans of the same batches, and another for others."""
        arrays = [self.source_lengths, self.target_lengths, self._order, self._batches]
        if self._fixed_shapes is not None:
            arrays.append(self._fixed_shapes)
        digest = hashlib.sha256(f"{self.batch_tokens} {self.seed} {self.shuffle}".encode())
        for array in arrays:
            digest.update(f" {array.dtype} {array.shape} ".encode())
            digest.update(np.ascontiguousarray(array))
        return digest.hexdigest()

    def report(self):
        """Shapes and padding as a line of text, such as `"16 shapes, 12.3% padding"`."""
        padding = f"{self.padding_share:.1%} padding"
        if self.shapes is None:
            return padding
        return f"{len(self.shapes)} shape{'s' * (len(self.shapes) > 1)}, {padding}"

    def batch(self, step):
        """Sentence numbers of global step `step`, counted from 0: int array `(batch,)`."""
        check_non_negative_int("step", step)
        epoch, index = divmod(int(step), self.steps_per_epoch)
        order, sequence = self._epoch_order(epoch)
        start, stop = self._batches[sequence[index]].tolist()
        return self._pairs(order[start:stop], epoch)

    def epoch(self, epoch):
        """All batches of an epoch, counted from 0: list of int arrays `(batch,)`."""
        first = epoch * self.steps_per_epoch
        return [self.batch(step) for step in range(first, first + self.steps_per_epoch)]

    def target_tokens(self, step):
        """Number of target tokens of global step `step`, end of sentence counted, padding not.

        With subword sampling it is that of the ordinary pieces, so that figures per token can be
        compared with those of a training without sampling.
        """
        return int(self.target_lengths[self.batch(step)].sum())

    def padded_shape(self, step):
        """What global step `step` takes with padding: `(rows, source_length, target_length)`.

        With `shapes` it is one of these. Otherwise subword sampling changes it.
        """
        if self._fixed_shapes is None:
            pairs = self.batch(step)
            sides = self.source_lengths[pairs], self.target_lengths[pairs]
            return (len(pairs), *(int(side.max()) for side in sides))
        check_non_negative_int("step", step)
        epoch, index = divmod(int(step), self.steps_per_epoch)
        _, sequence = self._epoch_order(epoch)
        return tuple(self._fixed_shapes[sequence[index]].tolist())

    def padding_share_of(self, step):
        """Share of padding, empty rows too, among source and target tokens of step `step`."""
        pairs = self.batch(step)
        rows, source_length, target_length = self.padded_shape(step)
        tokens = int(self.source_lengths[pairs].sum()) + int(self.target_lengths[pairs].sum())
        return 1 - tokens / (rows * (source_length + target_length))

    @functools.cached_property
    def padding_share(self):
        """Share of padding among all source and target tokens of the first epoch."""
        order, _ = self._epoch_order(0)
        pairs = self._pairs(order, 0)
        tokens = int(self.source_lengths[pairs].sum()) + int(self.target_lengths[pairs].sum())
        rows, source_lengths, target_lengths = self._first_shapes.T
        return 1 - tokens / int((rows * (source_lengths + target_lengths)).sum())

    @functools.cached_property
    def largest_step(self):
        """The step of the first epoch whose batch needs the most memory, counted from 0."""
        rows, source, target = self._first_shapes.T
        tokens = source + TARGET_TOKEN_MEMORY * target
        attended = source * source + target * (source + target)
        _, sequence = self._epoch_order(0)
        return int((rows * (tokens + attended / ATTENTION_SPAN))[sequence].argmax())

    @functools.cached_property
    def _first_shapes(self):
        """Padded shapes of the first epoch, in the order of lengths: int array `(batches, 3)`."""
        if self._fixed_shapes is not None:
            return self._fixed_shapes
        order, _ = self._epoch_order(0)
        pairs = self._pairs(order, 0)
        starts, stops = self._batches.T
        sides = self.source_lengths[pairs], self.target_lengths[pairs]
        longest = [np.maximum.reduceat(side, starts) for side in sides]
        return np.stack([stops - starts, *longest], axis=1)

    def _pairs(self, slots, epoch):
        if self._slots is None:
            return slots
        return self._slots.pairs(slots, epoch if self.shuffle else 0)

    def _cut_cells(self, growth, shapes):
        """The order of the slots, cells `(start, stop, size)` of it, and their shapes or None."""
        lengths = self._slots or self
        sources = self._grown(lengths.source_lengths, growth[0])
        targets = self._grown(lengths.target_lengths, growth[1])
        order = length_order(sources, targets)
        # Without a shuffle there is nothing to mix: as little padding as single batches allow.
        least_batches = CELL_BATCHES if self.shuffle else 1
        if shapes:
            cells, cell_shapes = cut_shape_cells(
                sources[order], targets[order], self.batch_tokens, shapes, least_batches
            )
            return order, cells, cell_shapes
        cells = cut_cells(
            sources[order],
            targets[order],
            self.batch_tokens,
            least_batches=least_batches,
            most_padding=CELL_PADDING if self.shuffle else 0.0,
        )
        return order, cells, None

    def _grown(self, lengths, growth):
        if growth == 1:
            return lengths
        return np.minimum(np.ceil(lengths * growth), self.batch_tokens).astype("int32")

    def _epoch_order(self, epoch):
        """Order of the sentences and of the batches in an epoch."""
        with self._lock:
            if epoch not in self._epochs:
                # Two are kept: one thread reads ahead while another asks about the epoch before.
                kept = list(self._epochs.items())[-1:]
                self._epochs = dict([*kept, (epoch, self._draw_epoch(epoch))])
            return self._epochs[epoch]

    def _draw_epoch(self, epoch):
        order, sequence = self._order, np.arange(self.steps_per_epoch)
        if self.shuffle:
            generator = np.random.default_rng([self.seed, epoch])
            order = order.copy()
            for start, stop, _ in self._cells:
                generator.shuffle(order[start:stop])
            sequence = generator.permutation(self.steps_per_epoch)
        return order, sequence

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

    def _check_budget(self, pair_name):
        longest = np.maximum(self.source_lengths, self.target_lengths)
        index = int(longest.argmax())
        if longest[index] > self.batch_tokens:
            name = pair_name(index) if pair_name else f"line {index + 1}"
            raise UserInputError(
                f"`batch_tokens` must hold the longest pair: {name} has "
                f"{self.source_lengths[index]} source and {self.target_lengths[index]} target "
                f"tokens. Received: batch_tokens={self.batch_tokens}"
            )
