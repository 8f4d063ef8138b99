"""Parsing events of HTML. As in a browser, any text is valid HTML."""

import html
import re
from collections.abc import Callable, Iterator

from keras_transformer.text.markup.segments import (
    Event,
    Kind,
    Segment,
    has_words,
    resolve,
    segments_of,
)

# Elements that browsers show as blocks, or that are apart from the text around them.
BLOCKS = frozenset(
    "address article aside base blockquote body button caption center col colgroup dd desc details "
    "dialog dir div dl dt fieldset figcaption figure footer foreignobject form frame frameset h1 "
    "h2 h3 h4 h5 h6 head header hgroup hr html legend li link listing main menu meta nav ol "
    "optgroup option p plaintext pre search section select summary svg table tbody td text "
    "textarea tfoot th thead title tr ul xmp".split()
)
KEPT = frozenset("code kbd math pre samp var".split())
TEXT_ATTRIBUTES = frozenset(("alt", "title"))
_EMPTY = frozenset(
    "area base br col embed frame hr img input link meta param source track wbr".split()
)
_RAW = frozenset("iframe noembed noframes plaintext script style xmp".split())
_TEXT_ONLY = frozenset(("textarea", "title"))
_SPACE = "[ \\t\\n\\f\\r]"
# Each part is possessive, so that a match takes linear time, and ends at the end of the text.
_ATTRIBUTE = (
    rf"(?:{_SPACE}|/)*+(?P<name>[^ \t\n\f\r/>][^ \t\n\f\r/>=]*+)"
    rf"(?:{_SPACE}*+={_SPACE}*+"
    r"(?P<value>\"[^\"]*+(?:\"|\Z)|'[^']*+(?:'|\Z)|[^ \t\n\f\r>]*+))?+"
)
ATTRIBUTE = re.compile(_ATTRIBUTE)
_ATTRIBUTES = re.sub(r"\?P<\w+>", "?:", _ATTRIBUTE)
_MARKUP = re.compile(
    r"<!--(?:-?>|.*?(?:--!?>|\Z))"
    r"|<!\[CDATA\[.*?(?:\]\]>|\Z)"
    r"|<\?(?:(?:php\b|xml|=).*?(?:\?>|\Z)|[^>]*+(?:>|\Z))"
    r"|<(?:!|/(?![a-zA-Z]))[^>]*+(?:>|\Z)"
    rf"|<(?P<slash>/?)(?P<name>[a-zA-Z][^ \t\n\f\r/>]*+)"
    rf"(?P<attributes>(?:{_ATTRIBUTES})*+)(?:{_SPACE}|/)*+(?P<end>>|\Z)",
    re.DOTALL,
)
_START = re.compile("<[a-zA-Z/!?]")
_REFERENCE = re.compile(r"&[^\W\d][\w.:-]*;")
_SPACES = ("&nbsp;", "&#160;", "&#xa0;", "&#xA0;")
_ESCAPES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
_QUOTES = {'"': "&quot;", "'": "&#39;"}


def html_segments(source: str) -> list[Segment]:
    """Return the segments of an HTML document."""
    blocks = resolve(list(html_events(source, 0, len(source))), len(source))
    return list(segments_of(blocks, encode_text, encode_attribute))


def html_events(source: str, start: int, end: int) -> Iterator[Event]:
    """Yield the events of a part of a document."""
    while start < end:
        opening = _START.search(source, start, end)
        limit = opening.start() if opening else end
        yield from text_events(source, start, limit, html.unescape, _is_unknown)
        if opening is None:
            return
        match = _MARKUP.match(source, limit, end)
        assert match is not None  # the pattern matches each start
        start = match.end()
        name = (match["name"] or "").lower()
        if match["end"] != ">":  # a comment, or a tag that does not end
            kind = Kind.BREAK if source[limit : limit + 9].lower() == "<!doctype" else Kind.EMPTY
            yield Event(kind, limit, start)
        elif match["slash"]:
            yield Event(Kind.CLOSE, limit, start, name=name, is_block=name in BLOCKS)
        elif name in _RAW:
            start = _end_of(name, source, start, end)
            start = source.find(">", start, end) + 1 or end
            yield Event(Kind.EMPTY, limit, start, is_block=name in BLOCKS)
        else:
            yield from _element(match, name)
            if name in _TEXT_ONLY:
                limit = _end_of(name, source, start, end)
                yield from text_events(source, start, limit, html.unescape, _is_unknown)
                start = limit


