"""Damaged and hostile SentencePiece models: one line."""

import random
import struct

import pytest

from keras_transformer.errors import UserInputError
from keras_transformer.text import SentencePieceTokenizer, sentencepiece_model
from keras_transformer.text.sentencepiece_model import FIELD, SentencePieceModel, bytes_field

LINES = ["a small house", "das große Haus", "東京 abc def <BT>"] * 3
TEXTS = ["the small house ①", "東京 ﬁ <BT> ０１２", "", "a" * 100]


@pytest.fixture(scope="module")
def model_bytes():
    return trained("identity")


def trained(normalization):
    model = SentencePieceTokenizer.train(
        LINES,
        vocabulary_size=300,
        byte_fallback=True,
        user_defined_symbols=["<BT>"],
        normalization=normalization,
    )
    return model.model_bytes


def as_message(model_bytes):
    """The model as a protocol buffer, of which every field can be changed."""
    pytest.importorskip("google.protobuf")
    from sentencepiece import sentencepiece_model_pb2

    return sentencepiece_model_pb2.ModelProto.FromString(model_bytes)


def test_flipped_and_cut_models_are_refused_or_work(model_bytes):
    generator, refused = random.Random(1), 0
    for number in range(400):
        damaged = bytearray(model_bytes)
        place = generator.randrange(len(damaged))
        if number % 4:
            damaged[place] ^= generator.randrange(1, 256)
        else:
            del damaged[place:]
        try:
            tokenizer = SentencePieceTokenizer(bytes(damaged))
            ids = tokenizer.encode(TEXTS) + tokenizer.sample(TEXTS, alpha=0.3, seed=1)
            tokenizer.decode(ids)
            pieces = tokenizer.pieces(range(tokenizer.vocabulary_size))
        except UserInputError:
            refused += 1
            continue
        assert all(0 <= token < len(pieces) for row in ids for token in row)
        assert tokenizer.word_starts
    assert 0 < refused < 400


@pytest.mark.parametrize("score", [float("nan"), float("inf"), float("-inf")])
def test_scores_that_are_no_numbers(model_bytes, score):
    message = as_message(model_bytes)
    message.pieces[-1].score = score
    with pytest.raises(UserInputError, match="scores that are not finite numbers"):
        SentencePieceTokenizer(message.SerializeToString())


def test_a_piece_that_is_no_utf_8(model_bytes):
    damaged = model_bytes.replace("東".encode(), b"\xe6\x9d\xff")
    with pytest.raises(UserInputError, match="is not a SentencePiece model"):
        SentencePieceTokenizer(damaged)


def test_special_tokens_that_are_the_same(model_bytes):
    message = as_message(model_bytes)
    message.trainer_spec.pad_piece = "<s>"
    with pytest.raises(UserInputError, match=r"must differ. Received: .*--pad_id=0"):
        SentencePieceTokenizer(message.SerializeToString())


@pytest.mark.parametrize(
    "table",
    [
        struct.pack("<I", 1024) + b"\xff" * 1024 + b"abc\0",  # outside of the trie
        struct.pack("<I", 1 << 31) + bytes(2048),  # the trie is larger than the table
        struct.pack("<I", 1024) + bytes(1024),  # no normalized text
        struct.pack("<I", 0) + b"abc\0",
        b"\1",
    ],
)
def test_tables_of_the_normalizer_that_point_elsewhere(model_bytes, table):
    """The library reads them by pointers; before version 0.2.1 it did not look where to."""
    message = as_message(model_bytes)
    message.normalizer_spec.precompiled_charsmap = table
    with pytest.raises(UserInputError, match="is not a SentencePiece model"):
        SentencePieceTokenizer(message.SerializeToString())


def test_values_in_the_table_of_the_normalizer_that_point_elsewhere():
    message = as_message(trained("nmt_nfkc"))
    table = bytearray(message.normalizer_spec.precompiled_charsmap)
    for place in range(7, 4 + struct.unpack_from("<I", table)[0], 4):
        if table[place] & 0x80:  # a value: where its text begins
            table[place] = 0xFF
    message.normalizer_spec.precompiled_charsmap = bytes(table)
    with pytest.raises(UserInputError, match="is not a SentencePiece model"):
        SentencePieceTokenizer(message.SerializeToString())


@pytest.mark.parametrize(
    "tail",
    [
        b"\x0b",  # a group, of an old format
        b"\x0f",  # a type that does not exist
        b"\x0a\xff\x01",  # 255 bytes that are not there
        b"\x0d\x00",  # half a number
        b"\x80" * 20,  # an integer without an end
        b"\x0a\x02\x1d\x00",  # a piece with half a number
        b"\x0a\x02\x10\x00",  # a piece without text
        b"\x12\x02\x18\x09",  # a type of model that does not exist
    ],
)
def test_our_reader_refuses_what_is_no_model(model_bytes, tail):
    with pytest.raises(UserInputError, match="damaged SentencePiece model"):
        SentencePieceModel.read(model_bytes + tail)


def test_our_reader_passes_over_known_fields_of_another_type(model_bytes):
    """As the library does: `piece` as an integer, `trainer_spec` as a number."""
    tail = b"\x08\x07" + b"\x15\0\0\0\0" + b"\x11" + bytes(8)
    assert SentencePieceModel.read(model_bytes + tail) == SentencePieceModel.read(model_bytes)


def test_a_file_of_any_size_is_refused_unread(tmp_path):
    path = tmp_path / "sparse.model"
    with open(path, "wb") as file:
        file.truncate(10 << 30)
    with pytest.raises(UserInputError, match="sparse.model must have at most 67,108,864 bytes"):
        SentencePieceTokenizer.load(path)


def test_models_that_would_fill_the_memory(model_bytes, monkeypatch):
    vocabulary = b'{"pieces":["a"' + b',"a"' * 1000 + b"]}"
    for name, most, added in (
        ("MOST_PIECES", 300, b"\x0a\x03\x0a\x01q"),
        ("MOST_PIECES", 300, bytes_field(FIELD, vocabulary)),
        ("_MOST_OTHER_BYTES", 1000, bytes_field(4, bytes(1000))),
    ):
        with monkeypatch.context() as limited:
            limited.setattr(sentencepiece_model, name, most)
            assert SentencePieceTokenizer(model_bytes).vocabulary_size == 300
            message = "must have (at most 300 pieces|settings of at most 1,000 bytes)"
            with pytest.raises(UserInputError, match=message):
                SentencePieceTokenizer(model_bytes + added)


def test_an_empty_model_is_refused_without_a_log(capfd):
    with pytest.raises(UserInputError, match="is not a SentencePiece model: it has no pieces"):
        SentencePieceTokenizer(b"")
    assert capfd.readouterr() == ("", "")


def test_an_empty_device():
    with pytest.raises(UserInputError, match="/dev/null: .* not a SentencePiece model"):
        SentencePieceTokenizer.load("/dev/null")


def test_a_link_that_is_planted_for_the_file_is_not_followed(tmp_path, model_bytes):
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / "new.model.partial").symlink_to(victim)
    (tmp_path / "new.model").symlink_to(victim)
    SentencePieceTokenizer(model_bytes).save(tmp_path / "new.model")
    assert victim.read_text() == "precious"
    assert (tmp_path / "new.model").read_bytes() == model_bytes
