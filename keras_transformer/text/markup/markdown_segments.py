"""Events of Markdown (CommonMark with GitHub's tables, strikethrough and math)."""

import bisect
import dataclasses
import functools
import html
import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from keras_transformer.installation import requiring
from keras_transformer.text.markup.html_segments import (
    encode_attribute,
    encode_text,
    html_events,
    text_events,
)
from keras_transformer.text.markup.segments import (
    Event,
    Kind,
    Segment,
    Span,
    character_offsets,
    resolve,
    segments_of,
)

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

_EMPHASIS = ("emphasis", "strong_emphasis", "strikethrough")
_LINKS = ("inline_link", "full_reference_link")
_BY_LABEL = ("shortcut_link", "collapsed_reference_link")
_KEPT = ("code_span", "latex_block", "uri_autolink", "email_autolink")
_BLOCKS = ("inline", "pipe_table_cell", "html_block")
# The parser needs memory that grows with the square of the delimiters that do not match.
_MOST_DELIMITERS = 1_000
_MOST_AROUND = 1_000  # characters next to a translation that decide how it is read
_DELIMITERS = re.compile(rb"[*_~\[`$]")
# Other dollar signs, as in "$5 or $6", are text.
_MATH = re.compile(rb"(?<![\\$])(?:\$\$[^$]+\$\$|\$(?=\S)[^$]+(?<=\S)\$(?!\d))|(\$)")
_FOOTNOTE = re.compile(rb"\[\^[^\]\s]+\]:[ \t]*")
_PUNCTUATION = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
_ENTITY = re.compile(r"&(?:#\d+|#[xX][0-9a-fA-F]+|\w+);")
_BLOCK_START = re.compile(
    r"[ \t]*(?:(#{1,6}(?=\s|$)|[-+*_](?=\s|$)|>|=+[ \t]*$|-+[ \t]*$)|\d{1,9}([.)])(?=\s|$))",
    re.MULTILINE,
)
_ESCAPE = re.compile(r"\\([!-/:-@\[-`{-~])")
_ESCAPES = re.compile(rb"\\[!-/:-@\[-`{-~]")
_SURROGATE = re.compile(b"\xed[\xa0-\xbf][\x80-\xbf]")
_IN_ATTRIBUTES = {"\\": "&#92;", "|": "&#124;", "(": "&#40;", ")": "&#41;", "\n": " "}


class _Block(NamedTuple):
    """A part of a document with text of its own: `data[start:end]`.

    Args:
        kind: type of its node.
        start, end: its bytes.
        is_line: whether other blocks could start in its lines, as in a paragraph.
        continuations: the bytes that continue the blocks around it, such as `> `, in its lines.
    """

    kind: str
    start: int
    end: int
    is_line: bool
    continuations: list[Span]


class _Region(NamedTuple):
    """Text and the nodes in it."""

    start: int
    end: int
    children: "Sequence[Node]"


class _Style(NamedTuple):
    """How text is written in a block.

    Args:
        is_line: whether other blocks could start in its lines.
        is_cell: whether it is in a table.
        continuations: what each line of the source after the first starts with.
        is_start: whether it starts where the block does.
        has_links: whether brackets can be links.
    """

    is_line: bool
    is_cell: bool
    continuations: Sequence[str]
    is_start: bool = True
    has_links: bool = True


def markdown_segments(source: str) -> list[Segment]:
    """Return the segments of a Markdown document.

    Raises:
        UserInputError: tree-sitter is not installed.
    """
    return _Reader(source).segments()


@functools.cache
def _parsers() -> "tuple[Parser, Parser]":
    """Return the parsers for blocks, and for the text in them."""
    with requiring("markup", "Markdown needs tree-sitter"):
        import tree_sitter
        import tree_sitter_markdown

    blocks = tree_sitter.Language(tree_sitter_markdown.language())
    inline = tree_sitter.Language(tree_sitter_markdown.inline_language())
    return tree_sitter.Parser(blocks), tree_sitter.Parser(inline)


