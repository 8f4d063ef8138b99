"""Documents with markup whose text is translated."""

import bisect
from collections.abc import Sequence
from typing import NamedTuple

from keras_transformer.errors import refuse
from keras_transformer.text.markup.html_segments import html_segments
from keras_transformer.text.markup.markdown_segments import markdown_segments
from keras_transformer.text.markup.projection import Link, Step, project
from keras_transformer.text.markup.segments import Segment, Span
from keras_transformer.text.markup.xml_segments import xml_segments
from keras_transformer.types import MarkupKind

_READERS = {"html": html_segments, "xml": xml_segments, "markdown": markdown_segments}
_BYTE_ORDER_MARK = "\ufeff"
# Emphasis in Markdown is found only next to certain characters, in HTML everywhere.
_HTML_NAMES = {"emphasis": "em", "strong_emphasis": "strong", "strikethrough": "del"}


class Translation(NamedTuple):
    """The translation of a segment.

    Args:
        text: the translation of `segment.text`.
        links: linked words `(source_start, source_end, target_start, target_end)`: characters
            `segment.text[source_start:source_end]` and `text[target_start:target_end]`.
        kept: for each of `segment.protected`, its place `(start, end)` in `text`.
    """

    text: str
    links: Sequence[Link] = ()
    kept: Sequence[Span] = ()


class MarkedDocument:
    """A document with markup, from `parse_markup`.

    Args:
        source: the document.
        segments: its segments.
        mark: a byte order mark before the document.

    Attributes:
        segments: the text to translate, a list of `Segment` in the order in which they start in
            the document.
    """

    def __init__(self, source: str, segments: Sequence[Segment], mark: str = "") -> None:
        self._source = source
        self._mark = mark
        self.segments = list(segments)

    def render(self, translations: Sequence[Translation]) -> str:
        """Return the document with translations, which is otherwise unchanged.

        Each tag of a segment is in the result once, in the source's nesting, around the words that
        are linked to its words. Markdown emphasis without a word is left out. A segment whose
        translation is equal to its text stays as it is.

        Args:
            translations: a translation for each segment.

        Raises:
            UserInputError: a translation is missing, or a span is not in its text.
        """
        if len(translations) != len(self.segments):
            refuse(
                "translations",
                "have an item for each segment",
                translations=len(translations),
                segments=len(self.segments),
            )
        for index, pair in enumerate(zip(self.segments, translations, strict=True)):
            _check(f"translations[{index}]", *pair)
        # Attributes can lie in the tags of a text, but not the other way around.
        pairs = list(zip(self.segments, translations, strict=True))
        attributes = _Edits(self._source)
        for segment, translation in pairs:
            if segment.is_attribute:
                attributes.add(segment.source, _spelled(segment, translation, attributes))
        texts = _Edits(self._source, attributes)
        for segment, translation in pairs:
            if not segment.is_attribute:
                texts.add(segment.source, _spelled(segment, translation, attributes))
        return self._mark + texts.text((0, len(self._source)))


class _Edits:
    """Replaced spans of a source, over the replacements inside the text between them."""

    def __init__(self, source: str, inner: "_Edits | None" = None) -> None:
        self._source = source
        self._inner = inner
        self._spans: list[Span] = []
        self._texts: list[str] = []

    def add(self, span: Span, text: str) -> None:
        """Replace a span after those that were replaced before."""
        self._spans.append(span)
        self._texts.append(text)

    def text(self, span: Span) -> str:
        """Return a span of the source with its replacements."""
        start, end = span
        place = bisect.bisect_left(self._spans, (start,))
        parts = []
        while place < len(self._spans) and self._spans[place][0] < end:
            parts += [self._unedited(start, self._spans[place][0]), self._texts[place]]
            start = self._spans[place][1]
            place += 1
        return "".join((*parts, self._unedited(start, end)))

    def _unedited(self, start: int, end: int) -> str:
        return self._inner.text((start, end)) if self._inner else self._source[start:end]


