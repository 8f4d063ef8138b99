"""Prepare input for `model.fit` from sentence pairs or prepared corpora."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from keras_transformer.argument_checks import (
    check_equal_numbers,
    check_positive_int,
    check_rate,
    checked_strings,
)
from keras_transformer.data.batch_plan import BatchPlan
from keras_transformer.data.batch_reader import (
    Batch,
    BatchReader,
    Shard,
    batch_stream,
    check_sharing,
    share_of_rows,
)
from keras_transformer.data.corpus_mixture import CorpusMixture, SubwordSampling
from keras_transformer.data.corpus_preparation import (
    CHUNK_PAIRS,
    check_special_tokens,
    prepare_corpus,
)
from keras_transformer.data.packed_plan import PackedPlan
from keras_transformer.data.parallel_corpus import ID_TYPE, TEXT_TYPE, PackedRows, ParallelCorpus
from keras_transformer.data.parallel_text import SentencePairs
from keras_transformer.data.word_links import WordLinks
from keras_transformer.errors import refuse
from keras_transformer.types import PathLike, SpecialTokens

if TYPE_CHECKING:
    import keras

    from keras_transformer.text import SentencePieceTokenizer

_READ_AHEAD = 4  # number of prefetched batches


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
    links: WordLinks | None = None,
) -> BatchReader:
    """Plan the batches of one corpus or a mixture of several.

    Args:
        corpora: one or several corpora.
        special_tokens: the tokenizer's special tokens.
        weights: numbers > 0, one per corpus: how many times each epoch reads every pair of the
            corpus. 2 reads every pair twice; 0.25 reads a quarter of the corpus (a different
            quarter each epoch, or the same quarter without `shuffle`). Defaults to 1 per corpus.
        batch_tokens: maximum number of source tokens and of target tokens per padded batch.
        seed: integer >= 0; determines the order of the batches.
        shuffle: whether each epoch reads the sentences in a different order.
        subword_sampling: resamples the subwords of each batch; requires corpora prepared with
            `keep_text=True`. Samples are longer than the default segmentation, so batches contain
            fewer sentences. A sentence whose sample does not fit keeps its default segmentation.
        shapes: maximum number of distinct padded batch shapes, for compilers that compile each
            shape separately (XLA on TensorFlow, and JAX). 16 shapes need hardly more padding than a
            larger number of shapes. None means no limit.
        packing: whether to pack several pairs into each row. All batches then have the same shape
            and little padding. Models read packed batches with `Transformer.packed`.
        links: word alignments of the corpora, which `Transformer.guided` learns; None reads none.
            They cannot be combined with `subword_sampling` or `packing`.

    Returns:
        A reader of the batches.

    Raises:
        UserInputError: `batch_tokens` is smaller than the longest sentence.
        ValueError: an argument is out of range, `shapes` is given with `packing`, or `links` are
            given with `packing` or `subword_sampling`.

    Example:
        >>> import numpy as np
        >>> from keras_transformer.data import ParallelCorpus
        >>> from keras_transformer.types import SpecialTokens
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
    return BatchReader(corpus, plan, special_tokens, subword_sampling, links)


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
    """Tokenize sentence pairs, unless they are already cached, and plan their batches.

    Args:
        sources: source sentences.
        targets: target sentences, one for each source.
        tokenizer: the tokenizer for both sides.
        cache_directory: folder for tokenized corpora.
        batch_tokens, shapes, packing: see `plan_batches`.
        seed: integer >= 0; determines the order of the batches.
        shuffle: whether each epoch draws different batches.

    Returns:
        A reader of the batches.

    Raises:
        UserInputError: see `prepare_corpus` and `BatchPlan`.
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
    """Return an infinite stream of batches for `fit` and `evaluate`, which need a step count.

    Args:
        reader: the reader of the batches.
        start_step: global step of the first batch, counted from 0.
        row_multiple: pad every batch with rows of weight 0 to a multiple of this number, such as
            the number of replicas times the number of micro-batches.
        shard: `(index, count)`: the index of this process, counted from 0, and the number of
            processes, which must divide `row_multiple`. Each process reads an equal, contiguous
            slice of the rows of each batch.

    Returns:
        On TensorFlow, a `tf.data.Dataset` that reads ahead; otherwise an iterator.

    Raises:
        ValueError: `row_multiple` or `shard` is invalid.
    """
    import keras  # slow to import and not needed for reading text

    if keras.backend.backend() == "tensorflow":
        return as_dataset(reader, start_step, row_multiple, shard)
    return batch_stream(reader, start_step, row_multiple=row_multiple, shard=shard)


def as_dataset(
    reader: BatchReader, start_step: int = 0, row_multiple: int = 1, shard: Shard = (0, 1)
) -> Any:
    """Return the batches of `fit_batches` as a dataset with infinite cardinality.

    Returns:
        A prefetching `tf.data.Dataset` of `(inputs, labels, weights)` in the format of
        `BatchReader.batch`. All sizes are unknown.
    """
    import tensorflow as tf

    check_sharing(row_multiple, shard)
    ids = tf.TensorSpec((None, None), tf.int32)
    inputs = {"source_ids": ids, "target_ids": ids}
    if reader.links is not None:
        inputs["links"] = tf.TensorSpec((None, None, None), tf.float32)
    specification = inputs, ids, tf.TensorSpec((None, None), tf.float32)
    specs = tf.nest.flatten(specification)

    def read(step: np.integer) -> list[np.ndarray]:
        batch = share_of_rows(reader.batch(int(step), row_multiple), shard)
        return tf.nest.flatten(batch)

    def to_tensors(step: Any) -> Any:
        tensors = tf.numpy_function(read, [step], [spec.dtype for spec in specs])
        for tensor, spec in zip(tensors, specs, strict=True):
            tensor.set_shape(spec.shape)
        return tf.nest.pack_sequence_as(specification, tensors)

    options = tf.data.Options()
    # The autotuning thread checks for shutdown only when it wakes, at intervals that start at 10 ms
    # and keep doubling. `fit` or `evaluate` could therefore hang for up to a minute at the end.
    options.autotune.enabled = False
    steps = tf.data.Dataset.counter(start_step)
    return steps.map(to_tensors).prefetch(_READ_AHEAD).with_options(options)


_Packed: TypeAlias = tuple[NDArray[np.integer], NDArray[np.integer]]  # values, offsets


def fit_texts(
    sources: Iterable[str] | None,
    targets: Iterable[str],
    tokenizer: SentencePieceTokenizer,
    *,
    batch_tokens: int,
    source_tokenizer: SentencePieceTokenizer | None = None,
    max_tokens: int | None = None,
    seed: int = 0,
    shuffle: bool = True,
    subword_sampling: float = 0.0,
    shapes: int = 16,
    row_multiple: int = 1,
    workers: int = 1,
    use_multiprocessing: bool = False,
    max_queue_size: int = 10,
) -> keras.utils.PyDataset:
    """Turn strings into a dataset for `model.fit` and `model.evaluate`, on any backend.

    This call tokenizes all strings and keeps their ids in memory, at 4 bytes per id. Each epoch
    draws new batches. `fit` also shuffles the batches within an epoch using Python's random number
    generator, unless you pass `shuffle=False`. For text that is larger than memory or needs
    filtering, see `prepare_corpus`.

    Args:
        sources: source texts; the iterable is read once, and texts may be empty. Pass None to treat
            `targets` as texts for a language model from `build_language_model`.
        targets: target texts, one for each source.
        tokenizer: target tokenizer: a `SentencePieceTokenizer`, or an object with the same `encode`
            and `special_tokens`.
        batch_tokens: maximum number of source tokens and of target tokens per padded batch.
        source_tokenizer: source tokenizer; defaults to `tokenizer`.
        max_tokens: truncate texts to this many tokens, excluding EOS. If None, a text longer than
            `batch_tokens` is an error.
        seed: integer >= 0; determines the batches.
        shuffle: whether each epoch draws different batches; use False for validation.
        subword_sampling: strength of subword sampling, in [0, 1): the `alpha` of
            `SentencePieceTokenizer.sample`, which resamples the subwords of each batch. 0 turns
            sampling off. Sampling requires a `SentencePieceTokenizer` on both sides.
        shapes: maximum number of distinct padded batch shapes. JAX and XLA compile each shape
            separately.
        row_multiple: pad every batch with empty rows to a multiple of this number, such as the
            number of devices that share a batch.
        workers, use_multiprocessing, max_queue_size: see `keras.utils.PyDataset`.

    Returns:
        A `keras.utils.PyDataset` of `(inputs, labels, mask)`. Inputs are `{"source_ids": (batch,
        source_length), "target_ids": (batch, target_length)}`, or without sources `{"token_ids":
        (batch, target_length)}`, all int32. Labels are int32, (batch, target_length). The mask,
        used as `sample_weight`, is float32, (batch, target_length): 1 for real tokens and 0 for
        padding. Sources and labels end with EOS; the target inputs start with BOS.

    Raises:
        UserInputError: there are no texts, the numbers of sources and targets differ, the
            tokenizers have different special tokens, or a text is longer than `batch_tokens`.
        ValueError: an argument is out of range, or `sources` or `targets` contain non-strings.

    Example:
        >>> from keras_transformer.text import SentencePieceTokenizer
        >>> lines = ["a small house", "a small tree", "the house and the tree"]
        >>> tokenizer = SentencePieceTokenizer.train(lines, vocabulary_size=40)
        >>> dataset = fit_texts(lines, lines, tokenizer, batch_tokens=64)
        >>> inputs, labels, mask = dataset[0]
        >>> len(dataset), sorted(inputs), labels.shape == mask.shape
        (1, ['source_ids', 'target_ids'], True)
    """
    from keras_transformer.data.text_dataset import TextDataset

    targets = checked_strings("targets", targets)
    for_language_model = sources is None
    sources = [""] * len(targets) if sources is None else checked_strings("sources", sources)
    check_equal_numbers("sources", sources, "targets", targets)
    if not targets:
        refuse("targets", "contain at least one text", targets)
    source_tokenizer = source_tokenizer or tokenizer
    check_special_tokens(tokenizer, source_tokenizer)
    if max_tokens is not None:
        check_positive_int("max_tokens", max_tokens)
    check_positive_int("shapes", shapes)
    check_positive_int("row_multiple", row_multiple)
    check_rate("subword_sampling", subword_sampling)
    sampling = None
    if subword_sampling:
        sampling = SubwordSampling(tokenizer, source_tokenizer, subword_sampling, seed)
    corpus = ParallelCorpus(
        *_packed_ids(source_tokenizer, sources, max_tokens),
        *_packed_ids(tokenizer, targets, max_tokens),
        line_numbers=np.arange(len(targets)),
        metadata={},
        texts={"source": _packed_texts(sources), "target": _packed_texts(targets)}
        if sampling
        else None,
        unit="index",
    )
    reader = plan_batches(
        corpus,
        tokenizer.special_tokens,
        batch_tokens=batch_tokens,
        seed=seed,
        shuffle=shuffle,
        subword_sampling=sampling,
        shapes=shapes,
    )
    return TextDataset(
        reader,
        row_multiple,
        for_language_model,
        workers=workers,
        use_multiprocessing=use_multiprocessing,
        max_queue_size=max_queue_size,
    )


def _packed_ids(
    tokenizer: SentencePieceTokenizer, texts: Sequence[str], max_tokens: int | None
) -> _Packed:
    """Return the concatenated token ids of texts and the offset of each text."""
    chunks = (texts[start : start + CHUNK_PAIRS] for start in range(0, len(texts), CHUNK_PAIRS))
    rows = ([row[:max_tokens] for row in tokenizer.encode(chunk)] for chunk in chunks)
    return _joined(map(PackedRows.of_ids, rows), ID_TYPE)


def _packed_texts(texts: Sequence[str]) -> _Packed:
    """Return the concatenated bytes of texts and the offset of each text."""
    return _joined([PackedRows.of_texts(texts)], TEXT_TYPE)


def _joined(chunks: Iterable[PackedRows], dtype: np.dtype) -> _Packed:
    values, lengths = zip(*chunks, strict=True)
    offsets = np.append(0, np.cumsum(np.concatenate(lengths)))
    return np.frombuffer(b"".join(values), dtype), offsets
