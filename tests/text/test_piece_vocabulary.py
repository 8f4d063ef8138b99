"""A SentencePiece model whose pieces have ids of a vocabulary, as Marian's: library and graph."""

import msgspec
import numpy as np
import pytest

from keras_transformer.errors import UserInputError
from keras_transformer.text import SentencePieceTokenizer
from keras_transformer.text.sentencepiece_model import FIELD, PieceVocabulary, bytes_field
from keras_transformer.types import SpecialTokens

LINES = [
    "a small house stands behind the tree",
    "the trees behind a house stand small and tall",
    "das große Haus steht vor dem Baum 東京",
    "ein Baum steht in dem kleinen Garten vor den großen Häusern",
] * 2
OTHER = ["▁Katze", "zwölf", "漢", ">>deu<<", ">>fra<<"]  # of the other side, and tags
SENTENCES = [
    "a small house",
    "",
    "  two  spaces ",
    "漢",
    "漢字 and q",
    ">>deu<< a small house",
    "  >>fra<<a tree",
    ">>deu<<",
    ">>xyz<< a tree",
    "a >>deu<< tree",
    ">>deu<< a << b >>fra<<",
    ">>deu<<\na small\ntree",
    "</s> <pad> <unk>",
    "▁ ▁a",
]


def spm(lines=LINES, model_type="unigram", size=48):
    """The bytes of a SentencePiece model."""
    return SentencePieceTokenizer.train(
        lines, vocabulary_size=size, model_type=model_type
    ).model_bytes


def mapped(model_bytes, leave_out=("▁tree",)):
    """The vocabulary and the tokenizer of a model's pieces in another order, more and fewer."""
    plain = SentencePieceTokenizer(model_bytes)
    special = ("<pad>", "<s>", "</s>", "<unk>")
    words = {*plain.pieces(range(plain.vocabulary_size)), *OTHER} - {*special, *leave_out}
    pieces = ("</s>", "<unk>", *sorted(words), "<pad>")
    vocabulary = PieceVocabulary(pieces, pad=len(pieces) - 1, eos=0, unk=1)
    return vocabulary, SentencePieceTokenizer(vocabulary.within(model_bytes))


@pytest.fixture(scope="module", params=["unigram", "bpe"])
def both(request):
    return mapped(spm(model_type=request.param))


def test_the_vocabulary_decides_the_ids_also_from_a_file(both, tmp_path):
    vocabulary, tokenizer = both
    tokenizer.save(tmp_path / "tokenizer.model")
    tokenizer = SentencePieceTokenizer.load(tmp_path / "tokenizer.model")
    assert tokenizer.vocabulary == vocabulary
    assert tokenizer.vocabulary_size == len(vocabulary.pieces)
    pad = vocabulary.pad
    assert tokenizer.special_tokens == SpecialTokens(pad=pad, bos=pad, eos=0, unk=1)
    field = len(vocabulary.within(b""))
    plain = SentencePieceTokenizer(tokenizer.model_bytes[:-field])
    pieces = plain.pieces(plain.encode(["a small house"])[0])
    (ids,) = tokenizer.encode(["a small house"])
    assert ids == [vocabulary.ids[piece] for piece in pieces]
    assert tokenizer.pieces(ids) == pieces
    assert tokenizer.decode([[*ids, 0, pad]]) == ["a small house"]
    # A piece of the other side has its id, and one that the vocabulary lacks is unknown.
    assert vocabulary.ids["漢"] in tokenizer.encode(["漢"])[0]
    assert tokenizer.encode(["q"])[0][-1] == vocabulary.unk
    other = [vocabulary.ids["▁Katze"], vocabulary.ids["zwölf"]]
    assert tokenizer.decode([other]) == ["Katzezwölf"]


def test_tags_of_a_target_language_are_one_token_at_the_start(both):
    vocabulary, tokenizer = both
    assert tokenizer.target_languages == ("deu", "fra")
    german, plain = vocabulary.ids[">>deu<<"], tokenizer.encode(["a house"])[0]
    assert tokenizer.encode([">>deu<< a house", ">>deu<<a house"]) == [[german, *plain]] * 2
    (elsewhere,) = tokenizer.encode(["a >>deu<< house"])
    assert german not in elsewhere
    (unknown,) = tokenizer.encode([">>xyz<< a house"])
    assert len(unknown) > len(plain) + 1
    assert SentencePieceTokenizer(spm()).target_languages == ()


def test_samples_have_the_vocabularys_ids(both):
    vocabulary, tokenizer = both
    for seed in range(5):
        (row,) = tokenizer.sample(["a 漢 house"], alpha=0.3, seed=seed)
        assert vocabulary.ids["漢"] in row  # of the other side
        assert tokenizer.decode([row]) == ["a 漢 house"]
    rows = tokenizer.sample([">>deu<< a small house"] * 50, alpha=0.3, seed=1)
    assert len({tuple(row) for row in rows}) > 5
    texts = {text.removeprefix(">>deu<<").strip() for text in tokenizer.decode(rows)}
    assert texts == {"a small house"}


