"""The library form of the tokenizer: training, errors, and text that comes back as it was."""

import hashlib
import io
import re

import numpy as np
import pytest
import sentencepiece

from keras_transformer.errors import UserInputError
from keras_transformer.text import SentencePieceTokenizer
from keras_transformer.text.sentencepiece_model import PieceVocabulary
from keras_transformer.types import SpecialTokens

LINES = [
    "a small house stands behind the tree",
    "the big house stands before the small tree",
    "ein kleines haus steht hinter dem baum",
    "das große haus steht vor dem kleinen baum",
]


@pytest.fixture(scope="module")
def tokenizer():
    return SentencePieceTokenizer.train(LINES, vocabulary_size=60)


def test_special_tokens_and_size(tokenizer):
    assert tokenizer.vocabulary_size == 60
    assert tokenizer.special_tokens == SpecialTokens(pad=0, bos=1, eos=2, unk=3)
    assert tokenizer.pieces([0, 1, 2, 3]) == ["<pad>", "<s>", "</s>", "<unk>"]


def test_encode_gives_plain_ids_without_begin_or_end(tokenizer):
    ids = tokenizer.encode(["the small house", ""])
    assert ids[1] == []
    assert all(isinstance(token, int) and token > 3 for token in ids[0])
    assert "".join(tokenizer.pieces(ids[0])) == "▁the▁small▁house"


@pytest.mark.parametrize("as_rows", [list, lambda rows: np.array(rows, "int32")])
def test_decode_drops_padding_begin_and_end(tokenizer, as_rows):
    ids = tokenizer.encode(["the small house"])[0]
    rows = [[1, *ids, 2, 0, 0], [2, *[0] * (len(ids) + 3)]]
    assert tokenizer.decode(as_rows(rows)) == ["the small house", ""]


def test_nothing_to_do(tokenizer):
    assert tokenizer.encode([]) == []
    assert tokenizer.decode([]) == []
    assert tokenizer.decode([[], []]) == ["", ""]


def test_names_of_special_tokens_in_text_are_text(tokenizer):
    ids = tokenizer.encode(["<s> the </s> <pad>"])[0]
    assert not {0, 1, 2} & set(ids)


@pytest.mark.parametrize("model_type", ["bpe", "unigram"])
def test_training_is_deterministic(model_type):
    first, second = (
        SentencePieceTokenizer.train(LINES, vocabulary_size=35, model_type=model_type)
        for _ in range(2)
    )
    assert first.model_bytes == second.model_bytes
    assert first.fingerprint == hashlib.sha256(second.model_bytes).hexdigest()


def test_every_setting_changes_the_fingerprint():
    settings = [
        {},
        {"vocabulary_size": 61},
        {"model_type": "unigram", "vocabulary_size": 35},
        {"byte_fallback": True, "vocabulary_size": 316},
        {"normalization": "identity"},
        {"user_defined_symbols": ["<de>"]},
    ]
    tokenizers = [
        SentencePieceTokenizer.train(LINES, **{"vocabulary_size": 60, **setting})
        for setting in settings
    ]
    assert len({tokenizer.fingerprint for tokenizer in tokenizers}) == len(settings)


def test_user_defined_symbol_is_one_token():
    tokenizer = SentencePieceTokenizer.train(
        LINES, vocabulary_size=60, user_defined_symbols=["<de>"]
    )
    assert "<de>" in tokenizer.pieces(tokenizer.encode(["<de> the house"])[0])


def test_training_reads_a_generator_and_says_nothing(capfd):
    tokenizer = SentencePieceTokenizer.train((line for line in LINES), vocabulary_size=60)
    assert tokenizer.decode(tokenizer.encode(LINES[:1])) == LINES[:1]
    assert capfd.readouterr() == ("", "")


def test_long_lines_are_not_left_out_of_training():
    line = " ".join(["word"] * 2000 + ["zygote"])
    tokenizer = SentencePieceTokenizer.train([line, "word"], vocabulary_size=20)
    assert 3 not in tokenizer.encode(["zygote"])[0]


