"""In a graph, weights of tokens become the links of words that they become in Python."""

import msgspec
import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.text import SentencePieceTokenizer
from keras_transformer.text.alignment import Alignment
from keras_transformer.text.sentencepiece_model import PieceVocabulary
from keras_transformer.text.tensorflow_alignment import TensorFlowWordAligner

LINES = ["a small house (house) stands behind the trees", "das große Haus, l'été 東京"] * 3
# Pieces with a space at either end, of spaces alone, and without a space.
PIECES = ["▁", "▁▁", "▁a", "b", "▁c▁", "d▁", "▁d▁e", "<0xF0>", "f"]
PAD, EOS, UNK = 9, 10, 11


def trained(**options):
    return SentencePieceTokenizer.train(LINES, **{"vocabulary_size": 64, **options})


def with_pieces(right_to_left=False):
    vocabulary = PieceVocabulary([*PIECES, "<pad>", "</s>", "<unk>"], pad=PAD, eos=EOS, unk=UNK)
    vocabulary = msgspec.structs.replace(vocabulary, right_to_left=right_to_left)
    return SentencePieceTokenizer(vocabulary.within(trained().model_bytes))


TOKENIZERS = {
    "usual": trained,
    "bytes": lambda: trained(vocabulary_size=310, byte_fallback=True),
    "any pieces": with_pieces,
    "right to left": lambda: with_pieces(right_to_left=True),
}


def text_tokens(tokenizer):
    tokens = tokenizer.special_tokens
    special = {tokens.pad, tokens.bos, tokens.eos}
    return [token for token in range(tokenizer.vocabulary_size) if token not in special]


def expected_links(tokenizers, source, target, weights):
    """The links of a pair, with both sides in the order of the text."""
    weights = np.array(weights)
    if tokenizers[0].right_to_left:
        source, weights[:, :-1] = source[::-1], weights[:, -2::-1]
    if tokenizers[1].right_to_left:
        target, weights = target[::-1], weights[::-1]
    pieces = [tokenizers[0].pieces(source), tokenizers[1].pieces(target)]
    return Alignment([*pieces[0], "</s>"], pieces[1], weights, is_guided=True).pharaoh()


@pytest.mark.parametrize("source", TOKENIZERS)
@pytest.mark.parametrize("target", TOKENIZERS)
def test_links_are_those_of_an_alignment(source, target):
    generator = np.random.default_rng(0)
    tokenizers = [TOKENIZERS[name]() for name in (source, target)]
    eos, pad = tokenizers[0].special_tokens.eos, tokenizers[0].special_tokens.pad
    pairs = [
        [generator.choice(text_tokens(each), generator.integers(0, 9)).tolist() for each in sides]
        for sides in [tokenizers] * 60
    ]
    source_ids = np.full((60, 11), pad, "int32")
    target_ids = np.full((60, 10), 2**31 - 1, "int32")  # its padding is not read
    weights = np.zeros((60, 10, 11), "float32")
    expected = []
    for i, (own_source, own_target) in enumerate(pairs):
        source_ids[i, : len(own_source) + 1] = [*own_source, eos]
        target_ids[i, : len(own_target)] = own_target
        shape = len(own_target), len(own_source) + 1
        weights[i, : shape[0], : shape[1]] = generator.dirichlet([0.3] * shape[1], shape[0])
        own = weights[i, : shape[0], : shape[1]]
        expected.append(expected_links(tokenizers, own_source, own_target, own))
    found = TensorFlowWordAligner(*tokenizers).pharaoh(source_ids, target_ids, weights)
    assert [line.decode() for line in found.numpy()] == expected
    assert "" in expected
    assert any(" " in line for line in expected)


def test_nothing_has_no_links():
    aligner = TensorFlowWordAligner(trained(), trained())
    for rows, columns in ((0, 0), (0, 3), (2, 0), (2, 1)):
        ids = tf.zeros([rows, columns], tf.int32)
        found = aligner.pharaoh(tf.fill([rows, 1], 2), ids, tf.zeros([rows, columns, 1]))
        assert found.numpy().tolist() == [b""] * rows
