"""Find the parts of text that translations must not change: addresses and placeholders."""

import functools
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from keras_transformer.errors import UserInputError, refuse
from keras_transformer.text.words import UNSPACED, is_letter
from keras_transformer.types import AUTO, NONE, NUMBERS

KEEP = (NONE, AUTO, NUMBERS)

# Scanning hostile text takes linear time: `*+` and `++` never give back a character, and patterns
# that start with a run of characters of any length start only at the beginning of the run. Before
# Python 3.11.5, a group with `*+` or `++` that fails after its first character loses its place
# (python/cpython#106052), so such groups look ahead.
_URL_START = re.compile(
    r"""(?<![A-Za-z0-9+])[A-Za-z0-9][A-Za-z0-9+.-]{1,30}://
    | (?<![A-Za-z0-9+])(?i:mailto):(?=\S)
    | (?<![A-Za-z0-9_.@/-])(?i:www)\d?\.(?=\w)""",
    re.VERBOSE,
)
_LETTER = rf"[^\W\d_{UNSPACED}]"
_NAME = rf"(?![{UNSPACED}])[\w.%+{{}}-]"
_DOMAIN = rf"(?:(?![{UNSPACED}])[\w-])"
_EMAIL = re.compile(rf"(?<!{_NAME})(?:{_NAME})++@(?:{_DOMAIN}{{1,63}}\.){{1,8}}{_DOMAIN}{{2,63}}")
_ENTITY = re.compile(r"&(?:[A-Za-z][\w.-]{1,40}|#[0-9]{1,7}|#[xX][0-9A-Fa-f]{1,6});", re.ASCII)
_BRACES = re.compile(
    r"""[$#%]?\{\{\{[^{}]*+\}\}\}            # {{{mustache}}}
    | [$#%]?\{\{[^{}]*+\}\}                  # {{ mustache }}, also ${{ x }}
    | [$#%]\{[^{}]*+\}                       # ${shell}, #{Ruby}, %{Ruby}
    | \{%[^{}]*+\}                           # {% Jinja %}
    | \{[^\s{}]*+\}                          # {name}, {}, {0:N2}, {count:,d}
    | \{[^\s{},:!]*+(?:,\s*-?\d{1,4})?       # {0, 10:N2}, {time:%H:%M Uhr}, {x:{width}}
      (?:[:!](?=\S|\s[<>=^])[^{}]*+(?:(?=\{[^{}]*+\})\{[^{}]*+\}[^{}]*+)*+)?\}
    | \{\s*+[^\s{},]++\s*+,\s*+              # {day, date, short} of ICU
      (?:number|date|time|spellout|ordinal|duration|list)\s*+(?:,[^{}]*+)?\}""",
    re.VERBOSE,
)
# The beginning of an ICU argument that contains text, such as "{count, plural,".
_ICU_CHOICE = re.compile(r"\{\s*+[^\s{},#']++\s*+,\s*+(?:plural|selectordinal|select|choice)\s*+,")
_BRACE = re.compile(r"[{}]")
_NUMBERED = re.compile(r"\[X\d{1,7}X\]", re.ASCII)  # [X7X], in which Weblate hides placeholders
# "100% sure", "99%-ige", "100%ig" and "%age" are not directives. As in gettext, a space after `%`
# is unlikely to be a flag; directives with `-` or a space need a width or a number's conversion.
_NO_LETTER = rf"(?!{_LETTER})"
_SIZE = r"(?:hh?|ll?|[qjzZtL])?"
_WIDTH = r"(?:\*|\d{1,4})"
_PRECISION = r"(?:\.(?:\*(?:\d{1,2}\$)?|\d{1,4}))?"
_CONVERSION = r"[diouxXeEfFgGaAcCsSpnmr@]"
_PERCENT = re.compile(
    rf"""%%
    | (?<!\d)%[A-Za-z_][\w.]++%{_NO_LETTER}(?![\d%(<{{$@*#]|[.-]\d)  # %name% of Symfony
    | %\([^()%]{{1,100}}\)[-+\ #0]*{_WIDTH}?{_PRECISION}{_SIZE}{_CONVERSION}  # %(name)s
    | (?<!\d)%<\w{{1,60}}>[-+0]*\d*{_PRECISION}{_CONVERSION}{_NO_LETTER}      # %<name>s of Ruby
    | %[-+\ #0'\d.*]{{0,20}}<PRI\w{{1,20}}>                                   # %<PRIu64>
    | %\d{{1,2}}\$[-+\ \#0'I]*(?:{_WIDTH}(?:\d{{0,2}}\$)?)?{_PRECISION}{_SIZE}{_CONVERSION}  # %1$s
    | %[+\#0']*{_WIDTH}?{_PRECISION}{_SIZE}{_CONVERSION}{_NO_LETTER}
    | (?<!\d)%[+\#0]*{_WIDTH}?{_PRECISION}(?:{_SIZE}[sdufxX@]|ll?i|p[A-Z])     # %sbytes, %pB
    | (?<!\d)(?<!\d\s)%[-+\ \#0']+{_WIDTH}{_PRECISION}{_SIZE}[A-Za-z@]{_NO_LETTER}
    | (?<!\d)%-\.(?:\*|\d{{1,4}}){_SIZE}{_CONVERSION}{_NO_LETTER}
    | (?<!\d)(?<!\d\s)%\ [df](?!'){_NO_LETTER}
    | (?<!\d)%[-_^EO]?[A-Za-z]{_NO_LETTER}                                   # %Y-%m-%d
    | (?<!\d)%[1-9]\d?%{_NO_LETTER}(?![\d%(<{{])                    # %1% of Boost
    | (?<!\d)(?:(?=%L?[1-9]\d?(?!\d|[.,]\d))%L?[1-9]\d?)++                   # %1 of Qt
    """,
    re.VERBOSE,
)
_BY_SIGN = (
    ("@", _EMAIL),
    ("&", _ENTITY),
    ("{", _BRACES),
    ("%", _PERCENT),
    ("[X", _NUMBERED),
)
_SEPARATOR = r"[.,:/'\u2019\u066b\u066c\u00a0\u202f-]"
_NUMBER = re.compile(
    rf"(?:(?<![\w)\]])[-+\u2212])?(?<!\d)(?<!\d{_SEPARATOR})"
    rf"\d++(?:(?={_SEPARATOR}\d){_SEPARATOR}\d++)*+(?:[\u00a0\u202f]?[%\u2030])?"
)
_CLOSING = {")": "(", "]": "[", "}": "{"}
_NOT_IN_URL = '<>"|\\^`'
_AFTER_URL = ".,;:!?'*([{"  # punctuation of the sentence