class _Reader:
    def __init__(self, source: str) -> None:
        self._source = source
        data = source.encode("utf-8", "surrogatepass")
        self._offsets = character_offsets(data)
        # The parser needs a line break at the end, and does not accept these characters.
        self._data = _SURROGATE.sub("\ufffd".encode(), data).replace(b"\0", b"x") + b"\n"
        self._labels: set[str] = set()

    def segments(self) -> list[Segment]:
        # The grammar for blocks takes an escape or an entity after a bracket as an error.
        tree = _parsers()[0].parse(_ESCAPES.sub(b"xx", self._data).replace(b"&", b"x"))
        blocks = list(self._blocks(tree.root_node))
        events: list[Event] = []
        for block in blocks:
            start = self._offsets[block.start]
            events.append(Event(Kind.BREAK, start, start))
            events += self._events(block)
        starts = [self._offsets[block.start] for block in blocks]
        styles = [self._style(block) for block in blocks]
        segments: list[Segment] = []
        for group in resolve(events, len(self._source)):
            index = bisect.bisect_right(starts, group[0].start) - 1
            block = blocks[index]
            if block.kind == "html_block":
                segments += segments_of([group], encode_text, encode_attribute)
            else:
                segments += self._segments_of(group, block, styles[index])
        return segments

    def _segments_of(self, group: list[Event], block: _Block, style: _Style) -> Iterator[Segment]:
        has_links = bool(self._labels) or any(event.name in _LINKS for event in group)
        style = style._replace(has_links=has_links)
        encode = functools.partial(_encode, style=style)
        first, last = self._offsets[block.start], self._offsets[block.end]
        for segment in segments_of([group], encode, _encode_attribute):
            if not segment.is_attribute:
                start, end = segment.source
                around = (
                    self._source[max(first, start - _MOST_AROUND) : start],
                    self._source[end : min(last, end + _MOST_AROUND)],
                )
                is_read = functools.partial(_is_read, around=around)
                # White space next to a delimiter would change its meaning.
                segment = dataclasses.replace(segment, before="", after="", is_read=is_read)
                if segment.source[0] > first:
                    encode = functools.partial(_encode, style=style._replace(is_start=False))
                    segment = dataclasses.replace(segment, encode=encode)
            yield segment

    def _blocks(self, root: "Node") -> Iterator[_Block]:
        """Yield the blocks that have text, and note the labels of links."""
        cursor = root.walk()
        parents = [""]
        is_down = True
        while True:
            node = cursor.node
            if is_down and node is not None and node.type in _BLOCKS:
                yield self._block(node, parents[-1])
            elif is_down and node is not None and node.type == "link_reference_definition":
                for child in node.children:
                    if child.type == "link_label":
                        self._labels.add(_label(self._data[child.start_byte : child.end_byte]))
                    elif child.type == "link_title":
                        yield _Block(child.type, child.start_byte, child.end_byte, False, [])
            elif is_down and node is not None and cursor.goto_first_child():
                parents.append(node.type)
                continue
            is_down = cursor.goto_next_sibling()
            if not is_down:
                parents.pop()
                if not cursor.goto_parent():
                    return

    def _block(self, node: "Node", parent: str) -> _Block:
        """Return the block of a node, without what opens a footnote or closes a heading."""
        start, end = node.start_byte, min(node.end_byte, len(self._data) - 1)
        if parent == "atx_heading":
            end = start + _length_of_heading(self._data[start:end])
        elif footnote := _FOOTNOTE.match(self._data, start, end):
            start = footnote.end()
        continuations = [
            (child.start_byte, child.end_byte)
            for child in node.children
            if child.type == "block_continuation" and child.start_byte < child.end_byte
        ]
        return _Block(node.type, start, end, parent == "paragraph", continuations)

    def _style(self, block: _Block) -> _Style:
        """Return how the text of a block is written."""
        lines = []
        ends = dict(block.continuations)
        place = self._data.find(b"\n", block.start, block.end) + 1
        while place and block.kind == "inline":
            lines.append(self._data[place : ends.get(place, place)].decode())
            place = self._data.find(b"\n", place, block.end) + 1
        return _Style(block.is_line, block.kind == "pipe_table_cell", lines)

    def _events(self, block: _Block) -> Iterator[Event]:
        """Yield the events of a block."""
        if block.kind == "html_block":
            if all(self._data[start:end].isspace() for start, end in block.continuations):
                span = self._offsets[block.start], self._offsets[block.end]
                yield from html_events(self._source, *span)
            return
        data = self._data[block.start : block.end]
        offsets = self._offsets[block.start : block.end + 1]
        if block.kind == "link_title":
            yield from _attribute(self._source, offsets[0], offsets[-1])
        elif sum(1 for _ in _DELIMITERS.finditer(data)) <= _MOST_DELIMITERS:
            skipped = [
                (start - block.start, end - block.start) for start, end in block.continuations
            ]
            yield from _InlineReader(self._source, data, offsets, skipped, self._labels).events()


