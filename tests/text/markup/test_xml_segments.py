"""XML of any vocabulary: what is text, what is refused, and that no entity is expanded."""

import pytest

from keras_transformer.errors import UserInputError
from keras_transformer.text.markup import Translation, parse_markup
from tests.text.markup.aligned import protected, replaced, texts, translated, unchanged

DOCUMENT = """\
\ufeff<?xml version="1.0" encoding="iso-8859-1"?>\r
<!DOCTYPE doc SYSTEM "missing.dtd" [
  <!ENTITY who "World">
  <!ENTITY file SYSTEM "/etc/passwd">
  <!-- <p>comment</p> -->
]>
<?pi a > b?>
<doc xmlns:i="x" title="A &quot;title&quot; &who;">
  <!-- comment -->
  <head><name>Größe</name><name>Second</name></head>
  <p>Hello &who; &amp; <b id='1>2'>you &#228;</b><br/> two <i:x/>three &file;.</p>
  <p><![CDATA[<b>keep</b> & me]]></p>
  <p>Text <![CDATA[<raw>]]> more <?pi?>.</p>
  <p><b>One</b></p>
  <p i:translate="no">Keep <b>this</b></p>
  <list><item>a</item> <item>b <code>x &lt; y</code></item></list>
  <pre>  keep </pre><style>a {}</style>
</doc>
<!-- end -->
"""


def test_a_document_is_divided_by_its_structure():
    assert texts(DOCUMENT, "xml") == [
        'A "title" &who;',
        "Größe",
        "Second",
        "Hello &who; & you ä two three &file;.",
        "Text <raw> more .",
        "One",
        "a",
        "b x < y",
    ]
    assert protected(DOCUMENT, "xml") == ["&who;", "&who;", "&file;", "<raw>", "x < y"]
    assert unchanged(DOCUMENT, "xml") == DOCUMENT


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("<r>a <x>b</x> c</r>", ["a b c"]),
        ("<r><x>a</x><y>b</y></r>", ["a", "b"]),
        ("<r><x><y>a</y></x></r>", ["a"]),
        ("<r>a <x><y>b</y></x> c</r>", ["a b c"]),
        ("<r>a <l><i>b</i><i>c</i></l> d</r>", ["a", "b", "c", "d"]),
        ("<r>a<x/>b</r>", ["ab"]),
        ("<html><p><b>a</b> <i>b</i></p><div>c</div></html>", ["a b", "c"]),
        ("<r/>", []),
        ("<r> <x/> </r>", []),
        ("<r>&who;</r>", []),
        ("<r a='&who;' alt='&lt;b&gt; &who;'/>", ["<b> &who;"]),
    ],
)
def test_elements_in_text_are_inline(source, expected):
    assert texts(source, "xml") == expected
    assert unchanged(source, "xml") == source


@pytest.mark.parametrize(
    ("source", "target", "pairs", "expected"),
    [
        ("<r>a <g id='1'>b</g><x/> c</r>", "c b a", "0-2 1-1 2-0",
         "<r>c <g id='1'>b</g><x/> a</r>"),
        ("<r>a &lt; b</r>", "b > a & \0\ud800]]>", "",
         "<r>b &gt; a &amp; \ufffd\ufffd]]&gt;</r>"),
        ("<r>a <emphasis/>b <emphasis>c</emphasis></r>", "x y", "0-0 1-1",
         "<r>x <emphasis/>y<emphasis></emphasis></r>"),
        ("<größe>ä <ö>ß</ö></größe>", "ß ä", "0-1 1-0", "<größe><ö>ß</ö> ä</größe>"),
    ],
)  # fmt: skip
def test_translations_are_well_formed(source, target, pairs, expected):
    result = translated(source, target, pairs, "xml")
    assert result == expected
    parse_markup(result, "xml")


def test_attributes_keep_their_quotes():
    source = """<r title='a'><x alt="b" title="&#34;c"/></r>"""
    document = parse_markup(source, "xml")
    assert [segment.text for segment in document.segments] == ["a", "b", '"c']
    assert document.render([Translation("""'"<&""")] * 3) == (
        """<r title='&#39;"&lt;&amp;'><x alt="'&quot;&lt;&amp;" title="'&quot;&lt;&amp;"/></r>"""
    )


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("", "no element found.* \\(line 1, column 1\\)$"),
        ("text", "syntax error.* \\(line 1, column 1\\)"),
        ("<r>\n  ä<b></r>", "mismatched tag.* \\(line 2, column 9\\)"),
        ("<r>a & b</r>", "not well-formed \\(invalid token\\) \\(line 1, column 7\\)"),
        ("<r a=1/>", "not well-formed.* \\(line 1, column 6\\)"),
        ("<r>\ud800</r>", "not well-formed.* \\(line 1, column 4\\)"),
        ("<r>\0</r>", "not well-formed.* \\(line 1, column 4\\)"),
        ("<r/><r/>", "junk after document element.* \\(line 1, column 5\\)"),
        ("<r a='' a=''/>", "duplicate attribute.* \\(line 1, column 9\\)"),
        ("<r>" * 100_000, "no element found.* \\(line 1, column 300001\\)"),
        ("<r>&#0;</r>", "reference to invalid character number"),
    ],
)
def test_a_document_that_is_not_well_formed_is_refused_with_its_place(source, message):
    with pytest.raises(UserInputError, match=f"^XML must be well-formed: {message}") as error:
        parse_markup(source, "xml")
    assert "\n" not in str(error.value)


def test_entities_are_never_expanded(tmp_path):
    secret = tmp_path / "secret.txt"
    secret.write_text("secret")
    lols = "".join(f'<!ENTITY l{i + 1} "{f"&l{i};" * 10}">' for i in range(30))
    source = (
        f'<!DOCTYPE r [<!ENTITY l0 "lol">{lols}<!ENTITY s SYSTEM "{secret.as_uri()}">'
        f'<!ENTITY % p SYSTEM "{secret.as_uri()}">%p;]>'
        '<r a="&l30;" title="x &l30; &s;">y &l30; &s;</r>'
    )
    assert texts(source, "xml") == ["x &l30; &s;", "y &l30; &s;"]
    assert protected(source, "xml") == ["&l30;", "&s;", "&l30;", "&s;"]
    assert unchanged(source, "xml") == source
    result = replaced(source, "xml", " z")
    assert result.endswith('<r a="&l30;" title="x &l30; &s; z">y &l30; &s; z</r>')


@pytest.mark.parametrize("source", ["<r>\r\na\r\n<b>\r\nb</b> c\r</r>\r\n", "\ufeff<r>a</r>"])
def test_line_ends_and_byte_order_marks_stay(source):
    assert unchanged(source, "xml") == source
    assert replaced(source, "xml") == source


@pytest.mark.parametrize(
    "source",
    [
        "<r>" * 10_000 + "x y" + "</r>" * 10_000,
        pytest.param("<r>" * 100_000 + "x y" + "</r>" * 100_000, marks=pytest.mark.slow),
        pytest.param("<r>x " * 100_000 + "</r>" * 100_000, marks=pytest.mark.slow),
        pytest.param("<r>x" + "<r/>" * 100_000 + "y</r>", marks=pytest.mark.slow),
    ],
    ids=lambda source: source[:12],
)
def test_deep_documents_take_linear_time(source):
    assert unchanged(source, "xml") == source
    result = replaced(source, "xml", " z")
    assert result.count("<r>") == source.count("<r>")
    parse_markup(result, "xml")
