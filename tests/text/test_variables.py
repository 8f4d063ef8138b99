"""Which parts of a text translations must not change."""

import gzip
import itertools
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from keras_transformer.errors import UserInputError
from keras_transformer.text import variables
from keras_transformer.text.variables import KEEP, check_keep, find_variables
from keras_transformer.text.words import is_letter
from tests.external_data import FOLDER, needs

NEWSTEST = FOLDER / "newstest"
TATOEBA = FOLDER / "tatoeba_en_de"


def found(text, keep="auto"):
    return [text[start:end] for start, end in find_variables(text, keep)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("See https://example.org/a_(b).", "https://example.org/a_(b)"),
        ("(https://example.org/a_(b)), and", "https://example.org/a_(b)"),
        ("[text](http://a.org/b)!", "http://a.org/b"),
        ("<a href='http://a.org/?b=1&c=2'>", "http://a.org/?b=1&c=2"),
        ('“http://a.org”, »http://b.org« "http://c.org"', "http://a.org http://b.org http://c.org"),
        ("https://de.wikipedia.org/wiki/Übersetzung…", "https://de.wikipedia.org/wiki/Übersetzung"),
        ("访问http://example.org/a了解", "http://example.org/a"),
        (
            "http://a.org,http://b.org)http://c.org，http://d.org",
            "http://a.org,http://b.org http://c.org http://d.org",
        ),
        ("www.a.org),http://b.org", "www.a.org http://b.org"),
        ("https://a.org/{id}?x=%s;", "https://a.org/{id}?x=%s"),
        ("www.example.org, WWW.A.ORG", "www.example.org WWW.A.ORG"),
        ("http://, https://.", "http:// https://"),
        ("file:///etc/hosts sftp://u@h:22/~x", "file:///etc/hosts sftp://u@h:22/~x"),
        ("Write to a.b-c+d@mail.example.org.", "a.b-c+d@mail.example.org"),
        ("mailto:me@example.org, ü@ö.de", "mailto:me@example.org ü@ö.de"),
        ("Me <me@example.org>, <http://a.org>", "<me@example.org> <http://a.org>"),
        ("a <me@example.org, me@example.org>", "me@example.org me@example.org"),
        ("{user}@example.org, %s@example.org", "{user}@example.org %s@example.org"),
        ("and/or a@b @name 5@2 www. wwwhat", ""),
        (
            "&amp; &#160; &#x20AC; &brand-name; caf&eacute;s",
            "&amp; &#160; &#x20AC; &brand-name; caf&eacute;s",
        ),
        ("AT&T; R&D black & white; &;", ""),
    ],
)
def test_addresses_and_entities(text, expected):
    assert found(text) == expected.split()


@pytest.mark.parametrize(
    "text",
    [
        *"{name} {0} {} {user.name} {items[0]} {count:,d} {0:N2} {x!r:>10} {x:{width}}".split(),
        "{0, 10:N2}",
        "{x: >10}",
        "{time:%H:%M Uhr}",
        "{day, date, short}",
        "{ price , number, ::currency/EUR }",
        "{count, plural, one {# file} other {{x} files}}",
        "{a, select, b {{c, plural, other {d}}} other {}}",
        "{{ mustache }}",
        "{{#if x}}",
        "{{{raw}}}",
        "{{count, number}}",
        "${x}",
        "${x:-a b}",
        "${{ a.b }}",
        "#{x}",
        "%{count}",
        "{% url 'x' %}",
        *"%s %d %i %5.1f %-10.2f %+d %#x %05d %ld %lld %zu %hhx %c %% %@ %m %*d %.*s %-*s".split(),
        *"%1$d %1$s %2$-5s %1$@ %2$*1$d %(name)s %(count)d %(x).2f %<PRIu64> %<name>s".split(),
        *"%Y %B %-d %pB %'d %-.*s %name% %user_name% %1 %L1 %99 %n %1%".split(),
        "% d",
        "%(two words)s",
        *"[X0X] [X7X] [X1024X]".split(),
    ],
)
def test_placeholders(text):
    for before, after in (("", ""), ("Take ", " now."), ("(", ")"), ("北", "京"), ('"', "!")):
        assert found(f"{before}{text}{after}") == [text]


@pytest.mark.parametrize(
    "text",
    [
        "100% sure, 50% of it, 5 % des, 50 % d'un, 3%, 20%-30%, 10%!",
        "zu 99%-iger Wahrscheinlichkeit, 100%ig, die 5%-Hürde, 3%igen",
        "the %age, in % (of all), 10 % % d'eau",
        "{a b} {Note: this} { } {a, b} } { {",
        "$5, $x, $(x), US$, #1, @home, A&B, a: b",
        "<b>100 %<b>bold</b></b>",
        "[X] [X7] [XX] [x7x] [X7X [X7x] [XIX] [1] [X 7 X] X7X [X12345678X]",
    ],
)
def test_text_without_variables(text):
    assert found(text) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{count}px", ["{count}px"]),
        ("%sbytes at 0x%08x", ["%sbytes", "0x%08x"]),
        ("un{x}é2 {y}", ["un{x}é2", "{y}"]),
        ("%s%s {a}{b} %d%% %1%2", ["%s%s", "{a}{b}", "%d%%", "%1%2"]),
        ("%dx%d {a}b{c}", ["%dx%d", "{a}b{c}"]),
        ("[X0X][X5X] [X9X]s", ["[X0X][X5X]", "[X9X]s"]),
        ("%s/%s {a}-{b}", ["%s", "%s", "{a}", "{b}"]),
        ("100%%", ["100%%"]),
        ("北{a}京", ["{a}"]),
        ("e{x}\u0301", ["e{x}\u0301"]),
        ("שלום{x} مرحبا %s", ["שלום{x}", "%s"]),
        ("\ud800{x}\udc00", ["{x}"]),
    ],
)
def test_variables_include_the_letters_and_variables_that_they_touch(text, expected):
    assert found(text) == expected


