"""Sentences to ids: what is too long is refused, cut or split, and never tokenised in whole."""

import pytest

from keras_transformer.errors import LongSentenceWarning, SentenceTooLong
from keras_transformer.text import SentencePieceTokenizer, sentence_encoding
from keras_transformer.text.sentence_encoding import encode_sentences, split_sentences
from tests.random_translation import sentences


class CountedTokenizer:
    """A tokenizer that knows how many characters it was given."""

    def __init__(self, tokenizer):
        self.tokenizer = tokenizer
        self.word_starts = tokenizer.word_starts
        self.characters = 0

    def encode(self, texts):
        self.characters += sum(map(len, texts))
        return self.tokenizer.encode(texts)


@pytest.fixture(scope="module", params=[("bpe", 60), ("unigram", 33)], ids=lambda param: param[0])
def tokenizer(request):
    model_type, size = request.param
    lines = sentences(200)
    return SentencePieceTokenizer.train(lines, vocabulary_size=size, model_type=model_type)


@pytest.fixture
def counted(tokenizer):
    return CountedTokenizer(tokenizer)


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(sentence_encoding, "_BLOCK_CHARACTERS", 16)


def test_the_limit_leaves_room_for_the_end_of_sentence(tokenizer):
    (row,) = tokenizer.encode(["old tree"])
    assert encode_sentences("sources", iter(["old tree", ""]), tokenizer, len(row) + 1) == [row, []]
    with pytest.raises(SentenceTooLong) as caught:
        encode_sentences("sources", ["old", "old tree"], tokenizer, len(row))
    assert str(caught.value) == (
        f"`sources[1]` has more than {len(row)} tokens, end of sentence counted: 'old tree'..."
    )


@pytest.mark.usefixtures("small_blocks")
def test_a_text_in_blocks_has_the_tokens_of_the_whole(tokenizer):
    texts = [" ".join(sentences(n, seed=n)) for n in range(1, 8)]
    texts += ["", " " * 50, "  old " * 20, "a" * 15, "ab " * 40]
    assert encode_sentences("sources", texts, tokenizer, 10_000) == tokenizer.encode(texts)


@pytest.mark.parametrize(
    "text", ["old tree " * 100_000, "ab" * 500_000, "\u3000" * 10, " " * 1_000_000]
)
def test_no_more_is_tokenised_than_the_limit_needs(counted, text):
    if text.isspace():
        assert encode_sentences("sources", [text], counted, 9) == [[]]
        return
    with pytest.raises(SentenceTooLong):
        encode_sentences("sources", [text], counted, 100)
    with pytest.warns(LongSentenceWarning, match="its end is cut off"):
        (row,) = encode_sentences("sources", [text], counted, 100, "cut")
    assert row == counted.tokenizer.encode([text[:1000]])[0][:99]
    assert counted.characters < 50_000


def test_a_text_is_split_where_its_sentences_end(tokenizer):
    text = "Old tree. Is Dr. House green? Yes!"
    parts = tokenizer.encode(["Old tree.", "Is Dr. House green?", "Yes!"])
    limit = max(map(len, parts)) + 1
    with pytest.warns(LongSentenceWarning, match=r"`sources\[1\]` .*it is split into 3\)"):
        found = split_sentences("sources", ["old", text], tokenizer, limit, "en")
    assert found == [tokenizer.encode(["old"]), parts]


def test_a_sentence_without_an_end_is_parted_between_words(tokenizer):
    with pytest.warns(LongSentenceWarning):
        (rows,) = split_sentences("sources", ["small old house " * 20], tokenizer, 12, "en")
    assert max(map(len, rows)) <= 11
    assert [token for row in rows for token in row] == tokenizer.encode(["small old house " * 20])[
        0
    ]
    assert all(row[0] in tokenizer.word_starts for row in rows)


@pytest.mark.usefixtures("small_blocks")
def test_a_word_without_an_end_is_parted_between_tokens(tokenizer):
    with pytest.warns(LongSentenceWarning):
        (rows,) = split_sentences("sources", ["houses" * 100], tokenizer, 7, "en")
    assert max(map(len, rows)) <= 6
    assert "".join(tokenizer.decode(rows)).replace(" ", "") == "houses" * 100


def test_half_a_surrogate_pair_is_the_replacement_character(tokenizer):
    whole = encode_sentences("sources", ["old \ufffd"], tokenizer, 90)
    assert encode_sentences("sources", ["old \udfff"], tokenizer, 90) == whole
    assert split_sentences("sources", ["old \udfff"], tokenizer, 90, "en") == [whole]


def test_one_string_is_no_list(tokenizer):
    with pytest.raises(ValueError, match="`sources` must be a list of strings"):
        encode_sentences("sources", "old", tokenizer, 9)
