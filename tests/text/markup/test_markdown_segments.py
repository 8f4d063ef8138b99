"""Markdown: what is text, and that a translation is read as it was meant."""

import builtins
import pathlib

import pytest

from keras_transformer.errors import UserInputError
from keras_transformer.text.markup import Translation, markdown_segments, parse_markup
from tests.text.markup.aligned import aligned, protected, replaced, texts, translated, unchanged

ROOT = pathlib.Path(__file__).parents[3]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PAGE = """\
---
title: Front matter
---
# A *title* #

Text with **bold _nested_ text**, `a < b` and [a *link*](http://x_y "A title").
Second line\\
with a <b title="tip">tag</b>, &amp; &copy; \\*, <http://auto> and 5 * 3 snake_case.

> [!NOTE]
> A quote with *two
> lines*.

- item one
  continued
- [x] done
1. ![An image](a.png 'Its title') here

| Head | `b` |
|---|:-:|
| x \\| y | 5 |

```py
code("# no")
```

    indented = "no"

<div align="center">
<p>Raw &lt; <b>html</b></p>
</div>

Costs $5 or $6, but $a_i * b_j$ and $$x$$ are math.[^1]

[ref]: http://x "Ref title"
[^1]: A note with [ref], [text][ref] and [brackets].

Underlined
==========
"""


def test_a_page_is_divided_into_blocks():
    assert texts(PAGE, "markdown") == [
        "A title",
        "Text with bold nested text, a < b and a link.\nSecond line with a tag, & © *, http://auto "
        "and 5 * 3 snake_case.",
        "A title",
        "tip",
        "A quote with two\nlines.",
        "item one\ncontinued",
        "done",
        "An image",
        "Its title",
        "here",
        "Head",
        "x | y",
        "Raw < html",
        "Costs $5 or $6, but a_i * b_j and x are math.",
        "Ref title",
        "A note with ref, text and [brackets].",
        "Underlined",
    ]
    assert protected(PAGE, "markdown") == ["a < b", "http://auto", "a_i * b_j", "x", "ref"]
    assert unchanged(PAGE, "markdown") == PAGE


@pytest.mark.parametrize(
    ("source", "target", "pairs", "expected"),
    [
        ("# a *b* `c`", "c B A", "0-2 1-1", "# `c` *B* A"),
        ("a [b *c*](d) e", "e c b a", "0-3 1-2 2-1 3-0", "e [*c* b](d) a"),
        ("a ~~b~~ c", "c b a", "0-2 1-1 2-0", "c ~~b~~ a"),
        ("a <i>b</i> c", "c b a", "0-2 1-1 2-0", "c <i>b</i> a"),
        ("> a *b*\n> c", "C\nB A", "0-2 1-1 2-0", "> C\n> *B* A"),
        ("> a *b*\n> c", "C B A", "0-2 1-1 2-0", "> C *B* A"),
        ("> a *b* c", "C\nB A", "0-2 1-1 2-0", "> C *B* A"),
        ("- a\n  b", "x\ny\nz", "", "- x\n  y\n  z"),
        ("a\\\nb", "x y", "0-0 1-1", "x\\\n y"),
        ("|a|b c|\n|-|-|", "x | \n y", "", None),
        ("a *b* c", "x y", "0-0 2-1", "x y"),
        ("a [b](c) d", "x y", "0-0 2-1", "x [](c)y"),
        ("a[^1] b", "y x", "0-1 1-0", "y x[^1]"),
        ("a [b] c\n\n[b]: d", "c b a", "0-2 2-0", "c [b] a\n\n[b]: d"),
    ],
)
def test_tags_are_around_the_words_that_are_linked(source, target, pairs, expected):
    if expected is not None:
        assert translated(source, target, pairs, "markdown") == expected


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("1 * 2 _ 3 snake_case a~b", "1 * 2 _ 3 snake_case a\\~b"),
        ("*a* **b** _c_ __d__ ~~e~~", "\\*a\\* \\*\\*b\\*\\* \\_c\\_ \\_\\_d\\_\\_ \\~\\~e\\~\\~"),
        ("`a` \\* \\x C:\\", "\\`a\\` \\\\\\* \\x C:\\\\"),
        ("[a](b) [c] [d][e] [^f]", "[a\\](b) [c] [d\\][e] \\[^f]"),
        ("<b>a</b> 1 < 2 <http://x>", "\\<b>a\\</b> 1 < 2 \\<http://x>"),
        ("&amp; &#65; & AT&T", "&amp;amp; &amp;#65; & AT&T"),
        ("# a", "\\# a"),
        ("#a", "#a"),
        ("1. a", "1\\. a"),
        ("2026) a", "2026\\) a"),
        ("1.5 a", "1.5 a"),
        ("- a", "\\- a"),
        ("+ a", "\\+ a"),
        ("-a", "-a"),
        ("* a", "\\* a"),
        ("> a", "\\> a"),
        ("---", "\\---"),
        ("===", "\\==="),
        ("$a$ and $5", "\\$a\\$ and \\$5"),
        ("$5 and $6", "$5 and $6"),
        ("a\nb", "a b"),
    ],
)
def test_text_that_would_be_markup_is_escaped(target, expected):
    result = translated("x", target, "", "markdown")
    assert result == expected
    if any(map(str.isalnum, target)):
        assert texts(result, "markdown") == [target.replace("\n", " ")]
    assert protected(result, "markdown") == []