def test_a_broken_icu_message_is_text_with_variables():
    text = "{n, plural, one {# file} other {# files} of {x}"
    assert found(text) == ["{# file}", "{# files}", "{x}"]


def test_numbers_only_if_asked():
    text = "1,234.50 at 12:30, 50% or 2026-11-29: -5, 1\u00a0000 in {x}. 3rd v1.2 10km (7)"
    assert found(text) == ["{x}"]
    numbers = ["1,234.50", "12:30", "50%", "2026-11-29", "-5", "1\u00a0000", "{x}", "7"]
    assert found(text, "numbers") == numbers


def test_an_expression_replaces_all_kinds():
    assert found("ACME {x} acme-2 %s", r"(?i:acme)(-\d)?") == ["ACME", "acme-2"]
    assert found("ACMEs", "ACME") == ["ACMEs"]
    assert found("{x} %s http://a.org", "none") == []
    assert found("none", "(?:none)") == ["none"]


@pytest.mark.parametrize(
    ("keep", "message"),
    [
        ("(", r"`keep` must be none, auto, numbers or a regular expression \(missing \)"),
        ("a{9999999999999}", "regular expression"),
        ("(?au)x", "regular expression"),
        ("(" * 5000, "regular expression"),
        ("a*", r"`keep` must not match an empty string. Received: keep='a\*'"),
        (r"\b", "empty string"),
        ("$", "empty string"),
        ("", "empty string"),
        (None, "`keep` must be none, auto, numbers or a regular expression. Received: keep=None"),
    ],
)
def test_wrong_expressions_are_refused(keep, message):
    for use in (check_keep, lambda keep: find_variables("a b", keep)):
        with pytest.raises(UserInputError, match=message) as caught:
            use(keep)
        assert "\n" not in str(caught.value)


def test_an_expression_that_is_sometimes_empty_is_refused_then():
    assert check_keep("(?=z)") == "(?=z)"
    assert found("a", "(?=z)") == []
    with pytest.raises(UserInputError, match="not match an empty string"):
        found("az", "(?=z)")


PARTS = st.sampled_from(
    [
        *"{ } {{ }} %s %1 %% % %( )s $ ${ & ; &lt; http:// www. a@ .b.c / ( ) a é".split(),
        *"1,: \u0301\n\ud800א中",
        ", plural,",
    ]
)


@given(st.lists(PARTS, max_size=12).map("".join) | st.text(max_size=20), st.sampled_from(KEEP))
@example("http://x\u0301.", "auto")
def test_variables_are_disjoint_and_bounded_by_other_characters(text, keep):
    spans = find_variables(text, keep)
    places = list(itertools.chain.from_iterable(spans))
    assert places == sorted(set(places))
    assert set(places) <= set(range(len(text) + 1))
    for start, end in spans:
        assert not any(is_letter(each) for each in text[max(start - 1, 0) : start])
        assert not any(is_letter(each) for each in text[end : end + 1])


def test_fixed_parts_are_variables():
    assert find_variables("# of {x}", "auto", fixed=[(0, 1)]) == [(0, 1), (5, 8)]
    assert find_variables("a# of {x}", "none", fixed=[(1, 2)]) == [(0, 2)]


@pytest.mark.parametrize(
    ("unit", "number"),
    [
        ("{", 0),
        ("%", 1),
        ("http://", 1),
        ("a@", 0),
        ("a@a.", 0),
        ("a.", 0),
        ("{a:", 0),
        ("{a, plural,", 0),
        ("{{ ", 0),
        ("&a", 0),
        ("%(", 0),
        ("www.", 1),
        ("http://)", None),
        ("(", 0),
        ("a{b}", 1),
        ("%s ", None),
        ("[X7", 0),
    ],
)
@pytest.mark.parametrize("size", [30_000, pytest.param(900_000, marks=pytest.mark.slow)])
def test_hostile_text_is_read_once(size, unit, number, monkeypatch):
    count = 0

    def counted(character):
        nonlocal count
        count += 1
        return is_letter(character)

    monkeypatch.setattr(variables, "is_letter", counted)
    text = unit * (size // len(unit))
    expected = text.count(unit) if number is None else number
    assert len(find_variables(text)) == expected
    assert count <= len(text) + 2


def lines_of(path, number=1000):
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [line.rstrip("\n") for line in itertools.islice(file, number)]


@pytest.mark.parametrize("language", ["en", "de"])
@pytest.mark.parametrize(
    "path",
    [
        pytest.param(NEWSTEST / "newstest2013", marks=needs(NEWSTEST)),
        pytest.param(TATOEBA / "train", marks=needs(TATOEBA)),
    ],
    ids=["newstest", "tatoeba"],
)
def test_plain_text_has_only_addresses(path, language):
    for line in lines_of(path.with_name(f"{path.name}.{language}.gz")):
        assert all(re.match(r"https?://|www\.", each) for each in found(line)), line
