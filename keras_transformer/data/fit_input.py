"""From sentence pairs to what `model.fit` takes, in two calls."""

from keras_transformer.data.batch_plan import BatchPlan
from keras_transformer.data.batch_reader import BatchReader, batch_stream
from keras_transformer.data.corpus_preparation import prepare_corpus


def prepare_batches(
    sources, targets, tokenizer, cache_directory, *, batch_tokens, seed=0, shuffle=True
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

    Returns:
        A `BatchReader`.

    Raises:
        UserInputError: as from `prepare_corpus` and `BatchPlan`.
    """
    corpus = prepare_corpus(sources, targets, tokenizer, cache_directory)
    plan = BatchPlan.of(corpus, batch_tokens=batch_tokens, seed=seed, shuffle=shuffle)
    return BatchReader(corpus, plan, tokenizer.special_tokens)


def fit_batches(reader):
    """Endless batches for `fit` and `evaluate`; say how many with their arguments for steps.

    Args:
        reader: a `BatchReader`.

    Returns:
        A `tf.data.Dataset` that reads ahead on TensorFlow, else a generator.
    """
    import keras  # with its backend: too heavy for those who read text alone

    if keras.backend.backend() == "tensorflow":
        from keras_transformer.data.tensorflow_dataset import as_dataset

        return as_dataset(reader)
    return batch_stream(reader)
