"""From sentence pairs or prepared corpora to input for `model.fit`, in two calls."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from keras_transformer.data.batches.batch_plan import BatchPlan
from keras_transformer.data.batches.batch_reader import (
    Batch,
    BatchReader,
    Shard,
    batch_stream,
    check_sharing,
    share_of_rows,
)
from keras_transformer.data.batches.packed_plan import PackedPlan
from keras_transformer.data.batches.subword_sampling import SubwordSampling
from keras_transformer.data.corpus_mixture import CorpusMixture
from keras_transformer.data.corpus_preparation import prepare_corpus
from keras_transformer.data.parallel_corpus import ParallelCorpus
from keras_transformer.data.parallel_text import SentencePairs
from keras_transformer.special_tokens import SpecialTokens
from keras_transformer.types import PathLike

if TYPE_CHECKING:
    from keras_transformer.text import SentencePieceTokenizer

_READ_AHEAD = 4  # batches that wait for their step


def plan_batches(
    corpora: ParallelCorpus | Sequence[ParallelCorpus],
    special_tokens: SpecialTokens,
    *,
    weights: Sequence[float] | None = None,
    batch_tokens: int,
    seed: int = 0,
    shuffle: bool = True,
    subword_sampling: SubwordSampling | None = None,
    shapes: int | None = None,
    packing: bool = False,
) -> BatchReader:
    """Plan the batches of one corpus or a mixture of several.

    Args:
        corpora: one or several corpora.
        special_tokens: the tokenizer's special tokens.
        weights: numbers > 0, one for each corpus: how often an epoch reads each pair of the corpus.
            2 reads every pair twice. 0.25 reads a quarter of the corpus: a different quarter in
            each epoch, or the same quarter without `shuffle`. Defaults to 1 for each corpus.
        batch_tokens: maximum number of source tokens and of target tokens in a batch, with padding.
        seed: integer >= 0; determines the order of the batches.
        shuffle: whether epochs differ in the order of their sentences.
        subword_sampling: draws the pieces of each batch anew, for corpora prepared with
            `keep_text=True`. Samples are longer than the ordinary pieces, so batches hold fewer
            sentences. A sentence whose sample does not fit keeps its ordinary pieces.
        shapes: maximum number of padded shapes of batches, for compilers that compile a step for
            each shape (XLA on TensorFlow, and JAX). With 16, there is hardly more padding than with
            more shapes. None means any number.
        packing: whether rows hold several pairs, one after the other. Then all batches have the
            same shape and little padding. A model reads such batches with `Transformer.packed`.

    Returns:
        A reader of the batches.

    Raises:
        UserInputError: `batch_tokens` is smaller than the longest sentence.
        ValueError: an argument is out of range, or `shapes` is given with `packing`.

    Example:
        >>> import numpy as np
        >>> from keras_transformer.data import ParallelCorpus
        >>> from keras_transformer.special_tokens import SpecialTokens
        >>> ids, offsets = np.array([5, 6, 7]), np.array([0, 2, 3])  # "5 6" and "7"
        >>> corpus = ParallelCorpus(ids, offsets, ids, offsets, np.array([1, 2]), metadata={})
        >>> reader = plan_batches([corpus, corpus], SpecialTokens(), weights=[2, 1], batch_tokens=6)
        >>> sum(map(len, reader.plan.epoch(0)))
        6
    """
    corpora = [corpora] if isinstance(corpora, ParallelCorpus) else corpora
    corpus = CorpusMixture(corpora, weights)
    growth = subword_sampling.growth(corpus) if subword_sampling else (1.0, 1.0)
    plan_class = PackedPlan if packing else BatchPlan
    plan = plan_class.of(
        corpus, batch_tokens=batch_tokens, seed=seed, shuffle=shuffle, growth=growth, shapes=shapes
    )
    return BatchReader(corpus, plan, special_tokens, subword_sampling)


def prepare_batches(
    sources: Sequence[str],
    targets: Sequence[str],
    tokenizer: SentencePieceTokenizer,
    cache_directory: PathLike,
    *,
    batch_tokens: int,
    seed: int = 0,
    shuffle: bool = True,
    shapes: int | None = None,
    packing: bool = False,
) -> BatchReader:
    """Tokenize sentence pairs, unless an earlier call did, and plan their batches.

    Args:
        sources: source sentences.
        targets: target sentences, one for each source.
        tokenizer: the tokenizer for both sides.
        cache_directory: folder for tokenized corpora.
        batch_tokens: maximum number of source tokens and of target tokens in a batch, with padding.
        seed: integer >= 0; determines the order of the batches.
        shuffle: whether epochs differ.
        shapes, packing: as in `plan_batches`.

    Returns:
        A reader of the batches.

    Raises:
        UserInputError: the same errors as `prepare_corpus` and `BatchPlan`.
    """
    corpus = prepare_corpus(SentencePairs(sources, targets), tokenizer, cache_directory)
    return plan_batches(
        corpus,
        tokenizer.special_tokens,
        batch_tokens=batch_tokens,
        seed=seed,
        shuffle=shuffle,
        shapes=shapes,
        packing=packing,
    )


def fit_batches(
    reader: BatchReader, start_step: int = 0, row_multiple: int = 1, shard: Shard = (0, 1)
) -> Iterable[Batch]:
    """Return endless batches for `fit` and `evaluate`, whose arguments set the number of steps.

    Args:
        reader: reads the batches.
        start_step: global step of the first batch, from 0.
        row_multiple: rows of padding with weight 0 fill every batch up to a multiple of this, such
            as the number of replicas times the number of micro-batches.
        shard: `(index, count)`: this process's index, from 0, and the number of processes, which
            divides `row_multiple`. Each process reads an equal, contiguous slice of the rows of
            each batch.

    Returns:
        On TensorFlow, a `tf.data.Dataset` that reads ahead; otherwise an iterator.

    Raises:
        ValueError: `row_multiple` or `shard` is invalid.
    """
    import keras  # slow to import, and not needed to read text

    if keras.backend.backend() == "tensorflow":
        return as_dataset(reader, start_step, row_multiple, shard)
    return batch_stream(reader, start_step, row_multiple=row_multiple, shard=shard)


def as_dataset(
    reader: BatchReader, start_step: int = 0, row_multiple: int = 1, shard: Shard = (0, 1)
) -> Any:
    """The endless batches of `fit_batches` as a dataset, whose cardinality says so.

    Returns:
        A `tf.data.Dataset` of `(inputs, labels, weights)` in the form of `BatchReader.batch`, all
        of shape `(None, None)`, read ahead of the training step.
    """
    import tensorflow as tf

    check_sharing(row_multiple, shard)

    def read(step: np.integer) -> tuple[np.ndarray, ...]:
        batch = reader.batch(int(step), row_multiple)
        inputs, labels, weights = share_of_rows(batch, shard)
        return inputs["source_ids"], inputs["target_ids"], labels, weights

    def to_tensors(step: Any) -> Any:
        tensors = tf.numpy_function(read, [step], [tf.int32, tf.int32, tf.int32, tf.float32])
        for tensor in tensors:
            tensor.set_shape([None, None])
        source_ids, target_ids, labels, weights = tensors
        return {"source_ids": source_ids, "target_ids": target_ids}, labels, weights

    options = tf.data.Options()
    # The autotuning thread ends only when it next wakes, after pauses that double from 10 ms on. At
    # its end, `fit` or `evaluate` would wait for as long as it has run, up to a minute.
    options.autotune.enabled = False
    steps = tf.data.Dataset.counter(start_step)
    return steps.map(to_tensors).prefetch(_READ_AHEAD).with_options(options)