def parse_markup(text: str, kind: MarkupKind = "html") -> MarkedDocument:
    """Find the text to translate in a document.

    Tags, comments and everything else that is not text stay as they are. So do elements with
    `translate="no"`, `<code>`, `<kbd>`, `<math>`, `<pre>`, `<samp>`, `<script>`, `<style>`,
    `<var>`, CDATA sections, and references to unknown entities. The values of `alt` and `title`
    are segments. Entities are decoded and never expanded, and nothing else is read.

    Args:
        text: the document.
        kind: `"html"`, `"xml"` or `"markdown"`. HTML with errors is read like in browsers. In XML
            other than XHTML, elements in a text are inline, unless they contain several elements
            without text. Markdown needs the packages of `keras-transformer-garden[markup]`, and
            leaves paragraphs with over 1,000 characters of markup as they are.

    Raises:
        UserInputError: `kind` is unknown, or XML is not well-formed.

    Example:
        >>> document = parse_markup("<p>A <b>red</b> house &amp; more")
        >>> document.segments[0].text
        'A red house & more'
        >>> links = [(0, 1, 0, 3), (2, 5, 9, 13), (6, 11, 4, 8), (14, 18, 16, 19)]
        >>> document.render([Translation("Una casa roja & más", links)])
        '<p>Una casa <b>roja</b> &amp; más'
    """
    if kind not in _READERS:
        refuse("kind", f"be one of {', '.join(_READERS)}", kind)
    source = text.removeprefix(_BYTE_ORDER_MARK)
    return MarkedDocument(source, _READERS[kind](source), text[: len(text) - len(source)])


def _check(name: str, segment: Segment, translation: Translation) -> None:
    """Reject a translation whose spans are not in its text or its segment."""
    source, target = len(segment.text), len(translation.text)
    for start, end, target_start, target_end in translation.links:
        if not (0 <= start <= end <= source and 0 <= target_start <= target_end <= target):
            refuse(f"{name}.links", "be spans of the texts", translation.links)
    last = 0
    for start, end in sorted(translation.kept):
        if not last <= start < end <= target:
            refuse(f"{name}.kept", "be spans of the text that do not overlap", translation.kept)
        last = end
    kept = [translation.text[start:end] for start, end in translation.kept]
    if kept != [segment.text[start:end] for start, end, _ in segment.protected]:
        refuse(f"{name}.kept", "be the places of the protected texts", translation.kept)


def _spelled(segment: Segment, translation: Translation, source: _Edits) -> str:
    """Return the translation of a segment as it is written in the document."""
    if translation.text == segment.text:
        return source.text(segment.source)
    translation = _stripped(translation)
    characters = segment.encode(translation.text)
    for protected, (start, end) in zip(segment.protected, translation.kept, strict=True):
        characters[start:end] = [source.text(protected.source), *[""] * (end - start - 1)]
    steps = project(segment, translation.text, translation.links, translation.kept)
    tags = [
        (source.text(tag.opening), source.text(tag.closing) if tag.closing else "")
        for tag in segment.tags
    ]
    text, spans = _joined(segment, characters, steps, tags)
    if segment.is_read is not None and not segment.is_read(text, spans):
        for index, tag in enumerate(segment.tags):
            if name := _HTML_NAMES.get(tag.name):
                tags[index] = (f"<{name}>", f"</{name}>")
        text, _ = _joined(segment, characters, steps, tags)
    return f"{segment.before}{text}{segment.after}"


def _stripped(translation: Translation) -> Translation:
    """Return a translation without white space at its ends, which comes from the source."""
    text = translation.text.strip()
    start = translation.text.find(text)
    end = start + len(text)

    def shifted(first: int, last: int) -> Span:
        return min(max(first, start), end) - start, min(max(last, start), end) - start

    links = [(*link[:2], *shifted(*link[2:])) for link in translation.links]
    return Translation(text, links, [shifted(*span) for span in translation.kept])


def _joined(
    segment: Segment,
    characters: Sequence[str],
    steps: Sequence[Step],
    tags: Sequence[tuple[str, str]],
) -> tuple[str, list[tuple[str, int, int]]]:
    """Return text with tags, and the name, start and end of each pair of tags."""
    parts: list[str] = []
    length = 0
    last = 0

    def add(text: str) -> None:
        nonlocal length
        parts.append(text)
        length += len(text)

    opened: list[int] = []
    spans = []
    empty = _empty_emphasis(segment, steps)
    for position, index, is_closing in steps:
        add("".join(characters[last:position]))
        last = position
        if index in empty:
            continue
        start = length
        add(tags[index][is_closing])
        if is_closing:
            spans.append((segment.tags[index].name, opened.pop(), length))
        elif segment.tags[index].closing is not None:
            opened.append(start)
    add("".join(characters[last:]))
    return "".join(parts), spans


def _empty_emphasis(segment: Segment, steps: Sequence[Step]) -> set[int]:
    """Return the tags of emphasis without text, which Markdown does not have."""
    if segment.is_read is None:
        return set()
    starts = {index: position for position, index, is_closing in steps if not is_closing}
    return {
        index
        for position, index, is_closing in steps
        if is_closing and position == starts[index] and segment.tags[index].name in _HTML_NAMES
    }
