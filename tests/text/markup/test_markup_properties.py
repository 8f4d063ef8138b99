"""Random documents with random alignments: no tag and no text is lost, and tags stay nested."""

import collections
import html
import random
import re

import pytest

from keras_transformer.text.markup import Translation, parse_markup
from tests.text.markup.aligned import replaced, unchanged

_TAG = re.compile(r"<(/?)(\w+)((?:\"[^\"]*\"|'[^']*'|[^>\"'])*)>")
_WORDS = [
    "red",
    "a<b",
    "T&T",
    "it's",
    "«x»,",
    "cafe\u0301",
    "שלום",
    "世界",
    "100%.",
    "(so)",
    "&no;",
]
_ATTRIBUTES = {
    "html": ["", " title", " c='a>b\"'", ' c="</b>"', " c = 'x'\n d", ' c="&amp;"'],
    "xml": ["", " c='a>b\"'", ' c="b/>"', '\n d = "&amp;"'],
}


@pytest.fixture
def chance(random_seed):
    return random.Random(random_seed)


class Generator:
    """Writes random markup; `start` is the text of a tag for each name."""

    def __init__(self, chance, kind):
        self.chance = chance
        self.kind = kind
        self.number = 0

    def tag(self, name, end=">"):
        self.number += 1
        attributes = self.chance.choice(_ATTRIBUTES[self.kind])
        return f'<{name} n="{self.number}"{attributes}{end}'

    def part(self, depth):
        draw = self.chance.random()
        if draw < 0.4 or (depth == 0 and draw < 0.8):
            return html.escape(self.chance.choice(_WORDS), quote=False)
        if draw < 0.5:
            return self.tag("br", "/>")
        if draw < 0.6:
            name = self.chance.choice(["b", "i"])
            return f"{self.tag(name)}</{name}>"
        if draw < 0.7 or depth == 0:
            return f"{self.tag('code')}{self.chance.choice(['', 'k&lt;k', ' k '])}</code>"
        name = self.chance.choice(["b", "i", "a", "u"])
        return f"{self.tag(name)}{self.parts(depth - 1)}</{name}>"

    def parts(self, depth):
        space = ["", " ", " ", "\n"]
        parts = [
            self.part(depth) + self.chance.choice(space) for _ in range(self.chance.randint(1, 5))
        ]
        return self.chance.choice(space) + "".join(parts)

    def translation(self, segment):
        """Random words in random order, with the protected texts between them."""
        places = [match.span() for match in re.finditer(r"\S+", segment.text)]
        parts = [
            (None, self.chance.choice([*_WORDS, "<neu>", "zwei Wörter", "xyz"]))
            for _ in range(self.chance.randint(0, len(places) + 2))
        ]
        parts += [(each, segment.text[each.start : each.end]) for each in segment.protected]
        self.chance.shuffle(parts)
        text, kept, words = "", {}, []
        for each, part in parts:
            if each is None or self.kind != "markdown":
                text += self.chance.choice(["", " ", " ", "  "])
            else:
                text += " "  # code spans that touch are read as one
            span = (len(text), len(text) + len(part))
            if each is None:
                words.append(span)
            else:
                kept[each] = span
            text += part
        number = self.chance.randint(0, 2 * len(places)) if words and places else 0
        links = [(*self.chance.choice(places), *self.chance.choice(words)) for _ in range(number)]
        return Translation(text, links, [kept[each] for each in segment.protected])


def characters(text):
    """How often each character is in a text that has no tags."""
    return collections.Counter("".join(text.split()))


def parents(text):
    """The tags of a document in a list, and the number of the tag around each tag."""
    found, around, stack = [], {}, ["0"]
    for match in _TAG.finditer(text):
        slash, name, attributes = match.groups()
        found.append(match[0])
        if slash:
            assert stack.pop().split()[0] == name
            continue
        number = re.search('n="([0-9]+)"', attributes)
        label = f"{name} {number[1] if number else ''}"
        if name != "code":  # protected, where the translation has it
            around[label] = stack[-1]
        if not attributes.endswith("/"):
            stack.append(label)
    assert stack == ["0"]
    return collections.Counter(found), around


@pytest.mark.parametrize("kind", ["html", "xml"])
def test_random_translations_keep_each_tag_and_its_place_in_the_tree(chance, kind):
    for _ in range(150):
        generator = Generator(chance, kind)
        source = f"<p>{generator.parts(4)}</p>"
        document = parse_markup(source, kind)
        translations = [generator.translation(segment) for segment in document.segments]
        result = document.render(translations)
        assert parents(result) == parents(source)
        expected = characters(html.unescape(_TAG.sub("", source)))
        for segment, translation in zip(document.segments, translations, strict=True):
            expected.subtract(characters(segment.text))
            expected.update(characters(translation.text))
        found = characters(html.unescape(_TAG.sub("", result)))
        assert found == collections.Counter({c: n for c, n in expected.items() if n})
        parse_markup(result, kind)


@pytest.mark.parametrize("kind", ["html", "xml"])
def test_random_documents_stay_as_they_are(chance, kind):
    for _ in range(150):
        source = f"<p>{Generator(chance, kind).parts(4)}</p>"
        assert unchanged(source, kind) == source
        result = replaced(source, kind, " QQ").replace(" QQ", "")
        assert "".join(result.split()) == "".join(source.split())


@pytest.mark.parametrize(
    "alphabet", ["<>/!?-'\"=ab &;#x", "<b></b> <i>x</i>&amp;", "*_`[]()!<b>\\ \n>~$|#-a1."]
)
def test_random_characters_stay_as_they_are(chance, alphabet):
    kinds = ["html"] if "*" not in alphabet else ["html", "markdown"]
    for kind in kinds:
        for _ in range(150):
            source = "".join(chance.choices(alphabet, k=chance.randint(1, 60)))
            assert unchanged(source, kind) == source
            replaced(source, kind, " z")


def markdown(chance, depth, in_link=False):
    """Random Markdown in a line."""
    parts = []
    for _ in range(chance.randint(1, 4)):
        draw = chance.random()
        inner = markdown(chance, depth - 1, in_link) if depth else chance.choice(["x", "y1", "世"])
        if draw < 0.4:
            parts.append(chance.choice(["red", "a_b", "5", "it's", "«x»,", "c\u0301", "\\*y\\*"]))
        elif draw < 0.5:
            parts.append("`k`")
        elif draw < 0.6:
            parts.append("<br>")
        elif draw < 0.75:
            parts.append(f"*{inner}*")
        elif draw < 0.9:
            parts.append(f"**{inner}**")
        elif not in_link:
            parts.append(f"[{markdown(chance, max(depth - 1, 0), True)}](u_v)")
    return " ".join(parts) or "z"


def test_random_translations_of_markdown_are_read_as_they_were_meant(chance):
    for _ in range(150):
        source = markdown(chance, 2)
        document = parse_markup(source, "markdown")
        generator = Generator(chance, "markdown")
        translations = [
            each._replace(text=f"{each.text} end")
            for each in map(generator.translation, document.segments)
        ]
        result = document.render(translations)
        assert unchanged(source, "markdown") == source
        if not any("](u_v)" in segment.text for segment in document.segments):  # read as a link
            assert result.count("](u_v)") == source.count("](u_v)")
        assert result.count("<br>") == source.count("<br>")
        read = "".join(segment.text for segment in parse_markup(result, "markdown").segments)
        meant = "".join(each.text for each in translations)
        assert characters(read) == characters(meant)
