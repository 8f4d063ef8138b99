"""Where tags go in a translation, by the alignment of its words."""

import pytest

from keras_transformer.errors import UserInputError
from keras_transformer.text.markup import Translation, parse_markup
from tests.text.markup.aligned import texts, translated


@pytest.mark.parametrize(
    ("source", "target", "pairs", "expected"),
    [
        ("a <b>red</b> car", "un coche rojo", "0-0 1-2 2-1", "un coche <b>rojo</b>"),
        ("<b>red</b> <i>car</i>", "coche rojo", "0-1 1-0", "<i>coche</i> <b>rojo</b>"),
        ("a <b>red <i>car</i></b> x", "coche rojo un y", "0-2 1-1 2-0 3-3",
         "<b><i>coche</i> rojo</b> un y"),
        ("<b>a <i>b</i></b>", "y x", "0-1 1-0", "<b><i>y</i> x</b>"),
        # Words without links, and target words between linked ones.
        ("<b>very big</b> car", "riesengroßes Auto", "1-0 2-1", "<b>riesengroßes</b> Auto"),
        ("<b>not</b> go", "ne va pas", "0-0 0-2 1-1", "<b>ne va pas</b>"),
        ("a <b>b</b> c", "x y", "0-0 2-1", "x <b></b>y"),
        # Spans that overlap are divided.
        ("<b>calls</b> <i>him</i> now", "ruft ihn jetzt an", "0-0 0-3 1-1 2-2",
         "<b>ruft</b> <i>ihn</i> jetzt an"),
        ("<b>a b c</b> <i>d</i>", "a1 d1 b1 c1", "0-0 1-2 2-3 3-1", "a1 <i>d1</i> <b>b1 c1</b>"),
        ("<b>a b c</b> <i>d</i>", "a1 b1 d1 c1", "0-0 1-1 2-3 3-2", "<b>a1 b1</b> <i>d1</i> c1"),
        ("<b>a b</b> <i>c d</i>", "c1 a1 d1 b1", "0-1 1-3 2-0 3-2", "<i>c1</i> <b>a1 d1 b1</b>"),
        ("<b>a</b><i>b</i> <u>c</u>", "xy c1", "0-0 1-1", "<b>xy</b><i></i> <u>c1</u>"),
    ],
)  # fmt: skip
def test_a_pair_is_around_the_words_that_are_linked_to_its_words(source, target, pairs, expected):
    around = "<p>{} z</p>"  # so that no tag is around all words
    numbers = len(texts(source)[0].split()), len(target.split())
    pairs = f"{pairs} {numbers[0]}-{numbers[1]}"
    result = translated(around.format(source), f"{target} z", pairs)
    assert result == around.format(expected)


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ("<b>one two</b>", "zwei", "<b>zwei</b>"),
        (" <b> one <i>two</i> </b>\n", "x y z", " <b> x <i>y</i> z </b>\n"),
        ("<b><i><u>one two</u></i></b>", "a b", "<b><i><u>a b</u></i></b>"),
        ("<br><b>one</b><!-- c --><hr>", "x", "<br><b>x</b><!-- c --><hr>"),
        ("<b>one", "x", "<b>x"),
        ("one</b>", "x", "x</b>"),
    ],
)
def test_what_is_around_the_whole_source_is_around_the_whole_target(source, target, expected):
    assert translated(source, target, "1-1" if target == "x y z" else "") == expected


@pytest.mark.parametrize(
    ("source", "target", "pairs", "expected"),
    [
        ("a <br>b c", "x y z", "0-2 1-1 2-0", "x <br>y z"),
        ("a<br> b c", "x y z", "0-1 1-2 2-0", "x y<br> z"),
        ("a <br> b", "y x", "0-1 1-0", "<br>y x"),
        ("a <img src=1><img src=2>b", "y x", "0-1 1-0", "<img src=1><img src=2>y x"),
        ("a <i></i><b>b</b> c", "z y x", "0-2 1-1 2-0", "z <i></i><b>y</b> x"),
        ("a <b>b<br></b> c", "z y x", "0-2 1-1 2-0", "z <b>y<br></b> x"),
        ("a <b><br>b</b> c", "z y x", "0-2 1-1 2-0", "z <b><br>y</b> x"),
        ("a <!-- c --> b", "y x", "0-1 1-0", "<!-- c -->y x"),
        ("a<b>\n</b>b", "x y", "0-0 1-1", "x <b></b>y"),
        ("a, <br>«b» c", "»y« x", "0-1 1-0 2-0", "<br>»y« x"),
        # The word that follows is inside of another tag.
        ("<b>a c</b> <i>d</i> <br>e", "a1 e1 c1 d1", "0-0 1-2 2-3 3-1",
         "<br><b>a1 e1 c1</b> <i>d1</i>"),
    ],
)  # fmt: skip
def test_empty_elements_are_next_to_the_word_that_follows(source, target, pairs, expected):
    assert translated(source, target, pairs) == expected


def test_the_examples_of_bergamot_translator_288_keep_all_tags():
    red, green = '<b id="1a" style="color:red">', '<i id="1b" style="color:green">'
    source = f'{red}1{green} dentro b</i></b> <i id="1c">italic</i>'
    assert translated(source, "1 in b italic", "0-0 1-1 2-2 3-3") == (
        f'{red}1{green} in b</i></b> <i id="1c">italic</i>'
    )
    assert translated(source, "Antes de dentro 1 b itálico", "0-3 1-2 2-4 3-5") == (
        f'Antes de {red}{green}dentro 1 b</i></b> <i id="1c">itálico</i>'
    )
    assert translated('<b>d</b><i>o</i><a id="1">g</a>', "perro", "0-0") == (
        '<b>perro</b><i></i><a id="1"></a>'
    )


