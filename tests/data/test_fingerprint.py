"""What tells a resumed training that it reads the same batches."""

import dataclasses

import numpy as np

from keras_transformer.data import SentencePairs, SubwordSampling, plan_batches, prepare_corpus
from keras_transformer.text import SentencePieceTokenizer
from keras_transformer.types import SpecialTokens
from tests.data.corpora import CuttingTokenizer, corpus_of, random_corpus, with_text


def fingerprint(corpora=None, special_tokens=SpecialTokens(), **settings):  # noqa: B008
    corpora = with_text(random_corpus(60)) if corpora is None else corpora
    options = {"batch_tokens": 256, "seed": 1, **settings}
    return plan_batches(corpora, special_tokens, **options).fingerprint


def sampling(alpha=0.1, seed=1, name="cutting"):
    tokenizers = CuttingTokenizer(), CuttingTokenizer()
    tokenizers[0].fingerprint = name
    return SubwordSampling(*tokenizers, alpha=alpha, seed=seed)


def test_the_same_batches_have_the_same_fingerprint():
    assert fingerprint() == fingerprint() == fingerprint(weights=[1.0])
    assert fingerprint(subword_sampling=sampling()) == fingerprint(subword_sampling=sampling())


def test_whatever_changes_a_batch_changes_the_fingerprint():
    sentences = [[5, 6], [7]]
    two = random_corpus(60, 0), random_corpus(30, 1)
    other_pad = dataclasses.replace(SpecialTokens(), pad=900)
    fingerprints = [
        fingerprint(),
        fingerprint(seed=2),
        fingerprint(batch_tokens=257),
        fingerprint(shuffle=False),
        fingerprint(shapes=4),
        fingerprint(shapes=1),
        fingerprint(weights=[0.5]),
        fingerprint(special_tokens=other_pad),
        fingerprint(two),
        fingerprint(two[::-1]),
        fingerprint(two, weights=[1, 2]),
        fingerprint(subword_sampling=sampling()),
        fingerprint(subword_sampling=sampling(alpha=0.2)),
        fingerprint(subword_sampling=sampling(seed=2)),
        fingerprint(subword_sampling=sampling(name="another")),
        fingerprint(corpus_of(sentences, sentences)),
        fingerprint(corpus_of(sentences, [[5, 6], [8]])),
        fingerprint(corpus_of([[5], [6, 7]], sentences)),
        fingerprint(corpus_of(sentences[::-1], sentences[::-1])),
    ]
    assert len(set(fingerprints)) == len(fingerprints)


def test_a_prepared_corpus_knows_its_content_without_reading_it(tmp_path):
    lines = ["the house", "a tree behind the house"]
    tokenizer = SentencePieceTokenizer.train(lines, vocabulary_size=30)

    def prepared(targets):
        return prepare_corpus(SentencePairs(lines, targets), tokenizer, tmp_path)

    first, again, other = prepared(lines), prepared(lines), prepared(lines[::-1])
    assert first.fingerprint == again.fingerprint != other.fingerprint
    assert first.fingerprint == first.metadata["content"]
    np.testing.assert_array_equal(prepared(lines).source_ids, first.source_ids)
