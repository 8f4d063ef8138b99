"""The text of documents with markup, in parts that a model translates."""

import bisect
import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from keras_transformer.errors import UserInputError
from keras_transformer.text.alignment import Alignment
from keras_transformer.text.icu_messages import TextsToTranslate
from keras_transformer.text.markup.marked_document import (
    MarkedDocument,
    Translation,
    parse_markup,
)
from keras_transformer.text.markup.projection import Link
from keras_transformer.text.markup.segments import Segment, Span
from keras_transformer.text.markup.word_links import Side, word_links
from keras_transformer.text.sentence_encoding import (
    is_longer,
    split_at_sentence_ends,
    warn_of_length,
)
from keras_transformer.text.sentencepiece_tokenizer import SentencePieceTokenizer
from keras_transformer.text.stand_ins import KeptSentence, RestoredText, StandIns, with_texts
from keras_transformer.text.variables import has_words
from keras_transformer.types import MarkupKind

MOST_VARIABLES = 16  # of a part, because each of them makes the search slower


@dataclasses.dataclass(frozen=True)
class PartLimits:
    """What a model can translate at once.

    Args:
        source_tokenizer, tokenizer: the tokenizers of the model.
        stand_ins: words that stand for variables.
        max_length: maximum number of tokens, including EOS.
        most_variables: maximum number of variables.
        splits: whether sentences that are too long are split.
        language: language code that determines where sentences end.
    """

    source_tokenizer: SentencePieceTokenizer
    tokenizer: SentencePieceTokenizer
    stand_ins: StandIns
    max_length: int
    most_variables: int
    splits: bool
    language: str


class _Part(NamedTuple):
    """A sentence of a text, or a part of it.

    Args:
        start, end: its characters.
        variables: its variables.
        gap: what separates its translation from the one before.
        kept: what the model translates. None: the part stays as it is.
    """

    start: int
    end: int
    variables: Sequence[Span]
    gap: str
    kept: KeptSentence | None = None


class _Text(NamedTuple):
    """A text and its parts."""

    text: str
    variables: Sequence[Span]
    parts: list[_Part]


class _Segment(NamedTuple):
    """A segment and its texts, which are several for an ICU message."""

    segment: Segment
    content: TextsToTranslate
    texts: list[_Text]


_Results = Iterator[tuple[RestoredText, Alignment | None]]


