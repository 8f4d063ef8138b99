"""Translations of segments with alignments written by hand."""

import re

from keras_transformer.text.markup import Translation, parse_markup


def words(text):
    """The spans of the words between white space."""
    return [match.span() for match in re.finditer(r"\S+", text)]


def aligned(segment, target, pairs):
    """A translation with an alignment of words such as `"0-1 1-0"`."""
    source_words, target_words = words(segment.text), words(target)
    links = []
    for pair in pairs.split():
        source, other = map(int, pair.split("-"))
        links.append((*source_words[source], *target_words[other]))
    kept, place = [], 0
    for protected in segment.protected:
        text = segment.text[protected.start : protected.end]
        place = target.index(text, place)
        kept.append((place, place + len(text)))
        place += len(text)
    return Translation(target, links, kept)


def translated(source, target, pairs, kind="html"):
    """Translate a document with one segment."""
    document = parse_markup(source, kind)
    (segment,) = document.segments
    return document.render([aligned(segment, target, pairs)])


def kept_places(segment):
    return [(start, end) for start, end, _ in segment.protected]


def unchanged(source, kind):
    """Translate each segment by itself."""
    document = parse_markup(source, kind)
    return document.render(
        [Translation(segment.text, (), kept_places(segment)) for segment in document.segments]
    )


def replaced(source, kind, suffix=""):
    """Translate words by themselves and append a suffix, so that all tags are placed again."""
    document = parse_markup(source, kind)
    return document.render(
        [
            Translation(
                segment.text + suffix,
                [(*span, *span) for span in words(segment.text)],
                kept_places(segment),
            )
            for segment in document.segments
        ]
    )


def texts(source, kind="html"):
    """The texts of the segments."""
    return [segment.text for segment in parse_markup(source, kind).segments]


def protected(source, kind="html"):
    """The protected texts of the segments."""
    return [
        segment.text[start:end]
        for segment in parse_markup(source, kind).segments
        for start, end, _ in segment.protected
    ]
