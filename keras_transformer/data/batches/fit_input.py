"""From sentence pairs or prepared corpora to what `model.fit` takes, in two calls."""

from keras_transformer.data.batches.batch_plan import BatchPlan
from keras_transformer.data.batches.batch_reader import BatchReader, batch_stream
from keras_transformer.data.corpus_mixture import CorpusMixture
from keras_transformer.data.corpus_preparation import prepare_corpus
from keras_transformer.data.parallel_text import SentencePairs


def plan_batches(
    corpora,
    special_tokens,
    *,
    weights=None,
    batch_tokens,
    seed=0,
    shuffle=True,
    subword_sampling=None,
    shapes=None,
):
    """Plan the batches of one corpus, or of several that are mixed.

    Args:
        corpora: a `ParallelCorpus` or a list of them.
        special_tokens: the tokenizer's `SpecialTokens`.
        weights: list of numbers > 0, one a corpus: how often an epoch reads each of its pairs. 2
            is twice; 0.25 reads a quarter of the corpus, another quarter each epoch. Default: 1
            each.
        batch_tokens: most source tokens and most target tokens of a batch, with padding.
        seed: non-negative integer; decides the order of the batches.
        shuffle: whether epochs differ in the order of their sentences.
        subword_sampling: `SubwordSampling`, or None. The corpora must be prepared with
            `keep_text=True`. Batches then hold fewer sentences, so that samples, which are longer
            than the ordinary pieces, fit into `batch_tokens`. A sentence whose sample does not
            fit keeps its ordinary pieces.
        shapes: None, or the most padded shapes of batches, for compilers that compile a step anew
            for each: XLA on TensorFlow, and JAX always. 16 pad nearly as little as any number.

    Returns:
        A `BatchReader`.

    Raises:
        UserInputError: `batch_tokens` is smaller than the longest sentence.
        ValueError: the weights, or another argument, break their rule.

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
    corpora = corpora if isinstance(corpora, (list, tuple)) else [corpora]
    corpus = CorpusMixture(corpora, weights)
    growth = subword_sampling.growth(corpus) if subword_sampling else (1.0, 1.0)
    plan = BatchPlan.of(
        corpus, batch_tokens=batch_tokens, seed=seed, shuffle=shuffle, growth=growth, shapes=shapes
    )
    return BatchReader(corpus, plan, special_tokens, subword_sampling)


def prepare_batches(
    sources,
    targets,
    tokenizer,
    cache_directory,
    *,
    batch_tokens,
    seed=0,
    shuffle=True,
    shapes=None,
):
    """Tokenize sentence pairs, or find them tokenized, and plan their batches.

    Args:
        sources: list of strings.
        targets: list of as many strings.
        tokenizer: a `SentencePieceTokenizer`.
        cache_directory: where tokenized corpora are kept.
        batch_tokens: most source tokens and most target tokens of a batch, with padding.
        seed: non-negative integer; decides the order of the batches.
        shuffle: whether epochs differ.
        shapes: as in `plan_batches`.

    Returns:
        A `BatchReader`.

    Raises:
        UserInputError: as from `prepare_corpus` and `BatchPlan`.
    """
    corpus = prepare_corpus(SentencePairs(sources, targets), tokenizer, cache_directory)
    return plan_batches(
        corpus,
        tokenizer.special_tokens,
        batch_tokens=batch_tokens,
        seed=seed,
        shuffle=shuffle,
        shapes=shapes,
    )


def fit_batches(reader, start_step=0, row_multiple=1, shard=(0, 1)):
    """Endless batches for `fit` and `evaluate`; say how many with their arguments for steps.

    Args:
        reader: a `BatchReader`.
        start_step: global step of the first batch, from 0.
        row_multiple: positive integer: every batch is filled up with empty rows, which weigh
            nothing, to a multiple of it: the number of replicas times that of micro-batches.
        shard: `(index, count)`: this process's index, from 0, and the number of processes, which
            divides `row_multiple`. Each reads an equal, contiguous slice of the rows of each batch.

    Returns:
        A `tf.data.Dataset` that reads ahead on TensorFlow, else a generator.

    Raises:
        ValueError: `row_multiple` or `shard` break their rule.
    """
    import keras  # with its backend: too heavy for those who read text alone

    if keras.backend.backend() == "tensorflow":
        from keras_transformer.data.batches.tensorflow_dataset import as_dataset

        return as_dataset(reader, start_step, row_multiple=row_multiple, shard=shard)
    return batch_stream(reader, start_step, row_multiple=row_multiple, shard=shard)
