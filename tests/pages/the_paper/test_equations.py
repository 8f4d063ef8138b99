"""The hook that turns TeX into MathML: what counts as an equation, and what stays as it is."""

import html.parser
import re

import pytest

from docs.tools import equations
from tests.pages.page import ROOT, Page

PAGE = Page("docs/the_paper.md")


@pytest.fixture
def fake(monkeypatch):
    """MathML that shows its TeX."""

    def mathml(tex, *, is_block=False):
        return f"<math {'block' if is_block else 'inline'}>{tex}</math>"

    monkeypatch.setattr(equations, "mathml", mathml)


def through(markdown):
    return equations.with_equations(equations.with_places(markdown))


def test_equations_in_a_line(fake):
    assert through("Here $d_k = 8$, and ($a*b*c$).") == (
        "Here <math inline>d_k = 8</math>, and (<math inline>a*b*c</math>)."
    )


def test_an_equation_in_its_own_paragraph(fake):
    places = equations.with_places("A\n\n$$\n\\frac{a}{b}\n$$\n\nB")
    paragraphs = "\n".join(f"<p>{part}</p>" for part in places.split("\n\n"))
    assert equations.with_equations(paragraphs) == (
        '<p>A</p>\n<div class="equation"><math block>\\frac{a}{b}</math></div>\n<p>B</p>'
    )


def test_markdown_cannot_change_an_equation():
    (word,) = re.findall(r"A (\S+) B", equations.with_places(r"A $x_1 * y_2 * [z](w) \_$ B"))
    assert re.fullmatch(r"\ue000i[0-9a-f]+\ue001", word)


@pytest.mark.parametrize(
    "text",
    [
        "It costs $5 and $6.",
        "`$a$` and `echo $HOME $PATH`",
        "```sh\necho $A and $B\n```",
        "   ```sh\n   echo $A and $B\n   ```",
        r"\$a$ and a$b$c",
        "$ a $",
        "$a\nb$",
    ],
)
def test_other_dollars_stay(text):
    assert equations.with_places(text) == text


def test_no_other_page_has_an_equation_by_mistake():
    for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("recipes/**/*.md")]:
        if path != PAGE.path:
            text = path.read_text("utf-8")
            assert equations.with_places(text) == text, path


def test_the_page_has_equations_in_text_only():
    places = equations.with_places(PAGE.text)
    assert places.count(equations.OPENED) > 30
    lines = [line for line in places.splitlines() if equations.OPENED in line]
    assert [line for line in lines if line.startswith(("#", "|"))] == []  # headings and tables
    rest = equations.CODE.sub("", places)
    assert "$" not in rest


class Tags(html.parser.HTMLParser):
    """The tags of a text, which must be nested correctly."""

    def __init__(self, text):
        super().__init__()
        self.open, self.names = [], set()
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.open.append(tag)
        self.names.add(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_every_equation_of_the_page_becomes_mathml():
    pytest.importorskip("latex2mathml", reason="latex2mathml, of the extra docs, is not installed")
    found = equations.PLACE.findall(equations.with_places(PAGE.text))
    for _, kind, digits, _ in found:
        tex = bytes.fromhex(digits).decode()
        equation = equations.mathml(tex, is_block=kind == "b")
        names = Tags(equation).names
        assert "math" in names
        assert names <= {"math", "mrow", "mi", "mn", "mo", "msub", "msup", "msubsup", "mfrac"} | {
            "msqrt", "mtext", "mspace", "munder", "mstyle", "mover", "mpadded"
        }  # fmt: skip
        assert "\\" not in re.sub(r"<[^>]*>", "", equation), tex  # commands it does not know
