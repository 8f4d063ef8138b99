"""Documents whose sentences are translated, with a translator whose alignment is known."""

import re
import warnings

import pytest

from keras_transformer.errors import LongSentenceWarning, UserInputError
from keras_transformer.text.markup.marked_up_texts import MarkedUpTexts
from tests.text.markup.word_translator import WordTranslator, train


@pytest.fixture(scope="module")
def tokenizer():
    return train()


@pytest.fixture(scope="module")
def translator(tokenizer):
    return WordTranslator(tokenizer)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (
            "<p>the <b>red</b> house &amp; its tree.</p>",
            "<p>TREE ITS HOUSE &amp; <b>RED</b> THE.</p>",
        ),
        ("<p>the <b id='>'>red <i>house</i></b> end", "<p>END <b id='>'><i>HOUSE</i> RED</b> THE"),
        ("use\r\n\t<b>the\r\n red</b>   house", "HOUSE <b>RED THE</b> USE"),
        ("use<br><a title='the tree'>it</a>", "<a title='TREE THE'>IT</a> USE<br>"),
        ("<b><i>the red</i></b>", "<b><i>RED THE</i></b>"),
    ],
)
def test_tags_follow_their_words(translator, source, expected):
    assert translator.translate(source) == expected


@pytest.mark.parametrize(
    ("source", "kind", "expected"),
    [
        (
            "use <code>a  b</code> or {x}, see https://x.org/a.",
            "html",
            "https://x.org/a SEE {x} OR, <code>a  b</code> USE.",
        ),
        ("go to <b>{x}</b> or up", "html", "UP OR <b>{x}</b> TO GO"),
        ("go a<code>b</code>c, not &x;", "html", "&x; NOT, a<code>b</code>c GO"),
        ("<code>a</code>b", "html", "<code>a</code>b"),
        ("see {x} `%s`, `a` *red house*", "markdown", "*HOUSE RED* `a`, `%s` {x} SEE"),
        (
            "<r><a>{x}</a>: <b>red</b> <![CDATA[<b>]]></r>",
            "xml",
            "<r><![CDATA[<b>]]>: <b>RED</b> <a>{x}</a></r>",
        ),
    ],
)  # fmt: skip
def test_what_is_protected_stays_as_it_is(translator, source, kind, expected):
    assert translator.translate(source, kind) == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        # The examples of bergamot-translator#288 and of its tests.
        (
            "<b id='1a' style='color:red'>the<i id='1b'> red house</i></b> <i id='1c'>tree</i>",
            "<i id='1c'>TREE</i> <b id='1a' style='color:red'><i id='1b'>HOUSE RED</i> THE</b>",
        ),
        ("<b>h</b><i>ou</i><a id='1'>se</a>", "<b>HOUSE</b><i></i><a id='1'></a>"),
        ("<p>tree<br>house?</p>", "<p>HOUSE TREE<br>?</p>"),
        ("<p><input>H<u>o</u>use <b>red</b></p>", "<p><input><b>RED</b> <u>HOUSE</u></p>"),
        (
            "<p title='&quot;'>see &lt;the&gt; &amp; <b>end</b></p>\n",
            "<p title='&quot;'><b>END</b> &lt;THE&gt; &amp; SEE</p>\n",
        ),
        # Scripts stay, and nothing outside the document is read.
        (
            "<script>the('<b>')</script><p>the <script src=x></script>red</p>",
            "<script>the('<b>')</script><p><script src=x></script>RED THE</p>",
        ),
        ("<p>the <b>red", "<p><b>RED THE"),
        ("<p>the שלום <b>\u202ered</b></p>", None),
        ("<p>the<b>\u0301</b> red</p>", None),
    ],
)
def test_pages_with_surprises(translator, source, expected):
    found = translator.translate(source)
    assert found == expected or expected is None
    assert sorted(re.findall("<.*?>", found)) == sorted(re.findall("<.*?>", source))


def test_entities_of_a_document_type_are_not_expanded(translator):
    entities = "".join(f'<!ENTITY e{i} "{f"&e{i - 1};" * 10}">' for i in range(1, 30))
    source = (
        f'<!DOCTYPE r [<!ENTITY e0 SYSTEM "file:///etc/passwd">{entities}]><r>the &e29; red</r>'
    )
    assert translator.translate(source, "xml") == source.replace("the &e29; red", "RED &e29; THE")


