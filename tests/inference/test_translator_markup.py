"""Documents and ICU messages, translated by a model with random weights."""

import collections
import random
import re

import numpy as np
import pytest

from keras_transformer import Translator
from keras_transformer.errors import LongSentenceWarning, SentenceTooLong, UserInputError
from keras_transformer.formats.sentence_translator import SentenceTranslator
from keras_transformer.search_options import SearchOptions
from keras_transformer.text import IcuMessage, SentencePieceTokenizer
from tests.random_translation import WORDS, build, sentences

TAG = re.compile(r"""</?\w(?:"[^"]*"|'[^']*'|[^>"'])*>|<!--.*?-->""")


@pytest.fixture(scope="module")
def tokenizer():
    return SentencePieceTokenizer.train(sentences(200), vocabulary_size=64)


class Reversing:
    """A generator whose outputs are the sources' words from the last to the first."""

    def __init__(self, tokenizer):
        self.eos = tokenizer.special_tokens.eos
        self.word_starts = {*tokenizer.word_starts}

    def reversed(self, row):
        words = []
        for token in row:
            if token in self.word_starts or not words:
                words.append([])
            words[-1].append(token)
        return [token for word in words[::-1] for token in word]

    def search(self, rows, prefix_rows, num_results, progress=False, terms=None):
        for i, row in enumerate(rows):
            if row:
                added = [token for form in (terms or rows)[i] if terms and not form.is_reserved
                         for token in form.tokens * form.times]  # fmt: skip
                yield (
                    i,
                    [[*self.reversed(row), *added, self.eos]] * num_results,
                    [0.0] * num_results,
                )

    def alignment(self, source_rows, target_rows, progress=False):
        for i, (source, target) in enumerate(zip(source_rows, target_rows, strict=True)):
            yield i, np.eye(len(target), len(source) + 1)[::-1]


@pytest.fixture
def translator(tokenizer):
    """A translator that takes no time."""

    class Fake(SentenceTranslator):
        _has_terms = True
        _generator = Reversing(tokenizer)
        max_length = None

    def translator(long_sentences="refuse", **options):
        return Fake(
            tokenizer,
            tokenizer,
            SearchOptions(**options),
            batch_size=8,
            long_sentences=long_sentences,
            source_language="en",
        )

    return translator


def random_document(chance, depth=3):
    """Words with nested, empty and adjacent tags, code and variables."""
    parts = []
    for _ in range(chance.randint(1, 4)):
        name = chance.choice(["b", "i", "a"])
        inner = random_document(chance, depth - 1) if depth else ""
        parts.append(
            chance.choice(
                [
                    chance.choice(WORDS),
                    f'<{name} title="{chance.choice(WORDS)}" id=\'">\'>{inner}</{name}>',
                    f"<{name}></{name}>{chance.choice(WORDS)}",
                    f"<code>c{chance.randint(0, 9)}</code>, ",
                    f"{{x{chance.randint(0, 9)}}} ",
                    "<br>",
                    f"{chance.choice(WORDS)}<!-- <b> -->. ",
                ]
            )
        )
    return " ".join(parts)


def well_formed(text):
    """The tags of a document and how often each occurs; titles are text."""
    stack = []
    for tag in TAG.findall(text):
        if tag[1] == "/" and tag != "</code>":
            assert stack.pop() == tag[2]
        elif tag[1] in "biap" and tag != "<br>":
            stack.append(tag[1])
    assert not stack
    return collections.Counter(re.sub('title="[^"]*"', "", tag) for tag in TAG.findall(text))


@pytest.mark.parametrize(
    "model", ["fake", "fake, split", pytest.param("random", marks=pytest.mark.slow)]
)
def test_each_tag_and_each_protected_part_is_kept(translator, tokenizer, random_seed, model):
    chance = random.Random(random_seed)
    documents = [f"<p>{random_document(chance)}</p>" for _ in range(20)]
    if model == "random":
        own = Translator(build(tokenizer), tokenizer, beam_size=2)
    else:
        own = translator(long_sentences="split" if "split" in model else "refuse")
    found = own.translate([*documents, "<hr>", ""], markup="html")
    assert found[-2:] == ["<hr>", ""]
    for source, text in zip(documents, found, strict=False):
        assert well_formed(text) == well_formed(source)
        kept = r"<code>.*?</code>|{x\d}"
        assert sorted(re.findall(kept, text)) == sorted(re.findall(kept, source))


