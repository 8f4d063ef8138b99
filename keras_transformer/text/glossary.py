"""Terms that translations must contain."""

import collections
import functools
import hashlib
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Self

from keras_transformer.errors import UserInputError, refuse
from keras_transformer.text.sentencepiece_tokenizer import SentencePieceTokenizer
from keras_transformer.text.text_lines import text_lines
from keras_transformer.text.words import forms_of, word_pattern
from keras_transformer.types import TERM_TAGS, PathLike, TermForm

IGNORE_CASE = "i"


class Occurrence(NamedTuple):
    """A source term in a sentence.

    Args:
        start, end: the characters of the term, `sentence[start:end]`.
        targets: its translations, each of which is right.
    """

    start: int
    end: int
    targets: tuple[str, ...]


class Glossary:
    """Source terms with their translations, for `Translator.translate(..., glossary=...)`.

    A translation contains a target of each source term that occurs in its sentence, once for each
    occurrence. Source terms are whole words. If source terms overlap, the longest is used.

    Args:
        terms: for each source term, its target, or a list of targets, for example inflected forms.
            The model chooses among them.
        ignore_case: the source terms that are also found in other letter case.

    Raises:
        UserInputError: a source term or a target is blank, or a source term has no target.

    Example:
        >>> glossary = Glossary({"power supply": ["Netzteil", "Netzteile"], "power": "Leistung"})
        >>> for term in glossary.find("The power supply has enough power."):
        ...     print(term)
        Occurrence(start=4, end=16, targets=('Netzteil', 'Netzteile'))
        Occurrence(start=28, end=33, targets=('Leistung',))
    """

    def __init__(
        self, terms: Mapping[str, str | Sequence[str]], ignore_case: Iterable[str] = ()
    ) -> None:
        self._exact: dict[str, tuple[str, ...]] = {}
        self._folded: dict[str, tuple[str, ...]] = {}
        self._lengths: set[int] = set()
        ignored = set(ignore_case)
        for source, targets in terms.items():
            targets = [targets] if isinstance(targets, str) else list(targets)
            self._add(source, targets, source in ignored)

    @classmethod
    def load(cls, path: PathLike) -> Self:
        """Read a UTF-8 file with a term per line: `source TAB target`, or with `.gz`.

        Several targets are separated by `|`. A third column `i` ignores the letter case of the
        source term. Lines with the same source term add targets. Blank lines are skipped.

        Raises:
            UserInputError: the file is missing or damaged, or a line is not a term.
        """
        glossary = cls({})
        for number, line in enumerate(text_lines(path), start=1):
            if not line.strip():
                continue
            source, *columns = line.split("\t")
            if not 1 <= len(columns) <= 2 or columns[1:] not in ([], [""], [IGNORE_CASE]):
                raise UserInputError(
                    f"{path}, line {number}: a term is `source TAB target`, with a third column "
                    f"`{IGNORE_CASE}` to ignore case. Received: {line[:80]!r}"
                )
            try:
                glossary._add(source, columns[0].split("|"), columns[1:] == [IGNORE_CASE])
            except UserInputError as error:
                raise UserInputError(f"{path}, line {number}: {error}") from error
        return glossary

    def __len__(self) -> int:
        return len(self._exact) + len(self._folded)

    def find(self, sentence: str) -> list[Occurrence]:
        """Return the terms in a sentence from left to right, the longest at each place."""
        words = [match.span() for match in word_pattern().finditer(sentence)]
        found, place = [], 0
        while place < len(words):
            occurrence, number = self._longest_at(sentence, words, place)
            if occurrence is not None:
                found.append(occurrence)
            place += number
        return found

    def find_in_pair(self, sentence: str, translation: str) -> list[Occurrence]:
        """Return the terms in a sentence with a target in its translation, each with this target.

        A target is in the translation if it starts at the start of a word; its last word may be
        longer, such as an inflected form. Targets that end with a word, and longer targets, come
        first.

        Example:
            >>> glossary = Glossary({"house": ["Haus", "Hütte"], "roof": "Dach"})
            >>> glossary.find_in_pair("the roof of the house", "der First der Hütten")
            [Occurrence(start=16, end=21, targets=('Hütte',))]
        """
        found = [(term, _target_in(term.targets, translation)) for term in self.find(sentence)]
        return [term._replace(targets=(target,)) for term, target in found if target is not None]

    def inline(self, sentence: str) -> str:
        """Return a sentence with the first target of each term after the term, in tags.

        Models that were trained with `train --glossary-tags` read these tags. A sentence that
        contains a tag already stays as it is.

        Raises:
            UserInputError: a target contains a tag.

        Example:
            >>> Glossary({"house": ["Haus", "Hütte"]}).inline("The house.")
            'The<term> house<trans> Haus</term>.'

        Reference:
            Dinu et al., "Training Neural Machine Translation to Apply Terminology Constraints",
            2019. The tags take the place of its source factors.
        """
        return with_targets(sentence, self.find(sentence))

    @property
    def fingerprint(self) -> str:
        """A string that identifies the terms and their targets."""
        terms = sorted(self._exact.items()), sorted(self._folded.items())
        return hashlib.sha256(repr(terms).encode()).hexdigest()

    def _longest_at(
        self, sentence: str, words: Sequence[tuple[int, int]], place: int
    ) -> tuple[Occurrence | None, int]:
        """Return the longest term that starts with a word, or None, and its number of words."""
        start = words[place][0]
        for number in sorted(self._lengths, reverse=True):
            if place + number > len(words):
                continue
            end = words[place + number - 1][1]
            key = _key(sentence[start:end])
            targets = self._exact.get(key) or self._folded.get(key.casefold())
            if targets:
                return Occurrence(start, end, targets), number
        return None, 1

    def _add(self, source: str, targets: Sequence[str], ignores_case: bool) -> None:
        key = _key(source)
        targets = [" ".join(target.split()) for target in targets]
        if not key:
            refuse("source", "be a term", source)
        if not targets or not all(targets):
            refuse("target", "be one or more terms, separated by `|`", "|".join(targets))
        terms, key = (self._folded, key.casefold()) if ignores_case else (self._exact, key)
        terms[key] = tuple(dict.fromkeys((*terms.get(key, ()), *targets)))
        self._lengths.add(sum(1 for _ in word_pattern().finditer(key)))


