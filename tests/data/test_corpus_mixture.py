"""Several corpora as one: numbering, token ids, text, names of lines."""

import numpy as np
import pytest

from keras_transformer.data.corpus_mixture import CorpusMixture
from keras_transformer.errors import UserInputError
from tests.data.corpora import corpus_of, random_corpus, with_text


def test_pairs_are_numbered_from_one_corpus_to_the_next():
    mixture = CorpusMixture([corpus_of([[5, 6], [7]], [[8], [9]]), corpus_of([[4]], [[3, 3, 3]])])
    assert len(mixture) == 3
    np.testing.assert_array_equal(mixture.source_lengths, [2, 1, 1])
    np.testing.assert_array_equal(mixture.target_lengths, [1, 1, 3])
    rows, lengths = mixture.padded("source", np.array([2, 0, 1, 2]), padding_id=-1)
    assert rows.tolist() == [[4, -1, -1], [5, 6, -1], [7, -1, -1], [4, -1, -1]]
    assert lengths.tolist() == [1, 2, 1, 1]
    rows, lengths = mixture.padded("target", np.array([2, 0]), padding_id=0)
    assert rows.tolist() == [[3, 3, 3, 0], [8, 0, 0, 0]]
    assert lengths.tolist() == [3, 1]


@pytest.mark.parametrize("number_of_corpora", [1, 3])
def test_rows_and_text_are_the_sentences_in_the_order_of_the_pairs(number_of_corpora):
    corpora = [with_text(random_corpus(50, seed)) for seed in range(number_of_corpora)]
    mixture = CorpusMixture(corpora)
    pairs = np.random.default_rng(0).permutation(len(mixture))[:40]
    for side in ("source", "target"):
        rows, lengths = mixture.padded(side, pairs, padding_id=0)
        assert rows.dtype == np.int32
        assert rows.shape == (40, lengths.max() + 1)
        sentences = [getattr(corpora[pair // 50], side)(pair % 50).tolist() for pair in pairs]
        for sentence, row, length in zip(sentences, rows, lengths, strict=True):
            assert row.tolist() == [*sentence, *[0] * (rows.shape[1] - length)]
        assert mixture.text(side, pairs) == [" ".join(map(str, each)) for each in sentences]


def test_errors_name_the_line_and_the_corpus():
    first, second = corpus_of([[5], [6]], [[5], [6]]), corpus_of([[7], [8]], [[7], [8]])
    second.line_numbers[:] = [40, 50]
    mixture = CorpusMixture([first, second])
    assert mixture.pair_name(1) == "line 2 of corpus 1"
    assert mixture.pair_name(3) == "line 50 of corpus 2"
    assert CorpusMixture([second]).pair_name(0) == "line 40"
    second.name, second.unit = "dev.mrg", "tree"
    assert mixture.pair_name(1) == "line 2 of corpus 1"
    assert mixture.pair_name(3) == "tree 50 of dev.mrg"
    assert CorpusMixture([second]).pair_name(0) == "tree 40 of dev.mrg"


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1, 2], "one number for each corpus. Received: 2 weights and 1 corpora"),
        ([0], r"finite numbers > 0. Received: weights=\[0\]"),
        ([-0.5], "finite numbers > 0"),
        ([float("inf")], "finite numbers > 0"),
        ([float("nan")], "finite numbers > 0"),
        ([True], "finite numbers > 0"),
        (["2"], "finite numbers > 0"),
    ],
)
def test_wrong_weights(weights, message):
    with pytest.raises(ValueError, match=message):
        CorpusMixture([random_corpus(3)], weights)


@pytest.mark.parametrize("weight", [1e300, 2e8, 10**400])
def test_weights_of_an_endless_epoch(weight):
    with pytest.raises(UserInputError, match="at most 500,000,000 pairs: use smaller weights"):
        CorpusMixture([random_corpus(3), random_corpus(3)], [1, weight])


def test_no_corpus():
    with pytest.raises(ValueError, match="at least one corpus"):
        CorpusMixture([])


def test_corpora_of_different_tokenizers():
    corpora = [random_corpus(3), random_corpus(3), random_corpus(3)]
    for corpus, fingerprint in zip(corpora, "aab", strict=True):
        corpus.metadata["source_tokenizer_fingerprint"] = fingerprint
    assert len(CorpusMixture(corpora[:2])) == 6
    with pytest.raises(ValueError, match="prepared with the same tokenizers"):
        CorpusMixture(corpora)
