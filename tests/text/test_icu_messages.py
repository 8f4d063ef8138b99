"""Translating the text inside the plural and select arguments of ICU messages."""

import itertools
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_transformer.errors import UserInputError
from keras_transformer.text.icu_messages import IcuMessage, TextsToTranslate


@pytest.mark.parametrize(
    ("text", "texts", "joined"),
    [
        (
            "{n, plural, one {# file} other {# files}} left",
            ["# file left", "# files left"],
            "{n, plural, one {# file left} other {# files left}}",
        ),
        (
            "Hi,\n{ n ,plural,offset:1  =0{nobody}=1 {{x}} one {{x} and #}\n"
            "other {{x} and # more}}",
            ["Hi,\nnobody", "Hi,\n{x}", "Hi,\n{x} and #", "Hi,\n{x} and # more"],
            "{n, plural, offset:1 =0 {Hi,\nnobody} =1 {Hi,\n{x}} one {Hi,\n{x} and #} "
            "other {Hi,\n{x} and # more}}",
        ),
        (
            "{g, select, male {He} other {They}} met {n, selectordinal, one {#st} other {#th}}.",
            ["He met #st.", "He met #th.", "They met #st.", "They met #th."],
            "{g, select, male {{n, selectordinal, one {He met #st.} other {He met #th.}}} "
            "other {{n, selectordinal, one {They met #st.} other {They met #th.}}}}",
        ),
        (
            "{g, select, f {She} other {He}} lost {g, select, f {her} other {his}} "
            "{d, date, short}",
            ["She lost her {d, date, short}", "He lost his {d, date, short}"],
            "{g, select, f {She lost her {d, date, short}} other {He lost his {d, date, short}}}",
        ),
        (
            "{a, plural, one {# x {b, plural, one {# y} other {# ys}}} other {# xs}}",
            ["{a, number} x # y", "{a, number} x # ys", "# xs"],
            "{a, plural, one {{b, plural, one {{a, number} x # y} other {{a, number} x # ys}}} "
            "other {# xs}}",
        ),
        (
            "Bug #3: it's {n, plural, =0 {} other { '{'{n}'}' '#'# }}",
            ["Bug '#'3: it's", "Bug '#'3: it's  '{'{n}'}' '#'#"],
            "{n, plural, =0 {Bug '#'3: it's } other {Bug '#'3: it's  '{'{n}'}' '#'# }}",
        ),
        (
            "#1 '{x}': it''s {g, select, a {l''eau '} b'} other {}}",
            ["#1 '{x}': it's l'eau '}' b", "#1 '{x}': it's"],
            None,
        ),
        ("{n, plural, =0 {} other { }}", [], "{n, plural, =0 {} other { }}"),
    ],
)
def test_texts_are_whole_sentences(text, texts, joined):
    message = IcuMessage.parse(text)
    if joined is not None:
        assert message.texts == texts
        assert message.join(texts) == joined


def test_variables_of_the_texts():
    text = "#1 in {x}: {n, plural, other {#px of '{y}' at %s {d, date, short}}}"
    message = IcuMessage.parse(text)
    (inner,) = message.texts
    for keep, expected in {
        "auto": ["'#'1", "{x}", "#px", "'{y}'", "%s", "{d, date, short}"],
        "none": ["'#'1", "{x}", "#px", "'{y}'", "{d, date, short}"],
    }.items():
        (variables,) = message.variables(keep)
        assert [inner[start:end] for start, end in variables] == expected


def test_many_branches_are_separate_texts():
    argument = "{%s, plural, one {# x} other {# xs {g, select, a {A} other {B}}}}"
    text = "In {n}: " + ", ".join(argument % name for name in "nopqrstuv") + "."
    message = IcuMessage.parse(text)
    outer, *inner = message.texts
    assert outer == "In {n}: {n_3}, {o}, {p}, {q}, {r}, {s}, {t}, {u}, {v}."
    assert inner == ["# x", "# xs {g}", "A", "B"] * 9
    assert message.join(message.texts) == text
    translations = [outer.replace("{o}, {p}", "{p}, {o}"), *inner]
    swapped = text.replace("{o,", "{_,").replace("{p,", "{o,").replace("{_,", "{p,")
    assert message.join(translations) == swapped


def test_a_number_with_an_offset_stays_in_its_argument():
    text = "{a, plural, offset:1 other {# {g, select, x {y} other {z}}}}"
    message = IcuMessage.parse(text)
    assert message.texts == ["# {g}", "y", "z"]
    assert message.join(message.texts) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Hello {name}, it's {d, date, short}.",
        "{n, plural, one {# file} other {# files}",
        "{n, plural, one {# file} other {# files}}}",
        "{n, plural, one {# file}}",
        "{n, plural}",
        "{n, plural, }",
        "{n, plural, one other {x}}",
        "{n, plural, one {a} one {b} other {c}}",
        "{n, plural, one {'} other {c}}",
        "{n, plural, other {{a b}}}",
        "{{n}} {n, plural, other {a}}",
        "{n, choice, 0#a|1#b}",
        "{n, plural, other {''{x}'''{x}'}}",
        "{n, plural, other {" * 50 + "}}" * 50,
        "{n, plural, other {" * 100_000,
    ],
)
def test_other_text_is_no_message(text):
    assert IcuMessage.parse(text) is None