@pytest.mark.parametrize(
    ("source", "target", "pairs", "expected"),
    [
        ("H<u>e</u>llo <b>world</b>", "Welt Hallo", "0-1 1-0", "<b>Welt</b> <u>Hallo</u>"),
        ("H<u>e</u>llo <b>world</b>", "Welt Hello", "0-1 1-0", "<b>Welt</b> H<u>e</u>llo"),
        ("<b>U</b>nited <b>N</b>ations", "Nations Unies", "0-1 1-0",
         "<b>N</b>ations <b>Unies</b>"),
    ],
)  # fmt: skip
def test_a_tag_inside_a_word_is_around_the_word_unless_it_is_copied(
    source, target, pairs, expected
):
    assert translated(source, target, pairs) == expected


@pytest.mark.parametrize(
    ("source", "target", "pairs", "expected"),
    [
        ("a <b>big</b>, «b»", "ein großer, «B»", "0-0 1-1 2-2", "ein <b>großer</b>, «B»"),
        ("a <b>(big)</b> b", "ein (großer) B", "0-0 1-1 2-2", "ein <b>(großer)</b> B"),
        ("a <b>big!</b> b", "ein groß! B", "0-0 1-1 2-2", "ein <b>groß!</b> B"),
        ("<b>C++</b> code", "Code in C++", "0-2 1-0", "Code in <b>C++</b>"),
    ],
)
def test_punctuation_stays_on_its_side_of_a_tag(source, target, pairs, expected):
    assert translated(source, target, pairs) == expected


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ("a <b>b</b> c", "x y z", "x <b>y</b> z"),
        ("a<b> b</b> c", "x y z", "x<b> y</b> z"),
        ("a <b>b </b>c", "x y z", "x <b>y </b>z"),
        ("a <b> b </b> c", "x y z", "x <b>y</b> z"),
        ("a <b> b </b> c", "x  y  z", "x <b> y </b> z"),
        ("a\n\t<b>b</b>\nc", "x y z", "x <b>y</b> z"),
    ],
)
def test_white_space_stays_on_its_side_of_a_tag(source, target, expected):
    assert translated(source, target, "0-0 1-1 2-2") == expected


@pytest.mark.parametrize(
    ("source", "target", "pairs", "expected"),
    [
        ("<b>שלום</b> עולם", "עולם שלום", "0-1 1-0", "עולם <b>שלום</b>"),
        ("<b>مرحبا</b> hello", "hello مرحبا", "0-1 1-0", "hello <b>مرحبا</b>"),
        ("caf<b>e\u0301</b> x", "cafe\u0301 y", "0-0 1-1", "caf<b>e\u0301</b> y"),
        ("cafe<b>\u0301</b> x", "cafe\u0301 y", "0-0 1-1", "cafe<b>\u0301</b> y"),
        ("a<b>\u0301 x</b> c", "z\u0301 w v", "0-0 1-1 2-2", "<b>z\u0301 w</b> v"),
        ("<b>नमस्ते</b> दुनिया।", "विश्व नमस्ते।", "0-1 1-0", "विश्व <b>नमस्ते</b>।"),
        ("<b>世界</b> x", "你好世界", "", "<b></b>你好世界"),
    ],
)
def test_text_of_any_script_survives(source, target, pairs, expected):
    assert translated(source, target, pairs) == expected


def test_protected_text_is_kept_with_its_tags():
    source = "Use <code>a &lt; b</code> or <b translate=no>C</b>, <i>not</i> &foo;."
    assert texts(source) == ["Use a < b or C, not &foo;."]
    document = parse_markup(source)
    target = "Nicht &foo;, sondern C statt a < b."
    kept = [(29, 34), (21, 22), (6, 11)]
    assert document.render([Translation(target, [(17, 20, 0, 5)], kept)]) == (
        "<i>Nicht</i> &foo;, sondern <b translate=no>C</b> statt <code>a &lt; b</code>."
    )


def test_a_link_to_kept_text_moves_no_tag_there():
    source = "<p>a <b>b</b> <code>c</code></p>"
    assert translated(source, "c x y", "0-1 1-2 1-0") == "<p><code>c</code> x <b>y</b></p>"


@pytest.mark.parametrize(
    ("translation", "message"),
    [
        (Translation("b"), r"`translations\[0\].kept` must be the places of the protected texts"),
        (Translation("a b", kept=[(0, 1)]), "be the places of the protected texts"),
        (Translation("a b", kept=[(2, 4)]), "be spans of the text that do not overlap"),
        (Translation("a b", [(0, 1, 0, 9)], [(2, 3)]), r"links` must be spans of the texts"),
        (Translation("a b", [(-1, 1, 0, 1)], [(2, 3)]), r"links` must be spans of the texts"),
    ],
)
def test_spans_that_are_not_in_the_texts_are_refused(translation, message):
    with pytest.raises(UserInputError, match=message):
        parse_markup("a <code>b</code>").render([translation])


def test_each_segment_needs_a_translation():
    with pytest.raises(UserInputError, match="item for each segment.*translations=1, segments=2"):
        parse_markup("<p>a<p>b").render([Translation("x")])


def test_the_kind_is_checked():
    with pytest.raises(UserInputError, match="`kind` must be one of html, xml, markdown"):
        parse_markup("a", "rtf")
