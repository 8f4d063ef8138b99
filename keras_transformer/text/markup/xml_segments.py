"""Events of XML: well-formed documents of any vocabulary, whose entities are not read."""

import dataclasses
import re
from collections.abc import Iterator
from xml.parsers import expat

from keras_transformer.errors import UserInputError
from keras_transformer.text.markup import html_segments as html
from keras_transformer.text.markup.segments import (
    Event,
    Kind,
    Segment,
    character_offsets,
    resolve,
    segments_of,
)

_ENTITIES = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'"}
_KNOWN = re.compile(rf"&(?:({'|'.join(_ENTITIES)})|\#(\d+)|\#x([0-9a-fA-F]+));")
# In UTF-8. The parser must neither expand these references nor look for their entities.
_UNKNOWN = re.compile(
    rf"&(?!(?:{'|'.join(_ENTITIES)});)[a-zA-Z_:\x80-\xff][-.:\w\x80-\xff]*;".encode("latin-1")
)
_NO_TEXT = frozenset(("script", "style"))
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclasses.dataclass
class _Element:
    """What decides whether an element is in the text around it."""

    name: str
    parent: int
    has_text: bool = False
    num_children: int = 0
    is_block: bool = False


def xml_segments(source: str) -> list[Segment]:
    """Return the segments of an XML document.

    Raises:
        UserInputError: the document is not well-formed.
    """
    blocks = resolve(_Reader(source).events(), len(source))
    return list(segments_of(blocks, _encode_text, _encode_attribute))