class MarkedUpTexts:
    """The sentences of documents, whose translations take their place.

    A sentence that has more variables than the model has words for is divided into parts, and so is
    one that is too long if `limits.splits`. Sentences without a word stay as they are.

    Args:
        documents: the documents.
        kind: their markup.
        keep: as in `Translator.translate`.
        limits: what the model can translate.

    Attributes:
        kept: the sentences to translate.
        documents: for each sentence, the index of its document.

    Raises:
        UserInputError: see `parse_markup`.
    """

    def __init__(
        self, documents: Sequence[str], kind: MarkupKind, keep: str, limits: PartLimits
    ) -> None:
        self._limits = limits
        self._documents: list[tuple[MarkedDocument, list[_Segment]]] = []
        self.kept: list[KeptSentence] = []
        self.documents: list[int] = []
        self._has_tags: list[bool] = []
        for index, text in enumerate(documents):
            document = parse_markup(text, kind)
            segments = [self._segment(index, segment, keep) for segment in document.segments]
            self._documents.append((document, segments))

    def to_align(self, outputs: Sequence[RestoredText]) -> dict[int, tuple[str, str]]:
        """Return the sentences and outputs that `render` needs alignments of, by their index.

        Words are in place of the variables. Outputs that the model cannot read are left out.

        Args:
            outputs: the translation of each of `kept`.
        """
        found = {
            index: (kept.text, _with_words(kept, output)[0])
            for index, (kept, output) in enumerate(zip(self.kept, outputs, strict=True))
            if self._has_tags[index] and output.text
        }
        tokenizer, length = self._limits.tokenizer, self._limits.max_length
        return {i: pair for i, pair in found.items() if not is_longer(pair[1], tokenizer, length)}

    def render(
        self, outputs: Sequence[RestoredText], alignments: Mapping[int, Alignment]
    ) -> list[str]:
        """Return the documents with translations.

        Args:
            outputs: the translation of each of `kept`.
            alignments: the alignments of the pairs from `to_align`.
        """
        results = ((output, alignments.get(index)) for index, output in enumerate(outputs))
        return [
            document.render([self._translation(each, results) for each in segments])
            for document, segments in self._documents
        ]

    def _segment(self, document: int, segment: Segment, keep: str) -> _Segment:
        fixed = [(start, end) for start, end, _ in segment.protected]
        texts = TextsToTranslate(segment.text, keep, fixed, may_be_message=not segment.tags)
        found = []
        for text, variables in zip(texts.texts, texts.variables, strict=True):
            parts = list(self._parts(document, text, variables))
            kept = [part.kept for part in parts if part.kept is not None]
            self.kept += kept
            self.documents += [document] * len(kept)
            self._has_tags += [bool(segment.tags)] * len(kept)
            found.append(_Text(text, variables, parts))
        return _Segment(segment, texts, found)

    def _parts(self, document: int, text: str, variables: Sequence[Span]) -> Iterator[_Part]:
        """Yield the parts of a text from left to right."""
        # Sentences and words do not end within a variable.
        masked, _ = with_texts(text, variables, ["X" * (end - start) for start, end in variables])
        masked = re.sub(r"\s", " ", masked)
        stack: list[_Part] = []
        place = 0
        for sentence in split_at_sentence_ends(masked, self._limits.language):
            stack.append(_part(masked, place, place + len(sentence), variables, " "))
            place += len(sentence)
        stack.reverse()
        reported = 0
        while stack:
            part = stack.pop()
            if not has_words(text, part.variables, part.start, part.end):
                yield part
                continue
            kept = self._kept(text, part)
            is_long = kept is not None and self._is_long(kept.text)
            if kept is not None and is_long and part.end > reported:
                reported = part.end
                warn_of_length(
                    "sentences", document, kept.text, self._limits.max_length, "it is split"
                )
            if kept is not None and not is_long:
                yield part._replace(kept=kept)
                continue
            cut = _cut(masked, part, at_variable=kept is None)
            if not part.start < cut < part.end:  # a character
                yield part
                continue
            gap = " " if " " in masked[cut - 1 : cut + 1] else ""
            stack.append(_part(masked, cut, part.end, part.variables, gap))
            stack.append(_part(masked, part.start, cut, part.variables, part.gap))

    def _kept(self, text: str, part: _Part) -> KeptSentence | None:
        """Return the sentence of a part for the model, or None if it has too many variables."""
        if len(part.variables) > self._limits.most_variables:
            return None
        plain, _, spans = _plain(text, part)
        try:
            return self._limits.stand_ins.replace(plain, spans)
        except UserInputError:  # the vocabulary has too few words
            return None

    def _is_long(self, text: str) -> bool:
        limits = self._limits
        return limits.splits and is_longer(text, limits.source_tokenizer, limits.max_length)

    def _translation(self, found: _Segment, results: _Results) -> Translation:
        """Return the translation of a segment. Its sentences are the next of the results."""
        texts = [self._text_translation(text, results) for text in found.texts]
        if found.content.message is not None:
            return Translation(found.content.join(each.text for each in texts))
        if not texts:  # all of it is kept
            kept = [(start, end) for start, end, _ in found.segment.protected]
            return Translation(found.segment.text, kept=kept)
        (text,), (translation,) = found.texts, texts
        starts = [start for start, _ in text.variables]
        kept = []
        for start, end, _ in found.segment.protected:
            index = bisect.bisect_right(starts, start) - 1  # of the variable that it is in
            first = translation.kept[index][0] + start - starts[index]
            kept.append((first, first + end - start))
        return translation._replace(kept=kept)

    def _text_translation(self, text: _Text, results: _Results) -> Translation:
        """Return the translation of a text, in which all variables are kept."""
        result = ""
        links: list[Link] = []
        kept: list[Span] = []
        for part in text.parts:
            output, alignment = _unchanged(text.text, part), None
            if part.kept is not None:
                output, alignment = next(results)
            result += part.gap if result and output.text else ""
            first = len(result)
            result += output.text
            places = [output.places[i] for i in range(len(part.variables))]
            kept += [(start + first, end + first) for start, end in places]
            if part.kept is None:
                links.append((part.start, part.end, first, len(result)))
            elif alignment is not None:
                for start, end, begin, stop in self._links(text.text, part, output, alignment):
                    links.append((start, end, begin + first, stop + first))
        return Translation(result, links, kept)

    def _links(
        self, text: str, part: _Part, output: RestoredText, alignment: Alignment
    ) -> Iterator[Link]:
        """Yield the links between a text and the output of one of its parts."""
        kept = part.kept
        assert kept is not None
        target, places = _with_words(kept, output)
        sides = (
            Side(kept.text, self._limits.source_tokenizer.spans(kept.text), kept.places),
            Side(target, self._limits.tokenizer.spans(target), places),
        )
        expected = len(sides[1].tokens), len(sides[0].tokens) + 1
        if alignment.weights.shape != expected:  # the model has not read all of a text
            return
        _, origins, spans = _plain(text, part)
        outputs = [output.places[i] for i in range(len(places))]
        for start, end, begin, stop in word_links(*sides, alignment.weights):
            start, end = _mapped((start, end), kept.places, spans)
            begin, stop = _mapped((begin, stop), places, outputs)
            yield origins[start], origins[end - 1] + 1, begin, stop


