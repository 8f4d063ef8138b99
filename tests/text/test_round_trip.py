"""With byte fallback, text comes back exactly as the stated normalization leaves it."""

import functools
import random

import pytest
import sentencepiece

from keras_transformer.text import SentencePieceTokenizer

LINES = [
    "a small house stands behind the tree",
    "das große Haus steht vor dem kleinen Baum",
    "l'été déjà 東京 Москва",
] * 2
NASTY = [
    "",
    "नमस्ते दुनिया",
    "สวัสดีชาวโลก",
    "مرحبا بالعالم",
    "שָׁלוֹם עוֹלָם",
    "안녕하세요 세계",
    "こんにちは、世界。",
    "Γειά σου Κόσμε",
    "გამარჯობა მსოფლიო",
    "ᏣᎳᎩ 𐍈 𓀀 𝔘𝔫𝔦𝔠𝔬𝔡𝔢",
    "👩‍👩‍👧 🏳️‍🌈 👍🏽 🇩🇪",  # joiners, variation selectors, skin tones, flags
    "Z͑ͫ̓ͪ̂ͫ̽͏̴̙̤̞͉͚̯̞̠͍A̴̵̜̰͔ͫ͗͢L̠ͨͧͩ͘G̴̻͈͍͔̹̑͗̎̅͛́Ǫ̵̹̻̝̳͂̌̌͘!͖̬̰̙̗̿̋ͥͥ̂ͣ̐́́͜͞",
    "e\u0301 \u0301 \u1100\u1161\u11a8",  # marks on a letter, on a space; a syllable in parts
    "\x00 \x01 \x1b[0m \x7f \x85 \x9f",
    "\ue000 \uf8ff \U000f0000 \U0010ffff \ufffe \ufdd0",  # private use, no characters
    "\ufeff \u200b \u200d \u2060 \u00ad \u202e \U000e0041",
    "\ufffd ⁇ \\u0041 &amp; %20",
    "<s> </s> <pad> <unk> <0x41> <0xE6><0x9C>",
    "a\tb\nc\rd\u00a0e\u2003f\u3000g\u2028h",
    " a", "a ", "  a  b  ", " ",
    "½ ﬁ ｆｕｌｌ ① ² ㎏ Å ſ",
    "Straße STRASSE ẞ İ ı",
]  # fmt: skip
FALLBACK = 300  # special tokens, 256 bytes, and what little the lines yield


def random_strings(count, seed):
    """Characters of all of Unicode but surrogates, half of them of the first blocks."""
    generator = random.Random(seed)
    blocks = [
        range(0x20, 0x7F),
        range(0x300),
        range(0x3000),
        range(0xD800),
        range(0xE000, 0x110000),
    ]

    def character():
        return chr(generator.choice(generator.choice(blocks)))

    return ["".join(character() for _ in range(generator.randrange(30))) for _ in range(count)]


STRINGS = [*NASTY, *random_strings(1000, seed=5)]


def joined(text):
    """Without spaces at its ends and next to another space."""
    return " ".join(word for word in text.split(" ") if word)


rules = functools.cache(lambda name: sentencepiece.SentencePieceNormalizer(rule_name=name))


def normalized(text, normalization):
    """What the tokenizer states that it keeps of the text."""
    if normalization == "identity":
        return text.replace("▁", " ")
    return joined(rules(normalization).normalize(text).replace("▁", " "))


@functools.cache
def train(model_type, normalization="identity"):
    return SentencePieceTokenizer.train(
        LINES,
        vocabulary_size=FALLBACK,
        model_type=model_type,
        normalization=normalization,
        byte_fallback=True,
    )


@pytest.fixture(params=["bpe", "unigram"])
def model_type(request):
    return request.param


@pytest.mark.parametrize("normalization", ["identity", "nmt_nfkc", "nfkc", "nmt_nfkc_cf"])
def test_text_comes_back_as_normalized(model_type, normalization):
    tokenizer = train(model_type, normalization)
    ids = tokenizer.encode(STRINGS)
    expected = [normalized(text, normalization) for text in STRINGS]
    assert tokenizer.decode(ids) == expected
    assert not any(token <= 3 for row in ids for token in row)
    # Normalized text stays as it is.
    assert tokenizer.decode(tokenizer.encode(expected)) == expected


def test_sampled_pieces_give_the_same_text(model_type):
    tokenizer = train(model_type)
    ids = tokenizer.sample(STRINGS, alpha=0.3, seed=2)
    assert tokenizer.decode(ids) == [normalized(text, "identity") for text in STRINGS]


@pytest.mark.parametrize(
    ("normalization", "text", "expected"),
    [
        ("identity", "  ½ ﬁ  Ａ\u00a0b\u200bc \u2028 ①\t", "  ½ ﬁ  Ａ\u00a0b\u200bc \u2028 ①\t"),
        ("identity", "a ▁ b", "a   b"),
        ("nfkc", " ½ ﬁ  Ａ ① ", "1⁄2 fi A 1"),
        ("nfkc", "e\u0301 ㎏ ＡＢ", "é kg AB"),
        ("nfkc", "a\u200bb\tc", "a\u200bb\tc"),
        ("nmt_nfkc", "a\u200bb\tc\x07 ▁ d\u00a0e\n", "a b c d e"),
        ("nmt_nfkc", "Straße İ", "Straße İ"),
        ("nmt_nfkc_cf", "Straße ÄRGER Ａ", "straße ärger a"),
    ],
)
def test_what_each_normalization_does(model_type, normalization, text, expected):
    tokenizer = train(model_type, normalization)
    assert tokenizer.decode(tokenizer.encode([text])) == [expected]


def test_without_byte_fallback_a_character_never_seen_is_lost(model_type):
    tokenizer = SentencePieceTokenizer.train(LINES, vocabulary_size=45, model_type=model_type)
    (ids,) = tokenizer.encode(["the 木"])
    assert ids[-1] == tokenizer.special_tokens.unk
    assert "⁇" in tokenizer.decode([ids])[0]
    assert train(model_type).decode(train(model_type).encode(["木"])) == ["木"]