class _InlineReader:
    """Reads the text of a block.

    Args:
        source: source of the document.
        data: bytes of the block.
        offsets: index in `source` of the character at each byte.
        skipped: the bytes that are not part of the text.
        labels: the labels of links.
    """

    def __init__(
        self,
        source: str,
        data: bytes,
        offsets: Sequence[int],
        skipped: Sequence[Span],
        labels: set[str],
    ) -> None:
        self._source = source
        self._data = data
        self._offsets = offsets
        self._skipped = dict(skipped)
        self._starts = [start for start, _ in skipped]
        self._labels = labels

    def events(self) -> Iterator[Event]:
        """Yield the events, without recursion."""
        root = _parsed(self._data, list(self._skipped.items()))
        stack: list[Event | _Region] = [_Region(0, len(self._data), root.children)]
        while stack:
            item = stack.pop()
            if isinstance(item, Event):
                yield item
                continue
            found: list[Event | _Region] = []
            start = item.start
            for child in item.children:
                parts = self._node(child)
                if parts is not None:
                    found += self._text(start, child.start_byte)
                    found += parts
                    start = child.end_byte
            found += self._text(start, item.end)
            stack += reversed(found)

    def _node(self, node: "Node") -> "list[Event | _Region] | None":
        """Return the parts of a node, or None if it is text."""
        start, end, kind = node.start_byte, node.end_byte, node.type
        if kind in _EMPHASIS:
            width = 2 if kind == "strong_emphasis" else 1  # delimiters on each side
            inner = node.children[width:-width]
            first, last = node.children[width - 1].end_byte, node.children[-width].start_byte
            return self._pair(node, _Region(first, last, inner))
        if kind in (*_LINKS, *_BY_LABEL):
            return self._link(node)
        if kind == "image":
            return [self._event(Kind.EMPTY, start, end, name=kind), *self._attributes(node)]
        if kind in _KEPT:
            content = "".join(event.text for event in self._text(start, end))
            content = " ".join(content.strip("`$" if kind[0] in "cl" else "<>").split())
            return [self._event(Kind.KEPT if content else Kind.EMPTY, start, end, content)]
        if kind == "html_tag":
            return list(html_events(self._source, self._offsets[start], self._offsets[end]))
        if kind == "hard_line_break":
            return [self._event(Kind.EMPTY, start, self._skipped.get(end, end), " ", "br")]
        if kind in ("entity_reference", "numeric_character_reference"):
            return [self._event(Kind.TEXT, start, end, html.unescape(self._raw(start, end)))]
        if kind == "backslash_escape":
            return [self._event(Kind.TEXT, start, end, self._raw(start + 1, end))]
        return None

    def _link(self, node: "Node") -> "list[Event | _Region] | None":
        start, end = node.start_byte, node.end_byte
        label = _label(self._data[start:end].removesuffix(b"[]"))
        if node.type in _BY_LABEL and label[:1] in ("^", "!"):  # a footnote, a GitHub alert
            return [self._event(Kind.EMPTY, start, end)]
        if node.type in _BY_LABEL and label not in self._labels:
            return None  # brackets
        text = next((child for child in node.children if child.type == "link_text"), None)
        if text is None:
            return [self._event(Kind.EMPTY, start, end), *self._attributes(node)]
        if node.type in _BY_LABEL:
            content = self._raw(text.start_byte, text.end_byte)
            return [self._event(Kind.KEPT, start, end, " ".join(content.split()))]
        region = _Region(text.start_byte, text.end_byte, text.children)
        return [*self._pair(node, region), *self._attributes(node)]

    def _pair(self, node: "Node", region: _Region) -> "list[Event | _Region]":
        opening = self._event(Kind.OPEN, node.start_byte, region.start, name=node.type)
        closing = self._event(Kind.CLOSE, region.end, node.end_byte, name=node.type)
        return [opening, region, closing]

    def _attributes(self, node: "Node") -> Iterator[Event]:
        """Yield the events of the description of an image, and of a title."""
        kinds = [child.type for child in node.children]
        for child in node.children:
            start, end = self._offsets[child.start_byte], self._offsets[child.end_byte]
            is_plain = not any(each.is_named for each in child.children)
            is_label = not {"(", "link_label"} & {*kinds}
            if child.type == "link_title":
                yield from _attribute(self._source, start, end)
            elif child.type == "image_description" and is_plain and not is_label:
                yield from _attribute(self._source, start - 1, end + 1)

    def _text(self, start: int, end: int) -> Iterator[Event]:
        """Yield the events of text, without what continues the blocks around it."""
        place = bisect.bisect_left(self._starts, start)
        while place < len(self._starts) and self._starts[place] < end:
            yield from self._words(start, self._starts[place])
            start = self._skipped[self._starts[place]]
            place += 1
        yield from self._words(start, end)

    def _words(self, start: int, end: int) -> Iterator[Event]:
        if start < end:
            span = self._offsets[start], self._offsets[end]
            yield from text_events(self._source, *span, str, lambda _: False)

    def _event(self, kind: Kind, start: int, end: int, text: str = "", name: str = "") -> Event:
        return Event(kind, self._offsets[start], self._offsets[end], text, name)

    def _raw(self, start: int, end: int) -> str:
        return self._source[self._offsets[start] : self._offsets[end]]


