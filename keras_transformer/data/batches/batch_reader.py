"""Batches of a corpus as padded arrays."""

import dataclasses
import functools
import hashlib
import itertools
import json

import numpy as np

from keras_transformer.argument_checks import check_positive_int
from keras_transformer.data.batches.batch_rows import check_sharing, fill_batch, share_of_rows
from keras_transformer.data.batches.token_weights import token_weights
from keras_transformer.data.corpus_mixture import CorpusMixture
from keras_transformer.data.parallel_corpus import SIDES


class BatchReader:
    """Reads the batches of a plan from a corpus.

    Args:
        corpus: a `ParallelCorpus` or a `CorpusMixture`.
        plan: a `BatchPlan` of that corpus.
        special_tokens: the tokenizer's `SpecialTokens`.
        subword_sampling: `SubwordSampling`, or None for the pieces that the corpus holds.

    Raises:
        ValueError: the plan was not made from the lengths of this corpus.

    Example:
        >>> from keras_transformer.data import BatchPlan, ParallelCorpus
        >>> from keras_transformer.special_tokens import SpecialTokens
        >>> ids, offsets = np.array([5, 6, 7]), np.array([0, 2, 3])  # "5 6" and "7"
        >>> corpus = ParallelCorpus(ids, offsets, ids, offsets, np.array([1, 2]), metadata={})
        >>> plan = BatchPlan.of(corpus, batch_tokens=6, seed=1, shuffle=False)
        >>> inputs, labels, weights = BatchReader(corpus, plan, SpecialTokens()).batch(0)
        >>> inputs["target_ids"].tolist(), labels.tolist()
        ([[1, 7, 0], [1, 5, 6]], [[7, 2, 0], [5, 6, 2]])
    """

    def __init__(self, corpus, plan, special_tokens, subword_sampling=None):
        fits = np.array_equal(plan.source_lengths, corpus.source_lengths + 1) and np.array_equal(
            plan.target_lengths, corpus.target_lengths + 1
        )
        if not fits:
            raise ValueError(
                "`plan` must be made from the lengths of `corpus`, each with the end of sentence: "
                "use `BatchPlan.of(corpus, ...)`"
            )
        self.corpus = corpus
        self._mixture = corpus if isinstance(corpus, CorpusMixture) else CorpusMixture([corpus])
        self.plan = plan
        self.special_tokens = special_tokens
        self._subword_sampling = subword_sampling

    def batch(self, step, row_multiple=1):
        """Read the batch of global step `step`, counted from 0.

        Args:
            step: integer >= 0.
            row_multiple: positive integer: empty rows, of padding that weighs nothing, are added
                until the number of rows is a multiple of it, such as the number of replicas.

        Returns:
            `(inputs, labels, weights)`: inputs a dict of `source_ids` (tokens, end of sentence),
            int32 `(batch, source_length)`, and `target_ids` (begin of sentence, tokens), int32
            `(batch, target_length)`; labels (tokens, end of sentence), int32
            `(batch, target_length)`; weights float32 `(batch, target_length)`, whose sum is 1.
        """
        check_positive_int("row_multiple", row_multiple)
        batch = self._read(step)
        if self.plan.shapes is None:
            inputs, labels, _ = batch
            rows, target_length = labels.shape
            source_length = inputs["source_ids"].shape[1]
        else:
            rows, source_length, target_length = self.plan.padded_shape(step)
        rows = -(-rows // row_multiple) * row_multiple
        return fill_batch(batch, (rows, source_length, target_length), self.special_tokens.pad)

    @property
    def corpus_fingerprints(self):
        """The fingerprint of each corpus, whatever its batches are: a list of strings."""
        return [corpus.fingerprint for corpus in self._mixture.corpora]

    @functools.cached_property
    def fingerprint(self):
        """A string that is the same for readers of the same batches, and another for others.

        It tells of text, tokenizers, weights, budget, seed, shapes and subword sampling, not of how
        rows are filled up and shared.
        """
        sampling = self._subword_sampling
        content = {
            "corpora": self.corpus_fingerprints,
            "weights": [float(weight) for weight in self._mixture.weights],
            "plan": self.plan.fingerprint,
            "special_tokens": dataclasses.asdict(self.special_tokens),
            "subword_sampling": sampling.fingerprint if sampling else None,
        }
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

    def _read(self, step):
        """The batch as it is planned."""
        pairs = self.plan.batch(step)
        special_tokens = self.special_tokens
        rows = np.arange(len(pairs))
        source_ids, lengths = self._pad("source", pairs, step)
        source_ids[rows, lengths] = special_tokens.eos
        labels, lengths = self._pad("target", pairs, step)
        # The last column is padding in every row, so nothing is lost when it turns to the front.
        target_ids = np.roll(labels, 1, axis=1)
        target_ids[:, 0] = special_tokens.bos
        labels[rows, lengths] = special_tokens.eos
        weights = token_weights(labels, special_tokens.pad)
        return {"source_ids": source_ids, "target_ids": target_ids}, labels, weights

    def _pad(self, side, pairs, step):
        """Sentences as rows, one column wider than the longest, and their lengths."""
        if self._subword_sampling is None:
            return self._mixture.padded(side, pairs, self.special_tokens.pad)
        return self._sample(side, pairs, step)

    def _sample(self, side, pairs, step):
        """As `_pad`, with sampled pieces but for sentences that would break the budget by them."""
        padding_id = self.special_tokens.pad
        ordinary, lengths = self._mixture.padded(side, pairs, padding_id)
        samples = self._subword_sampling.sample(side, self._mixture.text(side, pairs), step)
        sampled_lengths = np.fromiter(map(len, samples), "int64", count=len(samples))
        room = self.plan.batch_tokens // len(pairs)
        if self.plan.shapes is not None:
            room = self.plan.padded_shape(step)[1 + SIDES.index(side)]
        # One token of each row is the end of sentence.
        fits = sampled_lengths < room
        lengths = np.where(fits, sampled_lengths, lengths)
        padded = np.full((len(pairs), int(lengths.max()) + 1), padding_id, "int32")
        is_token = np.arange(padded.shape[1]) < lengths[:, None]
        kept = [
            samples[row] if fits[row] else ordinary[row, : lengths[row]]
            for row in range(len(pairs))
        ]
        padded[is_token] = np.concatenate(kept)
        return padded, lengths


def batch_stream(reader, start_step=0, stop_step=None, row_multiple=1, shard=(0, 1)):
    """Yield the batches of steps `start_step`, `start_step + 1`, ... without end or to `stop_step`.

    Args:
        reader: a `BatchReader`.
        start_step: global step of the first batch, from 0.
        stop_step: global step before which the stream ends, or None.
        row_multiple: as in `BatchReader.batch`; a multiple of the number of processes.
        shard: `(index, count)`: this process's index, from 0, and the number of processes. Each
            reads an equal, contiguous slice of the rows.

    Returns:
        A generator of what `BatchReader.batch` returns.

    Raises:
        ValueError: `row_multiple` or `shard` break their rule.
    """
    check_sharing(row_multiple, shard)
    steps = itertools.count(start_step) if stop_step is None else range(start_step, stop_step)
    return (share_of_rows(reader.batch(step, row_multiple), shard) for step in steps)
