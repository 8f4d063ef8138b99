"""HTML as browsers read it: what is text, and what stays as it is."""

import pathlib

import pytest

from keras_transformer.text.markup import Translation, parse_markup
from tests.text.markup.aligned import protected, replaced, texts, translated, unchanged

ROOT = pathlib.Path(__file__).parents[3]
PAGES = [
    *sorted((ROOT / "docs" / "images").rglob("*.html")),
    *sorted((ROOT / "keras_transformer").rglob("*.html")),
]
PAGE = """\
\ufeff<!DOCTYPE html>\r
<html lang="en"><head><meta charset=utf-8><title>Tom &amp; Jerry's</title>
<style>p > a { color: "red" }</style>
<script>if (a < b && c > d) document.write("<p>No</p>");</script></head>
<body CLASS='x>y'>
<!-- <p>A comment</p> -->
<?xml-stylesheet href="a>b"?><?php if ($a->b > 1) { echo "<p>"; } ?>
<h1 title='The "best" page'>Hello,&nbsp;<em>world</em> &copy; 2026</h1>
<p>One<br/>two <b>three <i>four</i></b>.<p>Five &lt;six&gt; &amp;amp; AT&T &unknown;
<ul><li>A <a href="?a=1&b=2" title="Go > there">link</a><li>B</ul>
<pre>  keep   <b>this</b></pre>
<table><tr><td>1<td>Cell</table>
<img src=a.png alt="A 'red' house"><img alt=House src=b.png><img alt="" src=c.png>
<textarea>Type <b>here</b></textarea>
<![CDATA[ <p>keep</p> ]]>
<p translate="no">Keep <b>this</b>.</p> Use <code>x &lt; y</code> here.
</body></html>
"""


def test_a_page_is_divided_into_blocks():
    assert texts(PAGE) == [
        "Tom & Jerry's",
        'The "best" page',
        "Hello,\xa0world © 2026",
        "One two three four.",
        "Five <six> &amp; AT&T &unknown;",
        "A link",
        "Go > there",
        "B",
        "Cell",
        "A 'red' house",
        "House",
        "Type <b>here</b>",
        "Use x < y here.",
    ]
    assert protected(PAGE) == ["&unknown;", "x < y"]
    assert unchanged(PAGE, "html") == PAGE


def test_only_text_changes():
    document = parse_markup(PAGE)
    result = document.render(
        [
            Translation(
                segment.text.replace("e", "<é"),
                (),
                [
                    (start := segment.text.replace("e", "<é").index(text), start + len(text))
                    for text in (segment.text[p.start : p.end] for p in segment.protected)
                ],
            )
            for segment in document.segments
        ]
    )
    assert "<title>Tom &amp; J&lt;érry's</title>" in result
    assert "<h1 title='Th&lt;é \"b&lt;ést\" pag&lt;é'><em></em>H&lt;éllo" in result
    assert "Fiv&lt;é &lt;six&gt; &amp;amp; AT&amp;T &unknown;\n<ul>" in result
    assert 'title="Go &gt; th&lt;ér&lt;é"' in result
    assert "alt=\"A 'r&lt;éd' hous&lt;é\"" in result
    assert 'alt="Hous&lt;é" src=b.png' in result
    for kept in PAGE.splitlines(keepends=True)[:7]:
        assert kept in result or "title" in kept
    assert "<pre>  keep   <b>this</b></pre>\n<table><tr><td>1<td>C&lt;éll</table>" in result
    assert '<![CDATA[ <p>keep</p> ]]>\n<p translate="no">Keep <b>this</b>.</p> Us' in result


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("<p>a</p>b<div>c</div>", ["a", "b", "c"]),
        ("a<b>b</b><span>c</span>", ["abc"]),
        ("a<br>b<br> c <br/>d", ["a b c d"]),
        ("<p>a<p>b<li>c<td>d", ["a", "b", "c", "d"]),
        ("a <custom-tag>b</custom-tag>", ["a b"]),
        ("<P>A<Br>B</P>", ["A B"]),
        ("<b></b> <br> — !", []),
        ("<code>a</code>", []),
        ("<code>a</code>, &foo; <br>", []),
        ("", []),
        ("a<!-- <p> -->b<!--> c <!-- d", ["ab c"]),
        ("a</ x>b</>c<! x>d<?x>e", ["abcde"]),
        ("a <script>x<b></script>b", ["a b"]),
        ("<title>a <b>b</title><p>c", ["a <b>b", "c"]),
        ("a < 2 > 1 <3 & 4", ["a < 2 > 1 <3 & 4"]),
        ("<p>1 < 2 > 1<p>a", ["a"]),  # no letters
        ("<a href='>\"'>a</a> <a href=\">'\">b</a>", ["a b"]),
        ("<a b=c/>d</a>", ["d"]),
        ("<a =b c>d", ["d"]),
        ("&#65;&#x42; &eacute;&nbsp;x", ["AB é\xa0x"]),
        ("&nbsp;a&#160;", ["a"]),
        ("\u00a0\u2003a\t\r\n", ["a"]),
    ],
)
def test_blocks_and_entities(source, expected):
    assert texts(source) == expected
    assert unchanged(source, "html") == source


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("a <code>b<b>c</b></code> d", ["bc"]),
        ("a <code>b d", ["b d"]),
        ("<p>a <code>b</p>c", ["b"]),
        ("a <span translate='no'>b <code>c</code> <i>d</i></span>", ["b c d"]),
        ("a <span TRANSLATE=no>b", ["b"]),
        ("a <span translate=yes>b</span>", []),
        ("a <code></code> b", []),
        ("a <kbd> Ctrl </kbd> b", ["Ctrl"]),
        ("a <span translate=no><p>b</p></span> c", []),
        ("a <code title='t'>b</code>", ["b"]),
        ("a &foo;&bar; &amp;baz; b", ["&foo;", "&bar;"]),
    ],
)
def test_protected_text(source, expected):
    assert protected(source) == expected
    assert unchanged(source, "html") == source