def _parsed(data: bytes, skipped: Sequence[Span]) -> "Node":
    """Return the tree of the text in a block."""
    import tree_sitter

    masked = _MATH.sub(lambda match: b"%" if match[1] else match[0], data)
    ranges, start = [], 0
    for first, last in (*skipped, (len(data), len(data))):
        ranges.append(tree_sitter.Range((0, start), (0, first), start, first))
        start = last
    parser = _parsers()[1]
    parser.included_ranges = ranges
    return parser.parse(masked).root_node


def _length_of_heading(data: bytes) -> int:
    """Return the length of a heading without the number signs that may close it."""
    text = data.rstrip(b" \t").rstrip(b"#")
    return len(text.rstrip(b" \t")) if text.endswith((b" ", b"\t")) else len(data)


def _attribute(source: str, start: int, end: int) -> Iterator[Event]:
    """Yield the event of a text in quotes, parentheses or brackets."""
    text = source[start + 1 : end - 1]
    if any(map(str.isalnum, text)) and text == text.strip() and "\n" not in text:
        part = Event(Kind.TEXT, start + 1, end - 1, html.unescape(_ESCAPE.sub(r"\1", text)))
        yield part._replace(kind=Kind.ATTRIBUTE, text="", quote=source[end - 1], parts=(part,))


def _label(data: bytes) -> str:
    """Return the label in brackets, without differences that do not matter."""
    return " ".join(data.decode().strip()[1:-1].casefold().split())


def _encode_attribute(text: str, quote: str) -> list[str]:
    if quote == "]":
        return _encode(text, _Style(False, True, ()))
    escapes = {**_IN_ATTRIBUTES, '"': "&quot;", "'": "&#39;"}
    characters = encode_attribute(text, '"')
    return [escapes.get(character, character) for character in characters]