def test_text_without_tags_is_translated_as_it_is(translator):
    own, lines = translator(), sentences(6)
    page = "".join(f"<li>{line}</li>\r\n" for line in lines)
    expected = "".join(f"<li>{line}</li>\r\n" for line in own.translate(lines))
    assert own.translate(page, markup="html") == expected
    assert own(f"<a>{lines[0]}</a>", markup="xml") == f"<a>{own(lines[0])}</a>"


def test_a_glossary_applies_to_each_sentence(translator):
    page = "<p>house <b>tree</b></p><p>old <i>tree</i></p>"
    found = translator().translate(page, markup="html", glossary={"tree": "lamp stone"})
    assert re.sub("<.*?>", "", found).count("lamp stone") == 2


def test_a_sentence_that_is_too_long_names_its_document(translator):
    own, long = translator(max_source_length=9), "tree house <b>river</b> cloud stone " * 3
    with pytest.raises(SentenceTooLong, match=r"`sentences\[1\]` has more than 9") as caught:
        own.translate(["<p>tree</p><p>house</p>", f"<p>tree</p><p>{long}</p>"], markup="html")
    assert caught.value.index == 1
    own = translator(max_source_length=9, long_sentences="split")
    with pytest.warns(LongSentenceWarning, match=r"`sentences\[1\]`"):
        found = own.translate(["<p>tree", f"<p>{long}"], markup="html")
    assert found[1].count("<b>") == found[1].count("</b>") == 3


MESSAGES = [
    "{n, plural, one {# tree} other {# trees}} in {x}",
    "old {g, select, a {house} other {{n, plural, =0 {no lamp} other {# '{lamps}' & #}}}}",
    "{n, plural, =0 {} other {#}}",
]


def kept_in_texts(source):
    """What the texts of a message have to contain."""
    message = IcuMessage.parse(source)
    return [
        sorted(text[start:end] for start, end in variables)
        for text, variables in zip(message.texts, message.variables(), strict=True)
    ]


@pytest.mark.parametrize("keep", ["auto", "numbers"])
def test_the_text_in_icu_messages_is_translated(translator, keep):
    lines = [MESSAGES[0], "tree {x}", *MESSAGES[1:], "{x}", ""]
    found = translator().translate(lines, keep=keep)
    for source, text in zip(MESSAGES, [found[0], *found[2:4]], strict=True):
        assert kept_in_texts(text) == kept_in_texts(source)
    assert found[0].startswith("{n, plural, one {{x} ")
    assert "{x}" in found[1]
    assert found[3:] == ["{n, plural, =0 {} other {#}}", "{x}", ""]
    assert "plural" in translator().translate_nbest(lines[:1], 1, keep=keep)[0][0][0]


def test_a_message_that_is_too_long_names_its_line(translator):
    own = translator(max_source_length=20)
    line = "{n, plural, one {tree} other {%s}}" % ("tree " * 20) + ""
    with pytest.raises(SentenceTooLong) as caught:
        own.translate([MESSAGES[1], line], keep="auto")
    assert caught.value.index == 1


def test_what_cannot_be_combined_is_one_line(translator):
    own = translator()
    for said, arguments in (
        ("`kind` must be one of html, xml, markdown", {"markup": "rtf"}),
        ("`prefixes` cannot be combined with `markup`", {"markup": "html", "prefixes": ["a"]}),
        ("`keep` must be none, auto", {"markup": "html", "keep": ["a"]}),
    ):
        with pytest.raises(UserInputError, match=said):
            own.translate(["a"], **arguments)
    with pytest.raises(UserInputError, match='combined with `long_sentences="cut"`'):
        translator(long_sentences="cut").translate(["a"], markup="html")


def test_a_single_string_takes_the_same_arguments(translator):
    own = translator()
    assert own.translate("tree {x}", keep="auto") == own.translate(["tree {x}"], keep="auto")[0]
    own.translate("tree", "stone")
    own.translate("tree", prefixes="stone")


def test_a_search_without_terms_has_no_markup(translator, monkeypatch):
    own = translator()
    monkeypatch.setattr(own, "_has_terms", False)
    with pytest.raises(UserInputError, match="`markup` is not supported by `.*`."):
        own.translate(["a"], markup="html")