def _element(match: re.Match[str], name: str) -> Iterator[Event]:
    """Yield the events of an opening tag: the tag and its attributes."""
    kind = Kind.EMPTY if name in _EMPTY else Kind.OPEN
    attributes: list[Event] = []
    is_kept = name in KEPT
    for each in ATTRIBUTE.finditer(
        match.string, match.start("attributes"), match.end("attributes")
    ):
        key, value = each["name"].lower(), each["value"] or ""
        if key == "translate":
            is_kept |= value.strip("\"' \t\n\f\r").lower() == "no"
        if key in TEXT_ATTRIBUTES and value:
            attributes += attribute_events(each, html.unescape, _is_unknown)
    separator = " " if name == "br" else ""
    yield Event(kind, *match.span(), separator, name, name in BLOCKS, is_kept)
    if not (is_kept and kind is Kind.EMPTY):
        yield from attributes


def attribute_events(
    match: re.Match[str], decode: Callable[[str], str], is_unknown: Callable[[str], bool]
) -> Iterator[Event]:
    """Yield the event of the value of an attribute, a match of `ATTRIBUTE`, if it has words."""
    quote = match["value"][:1] if match["value"][:1] in ('"', "'") else ""
    start, end = match.start("value") + len(quote), match.end("value") - len(quote)
    parts = list(text_events(match.string, start, end, decode, is_unknown))
    if has_words(parts):
        parts = parts[parts[0].text.isspace() : len(parts) - parts[-1].text.isspace()]
        span = parts[0].start, parts[-1].end
        yield Event(Kind.ATTRIBUTE, *span, quote=quote, parts=tuple(parts))


def text_events(
    source: str,
    start: int,
    end: int,
    decode: Callable[[str], str],
    is_unknown: Callable[[str], bool],
) -> Iterator[Event]:
    """Yield the events of a text without tags: white space at its ends, and unknown entities.

    Args:
        source: source of the document.
        start, end: place of the text.
        decode: returns a text with its entities decoded.
        is_unknown: returns whether a reference such as `&name;` is to an unknown entity.
    """
    for match in _REFERENCE.finditer(source, start, end):
        if is_unknown(match[0]):
            yield from _trimmed(source, start, match.start(), decode)
            yield Event(Kind.KEPT, *match.span(), match[0])
            start = match.end()
    yield from _trimmed(source, start, end, decode)


def _trimmed(source: str, start: int, end: int, decode: Callable[[str], str]) -> Iterator[Event]:
    first, last = start, end
    while first < last and (length := _space_at_start(source, first, last)):
        first += length
    while first < last and (length := _space_at_end(source, first, last)):
        last -= length
    for begin, stop in ((start, first), (first, last), (last, end)):
        if begin < stop:
            yield Event(Kind.TEXT, begin, stop, decode(source[begin:stop]))


def _space_at_start(source: str, start: int, end: int) -> int:
    """Return the length of a white space character, as it is written, at the start of a text."""
    return 1 if source[start].isspace() else 6 * source.startswith(_SPACES, start, end)


def _space_at_end(source: str, start: int, end: int) -> int:
    return 1 if source[end - 1].isspace() else 6 * source.endswith(_SPACES, start, end)


def _is_unknown(reference: str) -> bool:
    return html.unescape(reference) == reference


def _end_of(name: str, source: str, start: int, end: int) -> int:
    """Return the start of the closing tag of an element without markup inside."""
    match = re.compile(rf"</{name}(?=[ \t\n\f\r/>])", re.IGNORECASE).search(source, start, end)
    return match.start() if match and name != "plaintext" else end


def encode_text(text: str) -> list[str]:
    """Spell the characters of text."""
    return [_ESCAPES.get(character, character) for character in text]


def encode_attribute(text: str, quote: str) -> list[str]:
    """Spell the characters of the value of an attribute between quotes."""
    escapes = _ESCAPES | {quote: _QUOTES[quote]}
    return [escapes.get(character, character) for character in text]