class Variable(NamedTuple):
    """A part of a text that translations must not change, `text[start:end]`."""

    start: int
    end: int


def find_variables(
    text: str, keep: str = AUTO, fixed: Iterable[tuple[int, int]] = ()
) -> list[Variable]:
    """Return the parts of a text that translations must not change, from left to right.

    Variables do not overlap: those that overlap or touch are one variable. A variable that touches
    letters or digits includes them, so the characters around a variable are not part of a word.

    Args:
        text: any text.
        keep: one of these:

            - `"auto"`: URLs, e-mail addresses, character entities such as `&nbsp;`, and
              placeholders: `{name}`, `{{ name }}`, `${name}`, `%{name}`, `%s`, `%(name)s`,
              `%1$s`, `%@`, `%name%`, `%1`, `[X7X]` of Weblate, `{day, date, short}`, and arguments
              such as `{count, plural, one {...} other {...}}`. To translate the text inside these
              arguments, use `IcuMessage`. Angle brackets around an address or a placeholder belong
              to it, as in `<me@example.org>`.
            - `"numbers"`: also numbers such as `1,234.50`, `12:30` and `50%`, although other
              languages may write them differently. Numbers that touch letters, such as `3rd`,
              are not included.
            - `"none"`: no part of the text.
            - a regular expression in Python's syntax: only what it matches. Some expressions take
              exponential time on some texts, so do not use expressions from untrusted sources.
        fixed: the start and end of other parts that must not change.

    Raises:
        UserInputError: `keep` is not a valid regular expression, or it matches an empty string.

    Example:
        >>> find_variables("Delete %d files from {folder}?")
        [Variable(start=7, end=9), Variable(start=21, end=29)]
    """
    spans = [*fixed, *_spans(text, check_keep(keep))]
    found: list[Variable] = []
    for start, end in sorted(spans):
        last = found[-1].end if found else 0
        while start > last and is_letter(text[start - 1]):
            start -= 1
        if found and start <= last:
            start, end = found.pop().start, max(end, last)
        while end < len(text) and is_letter(text[end]):
            end += 1
        found.append(Variable(start, end))
    return found