def test_the_number_of_translations_is_checked():
    message = IcuMessage.parse("{n, plural, one {# file} other {# files}}")
    with pytest.raises(UserInputError, match="`translations` must contain a translation for each"):
        message.join(["# Datei"])


LITERAL = st.sampled_from(["a", "''", "'{'", "'{x}'", "'}'", "it's", " ", "'#'", "#", "{n}", "{x}"])


def argument(inner):
    def written(name, kind, offset, options):
        offset = "offset:1 " if offset and kind == "plural" else ""
        branches = " ".join(f"{selector} {{{text}}}" for selector, text in options.items())
        return f"{{{name}, {kind}, {offset}{branches}}}"

    options = st.fixed_dictionaries({"other": inner}, optional={"one": inner, "few": inner})
    kind = st.sampled_from(["plural", "select"])
    return st.builds(written, st.sampled_from("mn"), kind, st.booleans(), options)


MESSAGES = st.recursive(
    LITERAL, lambda inner: st.lists(inner | argument(inner), max_size=4).map("".join), max_leaves=8
)
HEAD = re.compile(r"\{(\w), (\w+),( offset:1)? ")
ARGUMENT = re.compile(r"\{[^{}]*\}|.")
SELECTOR = re.compile(r"\s*(\w+) \{")


def formatted(text, selected):
    """Return the output of a message for the selectors of the arguments, by ICU's rules."""

    def run(place, number):
        output, special = "", "{}#" if number else "{}"
        while place < len(text) and text[place] != "}":
            if text.startswith("''", place):
                output, place = output + "'", place + 2
            elif text[place] == "'" and text[place + 1 : place + 2] in [*special]:
                quoted = re.compile("'((?:[^']|'')*)(?:'|$)").match(text, place)
                output, place = output + quoted[1].replace("''", "'"), quoted.end()
            elif text[place] == "#" and number:
                output, place = output + number, place + 1
            elif head := HEAD.match(text, place):
                name, kind, offset = head.groups()
                number_inside = (offset and f"{name}-1") or f"{{{name}, number}}"
                results, place = {}, head.end()
                while selector := SELECTOR.match(text, place):
                    inside, end = run(selector.end(), number_inside if kind == "plural" else "")
                    results[selector[1]], place = inside, end + 1
                output, place = output + results.get(selected[name], results["other"]), place + 1
            else:
                part = ARGUMENT.match(text, place)[0]
                output, place = output + part, place + len(part)
        return output, place

    return run(0, "")[0]


@settings(max_examples=50)
@given(MESSAGES, st.lists(st.text(st.sampled_from("a'{}# xn,"), max_size=8), min_size=1))
def test_a_joined_message_means_the_same(text, noise):
    message = IcuMessage.parse(text)
    if message is None:
        return
    joined = message.join(message.texts)
    for selectors in itertools.product(["one", "few", "other"], repeat=2):
        selected = dict(zip("mn", selectors, strict=True))
        assert formatted(joined, selected) == formatted(text, selected)
    assert IcuMessage.parse(joined).texts == message.texts
    # Translations with any other text give a valid message.
    translations = list(map("".join, zip(itertools.cycle(noise), message.texts)))
    assert IcuMessage.parse(message.join(translations)) is not None


def test_a_long_message_is_read_once():
    text = "{n, plural, other {" + "a'{x}'#{y}" * 5_000 + "}}"
    message = IcuMessage.parse(text)
    assert message.texts == [text[19:-2]]
    assert message.join(message.texts) == text
    text = "{n, select, a {b} other {}}" * 1_000
    message = IcuMessage.parse(text)
    assert len(message.texts) == 1_001
    assert message.join(message.texts) == text


@pytest.mark.parametrize(
    ("sentence", "keep", "texts", "joined"),
    [
        ("a {x}", "auto", ["a {x}"], "A {X}"),
        ("{x} %s", "auto", [], "{x} %s"),
        ("{x}", "none", ["{x}"], "{X}"),
        ("", "auto", [""], ""),
        (
            "{n, plural, =0 {{n}} other {# files}}",
            "numbers",
            ["# files"],
            "{n, plural, =0 {{n}} other {# FILES}}",
        ),
        (
            "{n, plural, other {a}}",
            r"\{n",
            ["{n, plural, other {a}}"],
            "{N, PLURAL, OTHER {A}}",
        ),
    ],
)
def test_the_texts_of_a_sentence(sentence, keep, texts, joined):
    found = TextsToTranslate(sentence, keep)
    assert found.texts == texts
    assert len(found.variables) == len(texts)
    assert found.join(text.upper() for text in found.texts) == joined


def test_a_sentence_with_fixed_parts_is_no_message():
    sentence = "{n, plural, other {a}}"
    assert TextsToTranslate(sentence, "auto", [(0, 1)]).message is None
    assert TextsToTranslate(sentence, "auto", may_be_message=False).message is None
