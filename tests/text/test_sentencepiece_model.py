"""A model's pieces, as read from its bytes and as the library tells them."""

import pytest
import sentencepiece

from keras_transformer.text import SentencePieceTokenizer
from keras_transformer.text.sentencepiece_model import SentencePieceModel

LINES = ["a small house", "das große Haus", "東京 🙂 <bt> e\u0301", "the house is so small"]


@pytest.mark.parametrize("byte_fallback", [True, False])
@pytest.mark.parametrize("model_type", ["bpe", "unigram"])
def test_pieces_are_the_librarys(model_type, byte_fallback):
    tokenizer = SentencePieceTokenizer.train(
        LINES,
        vocabulary_size=(34 if model_type == "bpe" else 29) + 256 * byte_fallback,
        model_type=model_type,
        byte_fallback=byte_fallback,
        user_defined_symbols=["<bt>", "<ü>"],
    )
    library = sentencepiece.SentencePieceProcessor(model_proto=tokenizer.model_bytes)
    model = SentencePieceModel.read(tokenizer.model_bytes)
    reserved = {0, 1, 2, 3}
    in_bytes = {i for i in range(library.get_piece_size()) if library.is_byte(i)}
    others = set(range(library.get_piece_size())) - reserved - in_bytes
    assert model.model_type == model_type
    assert model.ids == {library.id_to_piece(i): i for i in others}
    assert model.scores == {library.id_to_piece(i): library.get_score(i) for i in others}
    assert model.user_defined == {"<bt>", "<ü>"}
    assert model.unused == frozenset()
    assert model.unknown_id == library.unk_id()
    expected = [library.piece_to_id(f"<0x{byte:02X}>") for byte in range(256)]
    assert model.byte_ids == (expected if byte_fallback else None)
    assert set(model.byte_ids or ()) == in_bytes


def test_a_character_without_a_piece_is_spelled_as_the_library_does():
    for byte_fallback, size in ((True, 300), (False, 40)):
        tokenizer = SentencePieceTokenizer.train(
            LINES, vocabulary_size=size, byte_fallback=byte_fallback
        )
        model = SentencePieceModel.read(tokenizer.model_bytes)
        (ids,) = tokenizer.encode(["aβ"])
        assert ids[-len(model.spell("β")) :] == list(model.spell("β"))