class TermEncoder:
    """Converts the terms of sentences to tokens that a model can produce.

    Args:
        tokenizer: target tokenizer.
    """

    def __init__(self, tokenizer: SentencePieceTokenizer) -> None:
        self._tokenizer = tokenizer
        self._forms = functools.cache(functools.partial(forms_of, tokenizer))

    def forms(self, sentence: str, glossary: Glossary) -> list[TermForm]:
        """Return the forms of the terms in a sentence.

        Raises:
            UserInputError: the vocabulary cannot write any target of a term.
        """
        counts = collections.Counter(found.targets for found in glossary.find(sentence))
        # A form that several terms share goes to the term with the fewest forms.
        forms = []
        for term, targets in enumerate(sorted(counts, key=len)):
            rows = [row for target in targets for row in self._forms(target)]
            if not rows:
                raise UserInputError(
                    "The model's vocabulary must have the characters of a term. "
                    f"Received: {' | '.join(targets)!r}"
                )
            forms += [TermForm(term, counts[targets], False, row) for row in rows]
        return forms


def _key(text: str) -> str:
    """Return a term without differences that do not matter: spaces and equivalent characters."""
    return " ".join(unicodedata.normalize("NFC", text).split())


def with_targets(sentence: str, terms: Iterable[Occurrence]) -> str:
    """Return a sentence with the first targets of some of its terms; see `Glossary.inline`."""
    if any(tag in sentence for tag in TERM_TAGS):
        return sentence
    term_tag, target_tag, end_tag = TERM_TAGS
    text, last = "", 0
    for start, end, (target, *_) in terms:
        if any(tag in target for tag in TERM_TAGS):
            refuse("target", f"have none of the tags {' '.join(TERM_TAGS)}", target)
        before = sentence[last:start]
        # Each word stays after its space, so that it has the same tokens as without tags.
        words = before.rstrip()
        space = before[len(words) :] if start > 0 else " "
        text += f"{words}{term_tag}{space}{sentence[start:end]}{target_tag} {target}{end_tag}"
        last = end
    return text + sentence[last:]


def _target_in(targets: Sequence[str], translation: str) -> str | None:
    """Return the target that a translation contains; see `Glossary.find_in_pair`."""
    translation = _key(translation)
    words = [match.span() for match in word_pattern().finditer(translation)]
    starts, ends = ({word[side] for word in words} for side in (0, 1))
    found = []
    for target in targets:
        key = _key(target)
        place = translation.find(key)
        while place >= 0:
            if place in starts:
                found.append((place + len(key) in ends, len(key), target))
            place = translation.find(key, place + 1)
    return max(found)[-1] if found else None


class TermTags:
    """Puts the targets of terms into the source sentences of a model; see `Glossary.inline`.

    Args:
        tokenizer: source tokenizer.

    Raises:
        UserInputError: the vocabulary does not have the tags.
    """

    def __init__(self, tokenizer: SentencePieceTokenizer) -> None:
        rows = tokenizer.encode(TERM_TAGS)
        missing = [
            tag
            for tag, row in zip(TERM_TAGS, rows, strict=True)
            if tag not in tokenizer.pieces(row)
        ]
        if missing:
            raise UserInputError(
                f"`glossary_tags` needs a source vocabulary with the tags {' '.join(TERM_TAGS)}, "
                "such as that of a new run of `train --glossary-tags`. "
                f"Received: a vocabulary without {' '.join(missing)}"
            )
        self._tokenizer = tokenizer
        self._check = functools.cache(self._check_target)

    def put_in(self, sentence: str, glossary: Glossary) -> str:
        """Return a sentence with the targets of its terms.

        Raises:
            UserInputError: the vocabulary cannot write a target, or a target contains a tag.
        """
        terms = glossary.find(sentence)
        for term in terms:
            self._check(term.targets[0])
        return with_targets(sentence, terms)

    def _check_target(self, target: str) -> None:
        if self._tokenizer.special_tokens.unk in self._tokenizer.encode([target])[0]:
            raise UserInputError(
                "The source vocabulary must have the characters of a target with `glossary_tags`. "
                f"Received: {target!r}"
            )


Terms = Glossary | Mapping[str, str | Sequence[str]]


def glossary_of(glossary: Terms) -> Glossary:
    """Return a glossary for a glossary or a mapping of terms."""
    if isinstance(glossary, Glossary):
        return glossary
    if not isinstance(glossary, Mapping):
        refuse("glossary", "be a `Glossary` or a dict of terms", glossary)
    return Glossary(glossary)