def test_attributes_of_what_stays_as_it_is_stay_too():
    assert texts('<img translate=no alt="a"><code title="b">c</code><p translate=no title=d>') == []


@pytest.mark.parametrize(
    ("source", "target", "pairs", "expected"),
    [
        ("x <b>y", "a b", "0-1 1-0", "<b>a b"),
        ("x</i> y", "b a", "0-1 1-0", "b a</i>"),
        ("<i>x <b>y</i> z</b>", "c b a", "0-2 1-1 2-0", "c <i><b>b a</i></b>"),
        ("<b>x<p></b>", "a", "", "<b>a<p></b>"),
        ("x </p>", "a", "", "a </p>"),
        ("x <a href='y", "a", "", "a <a href='y"),
        ("x <b ", "a", "", "a <b "),
        ("x <!-- y", "a", "", "a <!-- y"),
        ("x <", "a &", "", "a &amp;"),
    ],
)
def test_tags_without_their_counterpart_are_kept_in_place(source, target, pairs, expected):
    assert translated(source, target, pairs) == expected


def test_text_and_attributes_are_encoded_minimally():
    document = parse_markup("<p title='a' lang=x>b <img alt=c></p>")
    result = document.render([Translation("""'"&<>\xa0é""")] * 3)
    assert result == (
        "<p title='&#39;\"&amp;&lt;&gt;\xa0é' lang=x>'\"&amp;&lt;&gt;\xa0é "
        '<img alt="\'&quot;&amp;&lt;&gt;\xa0é"></p>'
    )


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_real_pages_stay_as_they_are(path):
    source = path.read_bytes().decode()
    assert texts(source)
    assert unchanged(source, "html") == source
    assert replaced(source, "html").replace("&#x27;", "'") == source.replace("&#x27;", "'")


@pytest.mark.parametrize(
    "source",
    [
        "\ufeffa <b>b</b>",
        "\r\n<p>a\r\nb <i>\r\nc</i>\r\n",
        "a\0<b>\0</b>\0c<\0>",
        "\ud800<b>\udc00 a</b> \udfff",
        "<b>\u202ea</b> \u200fb",
        "<" * 50,
        "&" * 50,
        "<a " * 50,
        "<!" * 50,
        "&#xffffffffff;&#99999999999;&#0; a",
    ],
)
def test_hostile_pages_stay_as_they_are(source):
    assert unchanged(source, "html") == source
    assert replaced(source, "html", " z").count("<b>") == source.count("<b>")


@pytest.mark.parametrize(
    ("source", "number"),
    [
        ("<b>" * 10_000 + "x y" + "</b>" * 10_000, 1),
        pytest.param("<b>" * 100_000 + "x y" + "</b>" * 100_000, 1, marks=pytest.mark.slow),
        pytest.param("<div>" * 100_000 + "x y" + "</div>" * 100_000, 1, marks=pytest.mark.slow),
        pytest.param("x " + "<b>y " * 100_000 + "</b>" * 100_000, 1, marks=pytest.mark.slow),
        pytest.param("x " + "<b></b>" * 100_000 + "y", 1, marks=pytest.mark.slow),
        pytest.param("<p>x<b>" * 30_000, 30_000, marks=pytest.mark.slow),
        pytest.param("<b>" * 100_000 + "x y", 1, marks=pytest.mark.slow),
        ("<code>" * 100_000 + "x", 0),
        ("<!--" * 100_000, 0),
        ("<?xml" * 100_000, 0),
        ("<![CDATA[" * 100_000, 0),
        ("<a title='" * 100_000, 0),
        ("x<a b " * 100_000, 1),
        ("<textarea>" * 100_000, 1),
        ("a " + "&nbsp;" * 100_000 + "b", 1),
        ("a " + "&x" * 100_000, 1),
    ],
    ids=lambda value: str(value)[:8],
)
def test_large_pages_take_linear_time(source, number):
    """With quadratic time, most of them would take minutes."""
    assert len(texts(source)) == number
    result = replaced(source, "html", " z")
    for tag in ("<b>", "</b>", "<div>", "<p>"):
        assert result.count(tag) == source.count(tag)
