"""Read batches of a corpus as padded arrays."""

import dataclasses
import functools
import hashlib
import itertools
import json
from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from keras_transformer.argument_checks import check_non_negative_int, check_positive_int
from keras_transformer.data.batch_cells import PaddedShape
from keras_transformer.data.batch_plan import BatchPlan
from keras_transformer.data.corpus_mixture import CorpusMixture, SubwordSampling
from keras_transformer.data.packed_plan import PackedPlan
from keras_transformer.data.parallel_corpus import SIDES, ParallelCorpus, lengths_of
from keras_transformer.data.word_links import WordLinks
from keras_transformer.errors import refuse
from keras_transformer.types import SpecialTokens

# Inputs by name, labels, weights.
Batch: TypeAlias = tuple[dict[str, NDArray[Any]], NDArray[np.int32], NDArray[np.float32]]
# Process index and number of processes.
Shard: TypeAlias = tuple[int, int]

_Scalar = TypeVar("_Scalar", bound=np.generic)


def fill_batch(batch: Batch, shape: PaddedShape, padding_id: int) -> Batch:
    """Pad a batch to `(rows, source_length, target_length)` and give padding weight 0.

    Example:
        >>> ids = np.array([[5, 2]])
        >>> inputs = {"source_ids": ids, "target_ids": ids}
        >>> weights = np.array([[0.5, 0.5]], "float32")
        >>> _, labels, weights = fill_batch((inputs, ids, weights), (2, 2, 3), padding_id=0)
        >>> labels.tolist(), weights.tolist()
        ([[5, 2, 0], [0, 0, 0]], [[0.5, 0.5, 0.0], [0.0, 0.0, 0.0]])
    """
    inputs, labels, weights = batch
    rows, source_length, target_length = shape
    of_target = (rows, target_length)
    shapes = {"source_ids": (rows, source_length), "target_ids": of_target}
    filled = {name: _fill(inputs[name], shape, padding_id) for name, shape in shapes.items()}
    if "links" in inputs:
        filled["links"] = _fill(inputs["links"], (*of_target, source_length), 0)
    labels = _fill(labels, of_target, padding_id)
    return filled, labels, _fill(weights, of_target, 0)


def share_of_rows(batch: Batch, shard: Shard) -> Batch:
    """Return one process's rows of a batch; weights stay normalized over the entire batch."""
    inputs, labels, weights = batch
    index, count = shard
    rows = len(labels) // count
    part = slice(index * rows, (index + 1) * rows)
    return {name: ids[part] for name, ids in inputs.items()}, labels[part], weights[part]


def check_sharing(row_multiple: int, shard: Shard) -> None:
    """Require slices of equal size for all processes."""
    check_positive_int("row_multiple", row_multiple)
    index, count = shard
    check_positive_int("shard[1]", count)
    check_non_negative_int("shard[0]", index)
    if index >= count:
        refuse("shard", "be (index, count) with index < count", shard)
    if row_multiple % count:
        rule = "be a multiple of the number of processes in `shard`"
        refuse("row_multiple", rule, row_multiple, shard=shard)


def _fill(array: NDArray[_Scalar], shape: tuple[int, ...], value: int) -> NDArray[_Scalar]:
    if array.shape == shape:
        return array
    filled = np.full(shape, value, array.dtype)
    filled[tuple(map(slice, array.shape))] = array
    return filled


def _in_rows(
    ids: NDArray[np.int32], lengths: NDArray[np.int64], rows: NDArray[np.integer], padding_id: int
) -> NDArray[np.int32]:
    """Concatenate the sequences that belong to the same row.

    Args:
        ids: padded sequences `(sequences, longest)`.
        lengths: lengths of the sequences, `(sequences,)`.
        rows: row index of each sequence, `(sequences,)`; must be nondecreasing.
        padding_id: id of the padding token.

    Example:
        >>> ids = np.array([[5, 2, 0], [6, 7, 2], [8, 2, 0]], "int32")
        >>> _in_rows(ids, np.array([2, 3, 2]), np.array([0, 0, 1]), padding_id=0).tolist()
        [[5, 2, 6, 7, 2], [8, 2, 0, 0, 0]]
    """
    if rows[-1] == len(ids) - 1:
        return ids
    firsts = np.flatnonzero(np.diff(rows, prepend=-1))
    starts = np.cumsum(lengths) - lengths
    starts -= starts[firsts][rows]
    packed = np.full((len(firsts), int((starts + lengths).max())), padding_id, "int32")
    columns = np.arange(ids.shape[1])
    is_token = columns < lengths[:, None]
    places = (starts[:, None] + columns)[is_token]
    packed[np.repeat(rows, lengths), places] = ids[is_token]
    return packed


