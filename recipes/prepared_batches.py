"""From sentence pairs to the batches that `fit` takes."""

import keras

from keras_transformer.data import BatchPlan, BatchReader, batch_stream, prepare_corpus


def prepared_batches(sources, targets, tokenizer, directory, **plan_options):
    """Tokenize sentence pairs, or find them tokenized, and plan their batches.

    Args:
        sources: list of strings.
        targets: list of as many strings.
        tokenizer: a `SentencePieceTokenizer`.
        directory: where tokenized corpora are kept.
        **plan_options: `batch_tokens`, `seed` and `shuffle` of `data.BatchPlan`.

    Returns:
        A `data.BatchReader`.
    """
    corpus = prepare_corpus(sources, targets, tokenizer, directory)
    return BatchReader(corpus, BatchPlan.of(corpus, **plan_options), tokenizer.special_tokens)


def fit_batches(reader):
    """Endless batches of a `BatchReader`: a `tf.data.Dataset` on TensorFlow, else a generator."""
    if keras.backend.backend() == "tensorflow":
        from keras_transformer.data.tensorflow_dataset import as_dataset

        return as_dataset(reader)
    return batch_stream(reader)
