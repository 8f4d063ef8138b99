"""Links between the words of a text and its translation, by attention."""

import unicodedata
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from keras_transformer.text.markup.projection import Link
from keras_transformer.text.markup.segments import Span
from keras_transformer.text.words import word_pattern

_LONG = 4  # letters of a word that is the same in two languages only if it has the same meaning


class Side(NamedTuple):
    """A text, the characters of each of its tokens, and of the words that stand for variables."""

    text: str
    tokens: Sequence[Span]
    stand_ins: Sequence[Span]


def word_links(source: Side, target: Side, weights: np.ndarray) -> list[Link]:
    """Link each word of a translation with at most one word of the source.

    Stand-ins, and long words or numbers that are in both texts once, are linked with themselves.
    Punctuation is linked only with the same punctuation. A word that attends most to punctuation, a
    stand-in or the end of the sentence has no link. The attention to a hyphen or apostrophe within
    a word is that of the letters around it.

    Args:
        source, target: the texts.
        weights: the attention from each target token to each source token and EOS, float
            (target tokens, source tokens + 1).
    """
    source_words, target_words = _words(source.text), _words(target.text)
    if not source_words or not target_words:
        return []
    attention = _by_word(source_words, source.tokens, weights[:, :-1].T).T
    attention = _by_word(target_words, target.tokens, np.hstack([attention, weights[:, -1:]]))
    source_texts = [source.text[slice(*word)] for word in source_words]
    for hyphen in _within_words(source_words, source_texts):
        attention[:, [hyphen - 1, hyphen + 1]] += attention[:, [hyphen]] / 2
        attention[:, hyphen] = 0
    target_texts = [target.text[slice(*word)] for word in target_words]
    stand_ins = dict(zip(target.stand_ins, source.stand_ins, strict=True))
    is_free = np.array([word not in source.stand_ins for word in source_words])
    is_word = is_free & ~np.array([_is_punctuation(text) for text in source_texts])
    links = []
    for number, (word, text) in enumerate(zip(target_words, target_texts, strict=True)):
        if word in stand_ins:
            links.append((*stand_ins[word], *word))
            continue
        is_same = np.array([other == text for other in source_texts]) & is_free
        is_copied = _is_copied(text) and is_same.sum() == target_texts.count(text) == 1
        if is_copied or _is_punctuation(text):
            best = int(np.where(is_same, attention[number, :-1], -1).argmax())
            is_linked = is_same[best]
        else:
            best = int(attention[number].argmax())
            is_linked = best < len(is_word) and is_word[best]
        if is_linked:
            links.append((*source_words[best], *word))
    return links


def _words(text: str) -> list[Span]:
    return [match.span() for match in word_pattern().finditer(text)]


def _within_words(words: Sequence[Span], texts: Sequence[str]) -> Iterator[int]:
    """Yield the numbers of the hyphens and the like that touch letters or digits on both sides."""
    for number in range(1, len(words) - 1):
        (_, before), (start, end), (after, _) = words[number - 1 : number + 2]
        is_hyphen = [_is_punctuation(text) for text in texts[number - 1 : number + 2]]
        if before == start and end == after and is_hyphen == [False, True, False]:
            yield number


def _by_word(words: Sequence[Span], tokens: Sequence[Span], values: np.ndarray) -> np.ndarray:
    """Add up rows of tokens: (tokens, n) to (words, n). Several words share a row."""
    added = np.zeros((len(words), values.shape[1]))
    place = 0
    for (start, end), row in zip(tokens, values, strict=True):
        end = max(end, start + 1)  # a byte within a character is an empty span
        while place and words[place - 1][1] > start:
            place -= 1
        while place < len(words) and words[place][1] <= start:
            place += 1
        number, shares = place, []
        while number < len(words) and words[number][0] < end:
            shares.append(min(end, words[number][1]) - max(start, words[number][0]))
            number += 1
        for word, share in enumerate(shares, start=place):
            added[word] += row * (share / sum(shares))
    return added


def _is_punctuation(text: str) -> bool:
    return all(unicodedata.category(character)[0] == "P" for character in text)


def _is_copied(text: str) -> bool:
    return len(text) >= _LONG or any(map(str.isdigit, text))