def _encode(text: str, style: _Style) -> list[str]:
    """Spell the characters of text, with a backslash where they would have a meaning."""
    starts = {match.start(match.lastindex or 0) for match in _block_starts(text, style)}
    is_math = any(match[1] is None for match in _MATH.finditer(text.encode("utf-8", "replace")))
    characters = []
    num_lines = 0
    for place, character in enumerate(text):
        around = text[place - 1 : place] or " ", text[place + 1 : place + 2] or " "
        if character == "\n":
            num_lines += 1
            lines = style.continuations
            character = f"\n{lines[min(num_lines, len(lines)) - 1]}" if lines else " "
        elif character == "&":
            character = "&amp;" if _ENTITY.match(text, place) else "&"
        elif place in starts or _has_meaning(character, *around, style, is_math):
            character = f"\\{character}"
        characters.append(character)
    return characters


def _block_starts(text: str, style: _Style) -> Iterator[re.Match[str]]:
    """Yield what would start a block at the start of a line."""
    place = 0 if style.is_start else text.find("\n") + 1
    while style.is_line and (place or style.is_start):
        if match := _BLOCK_START.match(text, place):
            yield match
        place = text.find("\n", place) + 1
        if not place:
            return


def _has_meaning(character: str, before: str, after: str, style: _Style, is_math: bool) -> bool:
    """Return whether a character between two others is markup."""
    if character in "*~":
        return not (before.isspace() and after.isspace())
    if character == "_":
        is_in_word = before.isalnum() and after.isalnum()
        return not (is_in_word or (before.isspace() and after.isspace()))
    if character == "\\":
        return after in _PUNCTUATION or after.isspace()
    if character == "<":
        return after.isalpha() or after in "/!?"
    if character in "[]":
        return style.has_links or after in "^!([:"
    if character == "!":
        return style.has_links and after.isalnum()
    if character == "#":
        return not style.is_line and after == " "
    return (
        character == "`" or (character == "|" and style.is_cell) or (character == "$" and is_math)
    )


def _is_read(text: str, tags: Sequence[tuple[str, int, int]], around: tuple[str, str]) -> bool:
    """Return whether the parser finds the tags, and no others, in a text between two others."""
    before, after = around
    expected = sorted(tag for tag in tags if tag[0] in (*_EMPHASIS, *_LINKS))
    if not _DELIMITERS.search(text.encode("utf-8", "replace")):
        return not expected
    found, outer = _found(text, before, after)
    return (
        found == expected
        and outer == _found("x", before, after)[1]
        and all(_is_flanking(text, *tag) for tag in expected)
    )


def _found(text: str, before: str, after: str) -> tuple[list[tuple[str, int, int]], list[str]]:
    """Return the tags in a text, and the names of those that are not in it."""
    data = f"{before}{text}{after}".encode("utf-8", "replace")
    offsets = character_offsets(data)
    found, outer = [], []
    stack = [_parsed(data, ())]
    while stack:
        node = stack.pop()
        if node.type in (*_EMPHASIS, *_LINKS):
            start, end = (offsets[byte] - len(before) for byte in node.byte_range)
            if start >= 0 and end <= len(text):
                found.append((node.type, start, end))
            else:
                outer.append(node.type)
        if node.type != "image":
            stack += node.children
    return sorted(found), sorted(outer)


def _is_flanking(text: str, name: str, start: int, end: int) -> bool:
    """Return whether delimiters are where CommonMark finds them, next to any punctuation."""
    if name not in _EMPHASIS:
        return True
    width = 2 if name == "strong_emphasis" else 1
    sides = (
        (text[start + width], text[start - 1 : start]),
        (text[end - width - 1], text[end : end + 1]),
    )
    return all(
        not _is_punctuation(inner) or not outer.strip() or _is_punctuation(outer)
        for inner, outer in sides
    )


def _is_punctuation(character: str) -> bool:
    return unicodedata.category(character)[0] in "PS"