def has_words(
    text: str, variables: Iterable[tuple[int, int]], start: int = 0, end: int | None = None
) -> bool:
    """Return whether a part of a text, `text[start:end]`, has letters beside variables.

    Args:
        text: the text.
        variables: the start and end of its variables in the part.
        start, end: the part.
    """
    end = len(text) if end is None else end
    for first, last in (*variables, (end, end)):
        if any(map(str.isalpha, text[start:first])):
            return True
        start = last
    return False


def check_keep(keep: str) -> str:
    """Return `keep`, which must be one of `KEEP` or a regular expression.

    Raises:
        UserInputError: it is not a valid regular expression, or it matches an empty string.
    """
    if not isinstance(keep, str):
        refuse("keep", f"be {', '.join(KEEP)} or a regular expression", keep)
    if keep not in KEEP:
        for text in ("", " a1-A_.\n"):
            list(_matches(text, keep))
    return keep


@functools.cache
def _expression(keep: str) -> re.Pattern[str]:
    try:
        return re.compile(keep)
    except (re.error, OverflowError, RecursionError, ValueError) as error:
        raise UserInputError(
            f"`keep` must be {', '.join(KEEP)} or a regular expression ({error}). "
            f"Received: keep={keep[:300]!r}"
        ) from error


def _matches(text: str, keep: str) -> Iterator[tuple[int, int]]:
    """Yield the matches of the user's regular expression."""
    for match in _expression(keep).finditer(text):
        if not match.group():
            refuse("keep", "not match an empty string", keep)
        yield match.span()


def _spans(text: str, keep: str) -> Iterator[tuple[int, int]]:
    """Yield the start and end of variables, which may overlap, in any order."""
    if keep == NONE:
        return
    if keep not in KEEP:
        yield from _matches(text, keep)
        return
    for start, end in _found(text):
        has_brackets = text[start - 1 : start] == "<" and text[end : end + 1] == ">"
        yield start - has_brackets, end + has_brackets
    if _ICU_CHOICE.search(text):
        yield from _brace_groups(text)
    if keep == NUMBERS:
        for start, end in (match.span() for match in _NUMBER.finditer(text)):
            neighbors = text[max(start - 1, 0) : start] + text[end : end + 1]
            if not any(map(is_letter, neighbors)):
                yield start, end


def _found(text: str) -> Iterator[tuple[int, int]]:
    """Yield the start and end of addresses, entities and placeholders."""
    yield from _urls(text)
    for sign, pattern in _BY_SIGN:
        if sign in text:  # most sentences contain none
            yield from (match.span() for match in pattern.finditer(text))


def _urls(text: str) -> Iterator[tuple[int, int]]:
    """Yield the start and end of URLs, without the punctuation that follows them."""
    place = 0
    while match := _URL_START.search(text, place):
        opened = dict.fromkeys(_CLOSING.values(), 0)
        place = end = match.end()
        while place < len(text) and _continues_url(text[place], opened):
            place += 1
            if text[place - 1] not in _AFTER_URL:
                end = place
        yield match.start(), end


def _continues_url(character: str, opened: dict[str, int]) -> bool:
    """Return whether a URL contains the next character, and count its open brackets."""
    if character in opened:
        opened[character] += 1
    elif character in _CLOSING:
        opened[_CLOSING[character]] -= 1
        return opened[_CLOSING[character]] >= 0
    if character.isascii():
        return character > " " and character not in _NOT_IN_URL
    return is_letter(character)


def _brace_groups(text: str) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each `{` with its `}`."""
    starts = []
    for match in _BRACE.finditer(text):
        if match.group() == "{":
            starts.append(match.start())
        elif starts:
            yield starts.pop(), match.end()