def test_bpe_samples_without_dropout_are_the_encoded_ids():
    _, tokenizer = mapped(spm(model_type="bpe"))
    texts = [*SENTENCES, "a 漢 tree", "漢漢字"]
    assert tokenizer.sample(texts, alpha=0, seed=1) == tokenizer.encode(texts)


@pytest.mark.tensorflow
@pytest.mark.parametrize("right_to_left", [False, True])
def test_the_graph_has_the_ids_and_the_texts_of_the_library(both, right_to_left, tmp_path):
    import tensorflow as tf

    from keras_transformer.text.tensorflow_sentencepiece import TensorFlowSentencePieceTokenizer

    vocabulary, tokenizer = both
    vocabulary = msgspec.structs.replace(vocabulary, right_to_left=right_to_left)
    model_bytes = vocabulary.within(PieceVocabulary.left_out(tokenizer.model_bytes))
    tokenizer = SentencePieceTokenizer(model_bytes)
    graph = TensorFlowSentencePieceTokenizer(tokenizer.model_bytes)
    assert int(graph.vocabulary_size) == tokenizer.vocabulary_size
    graph.ids = tf.function(
        graph.tokenize, input_signature=[tf.TensorSpec([None], tf.string)], autograph=False
    )
    tf.saved_model.save(graph, str(tmp_path / "saved"))
    loaded = tf.saved_model.load(str(tmp_path / "saved"))
    expected = tokenizer.encode(SENTENCES)
    assert graph.tokenize(tf.constant(SENTENCES)).to_list() == expected
    assert loaded.ids(tf.constant(SENTENCES)).to_list() == expected
    rows = [*expected, list(range(tokenizer.vocabulary_size))]
    texts = graph.detokenize(tf.ragged.constant(rows, tf.int32)).numpy()
    assert [text.decode() for text in texts] == tokenizer.decode(rows)


@pytest.mark.parametrize(
    "change",
    [
        {"pad": 10**6},
        {"eos": -1},
        {"unk": 0},
        {"pieces": ["a", "a", "b"]},
        {"pieces": "ab"},
        {"pieces": [1, 2, 3]},
    ],
)
def test_a_damaged_vocabulary_is_refused(change, tmp_path):
    vocabulary, _ = mapped(spm())
    content = msgspec.json.encode(msgspec.to_builtins(vocabulary) | change)
    field = bytes_field(FIELD, content)
    (tmp_path / "t.model").write_bytes(spm() + field)
    with pytest.raises(UserInputError, match="t.model: The vocabulary of the tokenizer is damaged"):
        SentencePieceTokenizer.load(tmp_path / "t.model")


def test_every_cut_is_refused_or_read():
    vocabulary, tokenizer = mapped(spm())
    content, refused = tokenizer.model_bytes, 0
    for end in np.random.default_rng(0).integers(len(content) // 2, len(content), 60):
        try:
            assert SentencePieceTokenizer(content[:end]).vocabulary in (None, vocabulary)
        except UserInputError:
            refused += 1
    assert refused > 50


def test_ids_from_right_to_left(both, tmp_path):
    vocabulary, tokenizer = both
    model_bytes = PieceVocabulary.left_out(tokenizer.model_bytes)
    reverse = msgspec.structs.replace(vocabulary, right_to_left=True)
    reversed_ = SentencePieceTokenizer(reverse.within(model_bytes))
    assert (reversed_.right_to_left, tokenizer.right_to_left) == (True, False)
    assert PieceVocabulary.left_out(reversed_.model_bytes) == model_bytes
    texts = [text for text in SENTENCES if ">>" not in text]
    rows = reversed_.encode(texts)
    assert [row[::-1] for row in rows] == tokenizer.encode(texts)
    assert reversed_.decode([[*row, 0] for row in rows]) == tokenizer.decode(
        tokenizer.encode(texts)
    )
    sampled = reversed_.sample(texts, alpha=0.3, seed=4)
    assert [row[::-1] for row in sampled] == tokenizer.sample(texts, alpha=0.3, seed=4)
    assert reversed_.target_languages == ()  # as Marian reads a tag: as text


def test_a_vocabulary_of_an_older_version_is_left_out_too(both):
    vocabulary, tokenizer = both
    content = msgspec.to_builtins(vocabulary)
    del content["right_to_left"]
    model_bytes = PieceVocabulary.left_out(tokenizer.model_bytes)
    older = model_bytes + bytes_field(FIELD, msgspec.json.encode(content))
    assert PieceVocabulary.of(older) == vocabulary
    assert PieceVocabulary.left_out(older) == model_bytes


def test_the_characters_of_each_token(both):
    _, tokenizer = both
    for text in SENTENCES:
        spans = tokenizer.spans(text)
        assert len(spans) == len(tokenizer.encode([text])[0])
        assert all(0 <= start <= end <= len(text) for start, end in spans)
    assert tokenizer.spans(">>deu<< a")[0] == (0, len(">>deu<<"))