@pytest.mark.parametrize("size", [1_000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_large_blocks_take_linear_time(tokenizer, size):
    translator = WordTranslator(tokenizer, max_length=60, splits=True)
    for source, number in (
        ("<b>" * size + "the red" + "</b>" * size, size),
        ("<b>the</b>" + " house" * size, 1),
        ("see <b>{x}</b> " * (size // 10), size // 10),
        ("house" * size + "<b></b>", 1),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = translator.translate(source)
        assert found.count("<b>") == found.count("</b>") == number


def test_what_to_keep_is_found_in_the_text(translator):
    source = "<p>the house {up} <b>one</b>"
    assert translator.translate(source, keep="none") == "<p><b>ONE</b> UP {HOUSE} THE"
    assert translator.translate(source, keep="house|one") == "<p><b>one</b> UP {house} THE"


def test_a_block_is_translated_sentence_by_sentence(translator):
    source = "<p>the <b>red</b> house. Its tree, <i>are near. Go</i> up! — <b>?</b>"
    assert translator.translate(source) == (
        "<p>HOUSE <b>RED</b> THE. <i>NEAR ARE, TREE ITS. UP GO</i>! — <b>?</b>"
    )
    assert translator.sentences == ["the red house.", "Its tree, are near.", "Go up!"]
    translator.translate("<p>see {x. Go y}, go</p>", keep=r"\{[^}]*\}")
    assert translator.sentences == ["see X, go"]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (
            "<p>{n, plural, one {# file} other {# files}} to {x} &lt;</p>",
            "<p>{n, plural, one {{x} TO FILE # &lt;} other {{x} TO FILES # &lt;}}</p>",
        ),
        (
            "<a title='{g, select, f {the tree} other {}}'>up</a>",
            "<a title='{g, select, f {TREE THE} other {}}'>UP</a>",
        ),
        # The whole argument is a variable, and so is what is in the braces of a broken one.
        (
            "<p>{n, plural, one {# <b>file</b>} other {# files}} up</p>",
            "<p>UP {n, plural, one {# <b>file</b>} other {# files}}</p>",
        ),
        ("<p>go {n, plural, one {# file} other {# files}</p>", None),
    ],
)
def test_messages_in_documents(translator, source, expected):
    found = translator.translate(source)
    assert found == expected or (expected is None and "{# file}" in found)


def codes(number):
    return "use " + ", ".join(f"<code>c{i}</code> or" for i in range(number)) + " the end"


@pytest.mark.parametrize("number", [15, 60, 400])
def test_any_number_of_protected_parts_is_kept(tokenizer, number):
    translator = WordTranslator(tokenizer)
    found = translator.translate(codes(number))
    assert sorted(re.findall(r"<code>(c\d+)</code>", found)) == sorted(
        f"c{i}" for i in range(number)
    )
    assert found.count("OR") == number
    assert all(len(each.split(",")) <= 17 for each in translator.sentences)


@pytest.mark.parametrize("most_variables", [0, 1, 2])
def test_a_sentence_is_divided_at_what_the_model_has_no_words_for(tokenizer, most_variables):
    translator = WordTranslator(tokenizer, most_variables=most_variables)
    source = "use <code>a</code> or <code>b</code>, see <i>the <code>c</code> files</i> {d}"
    found = translator.translate(source)
    for part in ("<code>a</code>", "<code>b</code>", "<code>c</code>", "{d}", "USE", "FILES"):
        assert found.count(part) == 1
    assert found.count("<i>") == found.count("</i>") == 1
    if most_variables == 0:
        assert found == (
            "USE <code>a</code> OR <code>b</code>, <i>THE SEE <code>c</code> FILES</i> {d}"
        )


def test_a_vocabulary_without_words_divides_too(tokenizer, monkeypatch):
    translator = WordTranslator(tokenizer)
    monkeypatch.setattr(translator.stand_ins, "_candidates", [])
    found = translator.translate("see <code>a</code> or <b>{x}</b> the end")
    assert found == "SEE <code>a</code> OR <b>{x}</b> END THE"


def test_long_sentences_are_split_between_words(tokenizer):
    translator = WordTranslator(tokenizer, max_length=12, splits=True)
    words = "the red house and its tree are near it see use or not end go up to one two files"
    source = f"<p>up</p><p>{words.replace('tree', '<b>{x} tree').replace('see', 'see</b>')}</p>"
    with pytest.warns(
        LongSentenceWarning, match=r"`sentences\[0\]` has .* \(it is split\)"
    ) as seen:
        found = translator.translate(source)
    assert len(seen) == 1
    assert sorted(re.sub("<.*?>|{x}", " ", found).split()) == sorted(["UP", *words.upper().split()])
    assert max(map(len, tokenizer.encode(translator.sentences))) < 12
    assert re.search("<b>.*{x}.*SEE.*</b>", found)
    with pytest.warns(LongSentenceWarning):
        found = translator.translate("<p>" + "house" * 50)
    assert found.count("HOUSE") == 50


def test_translations_that_the_model_cannot_read_keep_their_tags(tokenizer):
    translator = WordTranslator(tokenizer)
    texts = MarkedUpTexts(["a <b>red</b> house"], "html", "none", translator.limits)
    (row,) = tokenizer.encode(["HOUSE " * 200])
    outputs = [translator.stand_ins.restore(texts.kept[0], row)]
    assert texts.to_align(outputs) == {}
    (found,) = texts.render(outputs, {})
    assert found.count("<b>") == found.count("</b>") == 1
    assert found.count("HOUSE") == 200


def test_xml_that_is_not_well_formed_is_one_line(translator):
    with pytest.raises(UserInputError, match="must be well-formed") as caught:
        translator.translate("<a><b></a>", "xml")
    assert "\n" not in str(caught.value)