@pytest.mark.parametrize("byte_fallback", [False, True])
def test_least_vocabulary_is_named_and_works(byte_fallback, capfd):
    # 4 special tokens, the letters and "▁"; 256 bytes more with the fallback.
    least = 4 + len(set("".join(LINES).replace(" ", "▁"))) + 256 * byte_fallback
    settings = {"byte_fallback": byte_fallback}
    message = f"at least {least}. Received: vocabulary_size={least - 1}"
    with pytest.raises(UserInputError, match=message) as error:
        SentencePieceTokenizer.train(LINES, vocabulary_size=least - 1, **settings)
    assert "\n" not in str(error.value)
    tokenizer = SentencePieceTokenizer.train(LINES, vocabulary_size=least, **settings)
    assert tokenizer.vocabulary_size == least
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("model_type", ["bpe", "unigram"])
def test_largest_vocabulary_is_named_and_works(model_type):
    with pytest.raises(
        UserInputError, match=r"at most \d+. Received: vocabulary_size=999"
    ) as error:
        SentencePieceTokenizer.train(LINES, vocabulary_size=999, model_type=model_type)
    most = int(re.search(r"at most (\d+)", str(error.value)).group(1))
    tokenizer = SentencePieceTokenizer.train(LINES, vocabulary_size=most, model_type=model_type)
    assert tokenizer.vocabulary_size == most


@pytest.mark.parametrize("lines", [[], [""], ["", "  "]])
def test_no_text(lines):
    with pytest.raises(UserInputError, match="no text to train"):
        SentencePieceTokenizer.train(lines, vocabulary_size=60)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"vocabulary_size": 0}, "`vocabulary_size` must be a positive integer"),
        ({"vocabulary_size": 3}, "too small for the special tokens"),
        ({"model_type": "word"}, "`model_type` must be one of"),
        ({"normalization": "nfd"}, "`normalization` must be one of"),
        ({"character_coverage": 0.5}, r"`character_coverage` must be a number in \[0.98, 1\]"),
        ({"lines": "one string"}, "`lines` must be a list of strings"),
        ({"user_defined_symbols": "<BT>"}, "`user_defined_symbols` must be a list of strings"),
        ({"user_defined_symbols": [""]}, "without spaces. Received: user_defined_symbols=''"),
        ({"user_defined_symbols": ["a b"]}, "without spaces. Received: user_defined_symbols='a b'"),
        ({"user_defined_symbols": [5]}, "`user_defined_symbols` must be nonempty strings"),
    ],
)
def test_wrong_settings(settings, message):
    settings = {"lines": LINES, "vocabulary_size": 60, **settings}
    with pytest.raises(ValueError, match=message):
        SentencePieceTokenizer.train(settings.pop("lines"), **settings)


@pytest.mark.parametrize(
    "fault", [KeyError("a fault of the program"), UserInputError("x, line 3"), KeyboardInterrupt()]
)
def test_a_fault_in_the_lines_is_raised_as_it_is(fault):
    def lines():
        yield "a line"
        raise fault

    with pytest.raises(type(fault)) as raised:
        SentencePieceTokenizer.train(lines(), vocabulary_size=60)
    assert raised.value is fault


def test_lines_are_any_strings():
    assert SentencePieceTokenizer.train(["a b \ud800"], vocabulary_size=8).decode([[4]])
    with pytest.raises(ValueError, match=r"`lines` must be strings. Received: lines\[1\]=None"):
        SentencePieceTokenizer.train(["a b", None], vocabulary_size=8)


@pytest.mark.parametrize(
    ("normalization", "text"), [("identity", "a\ufffdb"), ("nfkc", "a\ufffdb"), ("nmt_nfkc", "a b")]
)
@pytest.mark.parametrize("has_vocabulary", [False, True])
def test_half_a_surrogate_pair_is_the_replacement_character(normalization, text, has_vocabulary):
    """Which "nmt_nfkc" reads as a space."""
    tokenizer = SentencePieceTokenizer.train(
        LINES, vocabulary_size=320, byte_fallback=True, normalization=normalization
    )
    if has_vocabulary:
        pieces = tuple(tokenizer.pieces(range(320)))
        vocabulary = PieceVocabulary(pieces, pad=0, bos=1, eos=2, unk=3)
        tokenizer = SentencePieceTokenizer(vocabulary.within(tokenizer.model_bytes))
    for half in ("\ud800", "\udfff"):
        rows = tokenizer.encode([f"a{half}b"])
        assert tokenizer.decode(rows) == [text]
        assert rows == tokenizer.encode(["a\ufffdb"])
        sampled = tokenizer.sample([f"a{half}b"], alpha=0.5, seed=1)
        assert tokenizer.decode(sampled) == [text]
    assert tokenizer.encode(["\ud83d\ude00"]) == tokenizer.encode(["\U0001f600"])  # both halves