def token_weights(labels: NDArray[np.integer], padding_id: int) -> NDArray[np.float32]:
    """Weight every target token by the inverse of the number of target tokens in the global batch.

    The weighted sum of token losses is then the mean over real tokens, no matter how the batch is
    later split into micro-batches or across replicas.

    Args:
        labels: labels of the entire global batch, `(batch, target_length)`.
        padding_id: id of the padding token, which gets weight 0.

    Returns:
        Weights with the same shape as the labels; they sum to 1.
    """
    is_token = labels != padding_id
    return is_token.astype("float32") / np.float32(np.count_nonzero(is_token))


@dataclasses.dataclass(eq=False, repr=False)
class BatchReader:
    """Reads planned batches from a corpus.

    Args:
        corpus: the corpus or mixture of corpora.
        plan: a batch plan for this corpus.
        special_tokens: the tokenizer's special tokens.
        subword_sampling: resamples the subwords of each batch; None uses the stored subwords.
        links: word alignments of the pairs, for `Transformer.guided`; None reads no alignments.

    Raises:
        ValueError: the plan was not created from the lengths of this corpus, or alignments are
            given with sampling or packing.

    Example:
        >>> from keras_transformer.data import BatchPlan, ParallelCorpus
        >>> from keras_transformer.types import SpecialTokens
        >>> ids, offsets = np.array([5, 6, 7]), np.array([0, 2, 3])  # "5 6" and "7"
        >>> corpus = ParallelCorpus(ids, offsets, ids, offsets, np.array([1, 2]), metadata={})
        >>> plan = BatchPlan.of(corpus, batch_tokens=6, seed=1, shuffle=False)
        >>> inputs, labels, weights = BatchReader(corpus, plan, SpecialTokens()).batch(0)
        >>> inputs["target_ids"].tolist(), labels.tolist()
        ([[1, 7, 0], [1, 5, 6]], [[7, 2, 0], [5, 6, 2]])
    """

    corpus: ParallelCorpus | CorpusMixture
    plan: BatchPlan
    special_tokens: SpecialTokens
    subword_sampling: SubwordSampling | None = None
    links: WordLinks | None = None

    def __post_init__(self) -> None:
        corpus, plan = self.corpus, self.plan
        if self.links is not None and (self.subword_sampling or isinstance(plan, PackedPlan)):
            raise ValueError("`links` must be None with `subword_sampling` or packing")
        fits = np.array_equal(plan.source_lengths, corpus.source_lengths + 1) and np.array_equal(
            plan.target_lengths, corpus.target_lengths + 1
        )
        if not fits:
            raise ValueError(
                "`plan` must be made from the lengths of `corpus`, each with the end of sentence: "
                "use `BatchPlan.of(corpus, ...)`"
            )
        self._mixture = corpus if isinstance(corpus, CorpusMixture) else CorpusMixture([corpus])

    def batch(self, step: int, row_multiple: int = 1) -> Batch:
        """Read the batch of a global step.

        Args:
            step: the step, counted from 0.
            row_multiple: pad the batch with rows of weight 0 to a multiple of this number, such as
                the number of replicas.

        Returns:
            `(inputs, labels, weights)`. Inputs are `source_ids` (tokens, then EOS), int32
            `(batch, source_length)`, and `target_ids` (BOS, then tokens), int32
            `(batch, target_length)`. Labels (tokens, then EOS) are int32
            `(batch, target_length)`. Weights are float32 `(batch, target_length)` and sum to 1.
            With alignments, inputs also contain the weights of their links, `links`, float32
            `(batch, target_length, source_length)`: each aligned token has the weight of a token.
        """
        check_positive_int("row_multiple", row_multiple)
        inputs, labels, _ = batch = self._read(step)
        (rows, source_length), target_length = inputs["source_ids"].shape, labels.shape[1]
        if self.plan.shapes is not None:
            rows, source_length, target_length = self.plan.padded_shape(step)
        rows = -(-rows // row_multiple) * row_multiple
        return fill_batch(batch, (rows, source_length, target_length), self.special_tokens.pad)

    @property
    def corpus_fingerprints(self) -> list[str]:
        """The fingerprint of each corpus, regardless of the batches."""
        return [corpus.fingerprint for corpus in self._mixture.corpora]

    @functools.cached_property
    def fingerprint(self) -> str:
        """A hash that identifies the batches, regardless of row padding and sharding.

        It covers the text, tokenizers, weights, token budget, seed, shapes and subword sampling.
        """
        sampling = self.subword_sampling
        content = {
            "corpora": self.corpus_fingerprints,
            "weights": [float(weight) for weight in self._mixture.weights],
            "plan": self.plan.fingerprint,
            "special_tokens": dataclasses.asdict(self.special_tokens),
            "subword_sampling": sampling.fingerprint if sampling else None,
        }
        if self.links is not None:
            content["links"] = self.links.fingerprint
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

    def _read(self, step: int) -> Batch:
        """Read the batch of a step before it is padded to its final shape."""
        pairs, rows = self.plan.batch(step), self.plan.rows(step)
        special_tokens = self.special_tokens
        of_pair = np.arange(len(pairs))
        source_ids, lengths = self._pad("source", pairs, step)
        source_ids[of_pair, lengths] = special_tokens.eos
        source_ids = _in_rows(source_ids, lengths + 1, rows, special_tokens.pad)
        labels, lengths = self._pad("target", pairs, step)
        # The last column contains only padding; rolling moves it to the front.
        target_ids = np.roll(labels, 1, axis=1)
        target_ids[:, 0] = special_tokens.bos
        labels[of_pair, lengths] = special_tokens.eos
        target_ids, labels = (
            _in_rows(ids, lengths + 1, rows, special_tokens.pad) for ids in (target_ids, labels)
        )
        weights = token_weights(labels, special_tokens.pad)
        inputs = {"source_ids": source_ids, "target_ids": target_ids}
        if self.links is not None:
            shape = target_ids.shape[1], source_ids.shape[1]
            inputs["links"] = self.links.weights(self._mixture, pairs, shape) * weights.max()
        return inputs, labels, weights

    @property
    def is_sampled(self) -> bool:
        """Whether subwords, and therefore sentence lengths, change with each step."""
        return self.subword_sampling is not None

    def _pad(
        self, side: str, pairs: NDArray[np.integer], step: int
    ) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Return padded rows, one column wider than the longest sentence, and their lengths."""
        if self.subword_sampling is None:
            return self._mixture.padded(side, pairs, self.special_tokens.pad)
        samples = self.subword_sampling.sample(side, self._mixture.text(side, pairs), step)
        # Sentences whose samples exceed the budget keep their default segmentation. EOS takes one
        # token of each row.
        fits = lengths_of(samples) < self.plan.room(step)[:, SIDES.index(side)]
        ordinary = zip(*self._mixture.padded(side, pairs, self.special_tokens.pad), strict=True)
        kept = [
            sample if sample_fits else row[:length]
            for sample, sample_fits, (row, length) in zip(samples, fits, ordinary, strict=True)
        ]
        lengths = lengths_of(kept)
        padded = np.full((len(kept), int(lengths.max()) + 1), self.special_tokens.pad, "int32")
        padded[np.arange(padded.shape[1]) < lengths[:, None]] = np.concatenate(kept)
        return padded, lengths


def batch_stream(
    reader: BatchReader,
    start_step: int = 0,
    stop_step: int | None = None,
    row_multiple: int = 1,
    shard: Shard = (0, 1),
) -> Iterator[Batch]:
    """Return an iterator over the batches of steps `start_step`, `start_step + 1`, ...

    Args:
        reader: the reader of the batches.
        start_step: global step of the first batch, counted from 0.
        stop_step: global step at which to stop (exclusive); None for an infinite stream.
        row_multiple: see `BatchReader.batch`; must be a multiple of the number of processes.
        shard: `(index, count)`: the index of this process, counted from 0, and the number of
            processes. Each process reads an equal, contiguous slice of the rows.

    Returns:
        An iterator over batches in the format of `BatchReader.batch`.

    Raises:
        ValueError: `row_multiple` or `shard` is invalid.
    """
    check_sharing(row_multiple, shard)
    every_step = itertools.count(start_step)
    steps: Iterable[int] = every_step if stop_step is None else range(start_step, stop_step)
    return (share_of_rows(reader.batch(step, row_multiple), shard) for step in steps)