class _Reader:
    """Collects the events of a document, first with the parser's places in its bytes."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._tokens: list[tuple[int, Kind, int]] = []  # start, kind, index of the element
        self._elements = [_Element("", -1)]
        self._open = [0]
        self._is_in_cdata = False

    def events(self) -> list[Event]:
        self._parse()
        self._find_blocks()
        ends = [start for start, *_ in self._tokens[1:]] + [len(self._source)]
        events: list[Event] = []
        for (start, kind, element), end in zip(self._tokens, ends, strict=True):
            events += self._events_of(kind, start, end, self._elements[element])
        return events

    def _parse(self) -> None:
        data = self._source.encode("utf-8", "surrogatepass")
        self._data = _UNKNOWN.sub(lambda match: b"_" * len(match[0]), data)
        offsets = character_offsets(data)
        parser = self._parser = expat.ParserCreate("utf-8")
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._text
        parser.StartCdataSectionHandler = self._start_cdata
        parser.EndCdataSectionHandler = self._end_cdata
        parser.StartDoctypeDeclHandler = lambda *_: self._add(Kind.BREAK)
        parser.EndDoctypeDeclHandler = lambda *_: self._add(Kind.BREAK)
        parser.XmlDeclHandler = lambda *_: self._add(Kind.BREAK)
        parser.CommentHandler = lambda _: self._add(Kind.EMPTY)
        parser.ProcessingInstructionHandler = lambda *_: self._add(Kind.EMPTY)
        parser.DefaultHandler = lambda _: self._add(Kind.BREAK)
        try:
            parser.Parse(self._data, True)
        except expat.ExpatError as error:
            place = offsets[min(max(parser.ErrorByteIndex, 0), len(data))]
            column = place - self._source.rfind("\n", 0, place)
            raise UserInputError(
                f"XML must be well-formed: {expat.ErrorString(error.code)} "
                f"(line {error.lineno}, column {column})"
            ) from error
        self._tokens = [(offsets[start], kind, element) for start, kind, element in self._tokens]

    def _add(self, kind: Kind) -> None:
        start = self._parser.CurrentByteIndex
        is_same = bool(self._tokens) and self._tokens[-1][1:] == (kind, self._open[-1])
        if not (self._is_in_cdata or (is_same and kind in (Kind.TEXT, Kind.BREAK))):
            self._tokens.append((start, kind, self._open[-1]))

    def _start(self, name: str, _: object) -> None:
        parent = self._open[-1]
        self._elements[parent].num_children += 1
        self._open.append(len(self._elements))
        self._elements.append(_Element(name, parent))
        self._add(Kind.OPEN)

    def _end(self, _: str) -> None:
        start, kind, element = self._tokens[-1]
        index = self._parser.CurrentByteIndex  # of `<a/>`, its end
        if kind is Kind.OPEN and self._data[index - 2 : index] == b"/>":
            self._tokens[-1] = (start, Kind.EMPTY, element)
        else:
            self._add(Kind.CLOSE)
        self._open.pop()

    def _text(self, text: str) -> None:
        if not text.isspace():
            self._elements[self._open[-1]].has_text = True
        self._add(Kind.TEXT)

    def _start_cdata(self) -> None:
        self._add(Kind.KEPT)
        self._is_in_cdata = True

    def _end_cdata(self) -> None:
        self._is_in_cdata = False

    def _find_blocks(self) -> None:
        """Set which elements are blocks.

        In XHTML, the name decides. Otherwise, an element is part of the text around it if its
        parent contains text or no other element, and if no block is in it.
        """
        is_html = len(self._elements) > 1 and _local(self._elements[1].name) == "html"
        for element in reversed(self._elements[1:]):
            name, parent = _local(element.name), self._elements[element.parent]
            is_alone = parent.num_children == 1
            if is_html:
                element.is_block |= name in html.BLOCKS
            else:
                element.is_block |= not (parent.has_text or is_alone)
                parent.is_block |= element.is_block
            element.is_block |= name in _NO_TEXT

    def _events_of(self, kind: Kind, start: int, end: int, element: _Element) -> Iterator[Event]:
        if kind is Kind.TEXT:
            yield from html.text_events(self._source, start, end, _decoded, _is_unknown)
        elif kind is Kind.KEPT:
            text = self._source[start + len("<![CDATA[") : end - len("]]>")].strip()
            yield Event(Kind.KEPT if text else Kind.EMPTY, start, end, text)
        elif kind is Kind.BREAK or self._source[start + 1] in "!?":
            yield Event(kind, start, end)
        elif kind is Kind.CLOSE:
            yield Event(kind, start, end, name=element.name, is_block=element.is_block)
        else:
            yield from self._tag(kind, start, end, element)

    def _tag(self, kind: Kind, start: int, end: int, element: _Element) -> Iterator[Event]:
        name = _local(element.name)
        attributes: list[Event] = []
        is_kept = name in html.KEPT | _NO_TEXT
        first = start + 1 + len(element.name)
        for match in html.ATTRIBUTE.finditer(self._source, first, end - 1):
            key = _local(match["name"])
            if key == "translate":
                is_kept |= match["value"][1:-1].strip() == "no"
            if key in html.TEXT_ATTRIBUTES:
                attributes += html.attribute_events(match, _decoded, _is_unknown)
        separator = " " if name == "br" and kind is Kind.EMPTY else ""
        yield Event(kind, start, end, separator, element.name, element.is_block, is_kept)
        if not (is_kept and kind is Kind.EMPTY):
            yield from attributes


def _local(name: str) -> str:
    """Return a name without its prefix."""
    return name.rpartition(":")[2]


def _decoded(text: str) -> str:
    return _KNOWN.sub(_character, text)


def _character(match: re.Match[str]) -> str:
    name, decimal, hexadecimal = match.groups()
    return _ENTITIES[name] if name else chr(int(decimal or hexadecimal, 10 if decimal else 16))


def _is_unknown(reference: str) -> bool:
    return reference[1:-1] not in _ENTITIES


def _encode_text(text: str) -> list[str]:
    return html.encode_text(_FORBIDDEN.sub("\ufffd", text))


def _encode_attribute(text: str, quote: str) -> list[str]:
    return html.encode_attribute(_FORBIDDEN.sub("\ufffd", text), quote)