def test_sentences_are_not_one_string(tokenizer):
    with pytest.raises(ValueError, match="`sentences` must be a list of strings"):
        tokenizer.encode("the house")


def test_train_to_a_file_save_and_load(tmp_path):
    trained = SentencePieceTokenizer.train(LINES, tmp_path / "a.model", vocabulary_size=60)
    loaded = SentencePieceTokenizer.load(tmp_path / "a.model")
    loaded.save(tmp_path / "b.model")
    assert loaded.fingerprint == trained.fingerprint
    assert loaded.encode(LINES) == trained.encode(LINES)
    assert (tmp_path / "b.model").read_bytes() == trained.model_bytes
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.model", "b.model"]


def test_load_of_what_is_no_model(tmp_path):
    for content in (b"", b"not a model"):
        (tmp_path / "bad.model").write_bytes(content)
        with pytest.raises(UserInputError, match="bad.model: .* not a SentencePiece model"):
            SentencePieceTokenizer.load(tmp_path / "bad.model")


def foreign_model(**settings):
    """A model as the `sentencepiece` command would train it."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(LINES), model_writer=model, vocab_size=40, minloglevel=2, **settings
    )
    return model.getvalue()


def test_ids_of_special_tokens_come_from_the_model():
    model_bytes = foreign_model(pad_id=3, bos_id=0, eos_id=1, unk_id=2)
    tokenizer = SentencePieceTokenizer(model_bytes)
    assert tokenizer.special_tokens == SpecialTokens(pad=3, bos=0, eos=1, unk=2)


def test_model_without_padding_is_refused():
    with pytest.raises(UserInputError, match=r"lacks the special tokens \['pad'\].*--pad_id=0"):
        SentencePieceTokenizer(foreign_model())


def test_byte_fallback_spells_what_the_vocabulary_lacks():
    tokenizer = SentencePieceTokenizer.train(LINES, vocabulary_size=320, byte_fallback=True)
    ids = tokenizer.encode(["木 🙂"])
    assert 3 not in ids[0]
    assert tokenizer.pieces(ids[0])[1:4] == ["<0xE6>", "<0x9C>", "<0xA8>"]
    assert tokenizer.decode(ids) == ["木 🙂"]


@pytest.mark.parametrize("model_type", ["bpe", "unigram"])
def test_each_word_has_one_start_and_so_has_the_end(model_type):
    tokenizer = SentencePieceTokenizer.train(
        LINES, vocabulary_size=295, model_type=model_type, byte_fallback=True
    )
    texts = [*LINES, "schönes 🎉🎉 house-trees a", "x"]
    for text, ids in zip(texts, tokenizer.encode(texts), strict=True):
        starts = np.isin([*ids, tokenizer.special_tokens.eos], tokenizer.word_starts)
        assert starts[0]
        assert starts.sum() == len(text.split()) + 1


def test_the_characters_of_each_token(tokenizer):
    for text in ["a small house", "  das große\u00a0 Haus\n½…", "", "日本 x", "e\u0301\ud800 tree"]:
        spans = tokenizer.spans(text)
        assert len(spans) == len(tokenizer.encode([text])[0])
        assert spans == sorted(spans)
        assert all(0 <= start <= end <= len(text) for start, end in spans)
        if text.isascii():
            pieces = tokenizer.pieces(tokenizer.encode([text])[0])
            assert [piece.replace("▁", " ").strip() for piece in pieces] == [
                text[start:end].strip() for start, end in spans
            ]
    assert tokenizer.spans("das große haus")[-1][1] == len("das große haus")