def _part(masked: str, start: int, end: int, variables: Sequence[Span], gap: str) -> _Part:
    """Return a part of a text without white space at its ends, with those of its variables."""
    while start < end and masked[start] == " ":
        start += 1
    while start < end and masked[end - 1] == " ":
        end -= 1
    first = bisect.bisect_left(variables, (start,))
    last = bisect.bisect_left(variables, (end,))
    return _Part(start, end, variables[first:last], gap)


def _cut(masked: str, part: _Part, at_variable: bool) -> int:
    """Return where to divide a part: near its middle, or next to the one of its variables."""
    start, end, variables = part.start, part.end, part.variables
    middle = (start + end) // 2
    if at_variable:
        first, last = variables[len(variables) // 2]
        middle = first if first > start else last
    left = masked.rfind(" ", start, middle + 1)
    right = masked.find(" ", middle, end)
    spaces = [place for place in (left, right) if place > start]
    if spaces:
        return min(spaces, key=lambda place: abs(place - middle))
    for first, last in variables:
        if first < middle < last:
            return first if first > start else last
    return middle


def _plain(text: str, part: _Part) -> tuple[str, list[int], list[Span]]:
    """Return a part with single spaces.

    Returns:
        `(plain, origins, spans)`: the part, for each of its characters the index in the text, and
        where its variables are.
    """
    characters: list[str] = []
    origins: list[int] = []
    spans = []
    place = part.start
    for start, end in (*part.variables, (part.end, part.end)):
        for index in range(place, start):
            if not (text[index].isspace() and characters and characters[-1] == " "):
                characters.append(" " if text[index].isspace() else text[index])
                origins.append(index)
        if start < end:
            spans.append((len(characters), len(characters) + end - start))
            characters += text[start:end]
            origins += range(start, end)
        place = end
    return "".join(characters), origins, spans


def _unchanged(text: str, part: _Part) -> RestoredText:
    """Return a part as its own translation."""
    places = [(start - part.start, end - part.start) for start, end in part.variables]
    return RestoredText(text[part.start : part.end], dict(enumerate(places)))


def _with_words(kept: KeptSentence, output: RestoredText) -> tuple[str, list[Span]]:
    """Return an output with words in place of its variables, and the place of each of them."""
    order = sorted(output.places, key=output.places.__getitem__)
    spans = [output.places[index] for index in order]
    text, found = with_texts(output.text, spans, [kept.stand_ins[index].word for index in order])
    places = dict(zip(order, found, strict=True))
    return text, [places[index] for index in range(len(places))]


def _mapped(span: Span, places: Sequence[Span], others: Sequence[Span]) -> Span:
    """Return where a word is in a text with others in place of some of its spans."""
    shift, last = 0, -1
    for place, other in zip(places, others, strict=True):
        if place == span:
            return other
        if last < place[1] <= span[0]:
            shift, last = other[1] - place[1], place[1]
    return span[0] + shift, span[1] + shift