@pytest.mark.parametrize(
    ("source", "target", "pairs", "expected"),
    [
        ("# a", "# b #", "", "# \\# b \\#"),
        ("|a|\n|-|\n|b|", "x | y", "", "|x \\| y|\n|-|\n|x \\| y|"),
        ("![a](b)", "x [y] *z*", "", "![x \\[y\\] \\*z\\*](b)"),
        ("[](b 'c')", "it's \\ \"x\"", "", "[](b 'it&#39;s &#92; &quot;x&quot;')"),
        ("[a](b (c))", "(x)", "", "[(x)](b (&#40;x&#41;))"),
        ("[a]: b 'c'", "x\ny", "", "[a]: b 'x y'"),
        ("<div title=a>\nb *c*\n</div>", "<*x*>", "",
         '<div title="&lt;*x*&gt;">\n&lt;*x*&gt;\n</div>'),
    ],
)  # fmt: skip
def test_text_is_escaped_as_its_place_needs(source, target, pairs, expected):
    document = parse_markup(source, "markdown")
    translations = [aligned(segment, target, pairs) for segment in document.segments]
    assert document.render(translations) == expected


@pytest.mark.parametrize(
    ("source", "target", "links", "expected"),
    [
        # An underscore inside a word, delimiters that touch, and punctuation are not emphasis.
        ("a _b_ c", "世界你好", [(0, 1, 0, 1), (2, 3, 1, 3)], "世<em>界你</em>好"),
        ("a *b* c", "世界你好", [(0, 1, 0, 1), (2, 3, 1, 3)], "世*界你*好"),
        ("a *b* **c** d", "世界你好", [(2, 3, 1, 2), (4, 5, 2, 3)], "世*界***你**好"),
        ("a **b** *c* d", "世界你好", [(2, 3, 1, 2), (4, 5, 2, 3)], "世**界***你*好"),
        ("a **«b»** c", "«世界»你", [(2, 5, 0, 4)], "<strong>«世界»</strong>你"),
    ],
)  # fmt: skip
def test_emphasis_that_would_not_be_read_is_written_in_html(source, target, links, expected):
    document = parse_markup(source, "markdown")
    assert document.render([Translation(target, links)]) == expected


def test_html_blocks_around_markdown_protect_it():
    source = '<div translate="no">\n\nKeep *this*\n\n</div>\n\nA <code>b *c*</code> d'
    assert texts(source, "markdown") == ["A b c d"]
    assert protected(source, "markdown") == ["b c"]
    assert unchanged(source, "markdown") == source


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_the_pages_of_this_project_stay_as_they_are(path):
    source = path.read_bytes().decode()
    assert texts(source, "markdown")
    assert unchanged(source, "markdown") == source
    added = " qq" if "qq" not in source else " zz"
    result = replaced(source, "markdown", added)
    assert result != source
    changed = result.replace(added, "").replace("1\\.", "1.")
    lines = zip(changed.splitlines(), source.splitlines(), strict=True)
    different = [pair for pair in lines if pair[0].replace("\\", "") != pair[1].replace("\\", "")]
    assert different == []


@pytest.mark.parametrize(
    "source",
    [
        "\ufeff# a *b*\r\n\r\nc\r\n> d\r\n> e\r\n",
        "a\0 *b\0* c",
        "\ud800 *a \udfff* b",
        "*a **b _c",
        "[a](b [c](d) ![e",
        "<b>a *b</b> c*",
        "<script>a\n\n*b*",
        "a\n\u2028b\x0bc *d*\x85",
        "שלום *עולם* e\u0301*\u0301x*",
        "*" * 3_000,
        "*a **b " * 3_000,
        "[" * 3_000 + "a",
        ">" * 3_000 + " a",
        "".join(f"{'  ' * depth}- a\n" for depth in range(300)),
        "<b>" * 2_000 + "x y" + "</b>" * 2_000,
        pytest.param("<b>" * 100_000 + "x y" + "</b>" * 100_000, marks=pytest.mark.slow),
        pytest.param("*a* b\n\n" * 20_000, marks=pytest.mark.slow),
        pytest.param(">" * 100_000 + " a", marks=pytest.mark.slow),
        pytest.param("*a **b " * 100_000, marks=pytest.mark.slow),
    ],
    ids=lambda source: repr(source[:8]),
)
def test_hostile_pages_stay_as_they_are(source):
    assert unchanged(source, "markdown") == source
    replaced(source, "markdown", " z")


def test_without_tree_sitter_the_extra_is_named(monkeypatch):
    do_import = builtins.__import__

    def without(name, *arguments, **options):
        if name.startswith("tree_sitter"):
            raise ImportError(name)
        return do_import(name, *arguments, **options)

    markdown_segments._parsers.cache_clear()
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(UserInputError, match=r"^Markdown needs tree-sitter: pip install .*markup"):
        parse_markup("a", "markdown")
    assert texts("<p>a") == ["a"]
