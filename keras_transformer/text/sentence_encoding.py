"""Sentences as batches of ids, and ids as sentences.

Very long sentences are tokenized in blocks, only as far as needed, so that unused text costs
nothing.
"""

import dataclasses
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set, Sized
from typing import TYPE_CHECKING, Literal, Protocol, get_args

import numpy as np
from tqdm import tqdm

from keras_transformer.argument_checks import check_no_string
from keras_transformer.errors import LongSentenceWarning, SentenceTooLong, UserInputError, reject
from keras_transformer.files import is_quiet
from keras_transformer.text.subword_sampler import SPACE

if TYPE_CHECKING:
    from keras_transformer.text.sentencepiece_tokenizer import SentencePieceTokenizer

# Memory grows with the square of the length: sentences longer than this get smaller batches.
FULL_BATCH_LENGTH = 256


def checked_strings(name: str, strings: Iterable[str]) -> list[str]:
    """Return the strings in a form that UTF-8 can encode; other values raise a ValueError."""
    check_no_string(name, strings)
    strings = list(strings)
    for i, string in enumerate(strings):
        if not isinstance(string, str):
            reject(f"`{name}` must be a list of strings", **{f"{name}[{i}]": string})
    return [without_surrogates(string) for string in strings]


def without_surrogates(string: str) -> str:
    """Return the string with U+FFFD in place of lone surrogates, which UTF-8 cannot encode."""
    try:
        string.encode()
    except UnicodeEncodeError:
        return string.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return string


def check_equal_numbers(name: str, rows: Sized, other_name: str, other_rows: Sized) -> None:
    """Require that two arguments have the same length."""
    if len(rows) != len(other_rows):
        raise UserInputError(
            f"`{other_name}` must be as many as `{name}`. "
            f"Received: {len(rows)} {name}, {len(other_rows)} {other_name}"
        )


def batches_by_length(
    indices: Iterable[int],
    lengths: Sequence[int] | Mapping[int, int],
    batch_size: int,
    progress: bool = False,
    *,
    full_length: int | None = None,
) -> Iterator[list[int]]:
    """Split indices of sentences into batches of similar lengths, longest first.

    A batch has at most `batch_size` sentences, or fewer if they are longer than `full_length`
    (default: `FULL_BATCH_LENGTH`).

    Example:
        >>> list(batches_by_length(range(4), [3, 9, 4, 8], batch_size=2))
        [[1, 3], [2, 0]]
    """
    indices = sorted(indices, key=lambda i: -lengths[i])
    full_length = FULL_BATCH_LENGTH if full_length is None else full_length
    with tqdm(total=len(indices), unit=" sentences", disable=is_quiet() or not progress) as bar:
        start = 0
        while start < len(indices):
            longest = max(lengths[indices[start]], full_length)
            size = max(1, batch_size * full_length // longest)
            yield indices[start : start + size]
            start += size
            bar.update(min(size, bar.total - bar.n))


LongSentences = Literal["refuse", "cut", "split"]
LONG_SENTENCES: tuple[str, ...] = get_args(LongSentences)

_BLOCK_CHARACTERS = 1 << 14
_MOST_SHOWN = 20


class Encoder(Protocol):
    """A tokenizer that turns sentences into lists of ids."""

    def encode(self, sentences: list[str], /) -> list[list[int]]: ...


class WordEncoder(Encoder, Protocol):
    """A tokenizer that knows which ids begin a word."""

    @property
    def word_starts(self) -> Sequence[int]: ...


CUT = "its end is cut off"  # what happens to a long sentence


def encode_sentences(
    name: str,
    sentences: Iterable[str],
    tokenizer: Encoder,
    max_length: int,
    long_sentences: LongSentences = "refuse",
) -> list[list[int]]:
    """Return the ids of sentences, without begin or end of sentence.

    Sentences with more than `max_length` tokens, counting EOS, are refused (`SentenceTooLong`) or,
    with `long_sentences="cut"`, cut with a warning. `name` is the argument name for errors.
    """
    sentences = checked_strings(name, sentences)
    rows = _rows_up_to(max_length, sentences, tokenizer)
    for i, (sentence, row) in enumerate(zip(sentences, rows, strict=True)):
        if len(row) < max_length:
            continue
        if long_sentences == "refuse":
            raise SentenceTooLong(name, i, length_fault(sentence, max_length))
        warn_of_length(name, i, sentence, max_length, CUT)
        rows[i] = row[: max_length - 1]
    return rows


def split_sentences(
    name: str,
    sentences: Iterable[str],
    tokenizer: WordEncoder,
    max_length: int,
    language: str,
) -> list[list[list[int]]]:
    """Return a list of rows of ids for each sentence; long sentences are split, with a warning.

    A long sentence is split at the sentence ends within it, using the abbreviation rules of
    `language`, a code such as "en". Parts that are still too long are split between words, and
    words that are too long between tokens.
    """
    sentences = checked_strings(name, sentences)
    parts = [[row] for row in _rows_up_to(max_length, sentences, tokenizer)]
    for i, sentence in enumerate(sentences):
        if len(parts[i][0]) >= max_length:
            parts[i] = _parts(sentence, tokenizer, max_length - 1, language)
            warn_of_length(name, i, sentence, max_length, f"it is split into {len(parts[i]):,}")
    return parts


def _rows_up_to(length: int, sentences: list[str], tokenizer: Encoder) -> list[list[int]]:
    """Rows of ids; ids beyond the first `length` of a row may be missing."""
    is_short = [len(sentence) <= _BLOCK_CHARACTERS for sentence in sentences]
    short = [sentence for sentence, short in zip(sentences, is_short, strict=True) if short]
    rows = iter(tokenizer.encode(short))
    return [
        next(rows) if short else _row_up_to(length, sentence, tokenizer)
        for sentence, short in zip(sentences, is_short, strict=True)
    ]


def _row_up_to(length: int, sentence: str, tokenizer: Encoder) -> list[int]:
    row: list[int] = []
    for block in _blocks(sentence):
        row += tokenizer.encode([block])[0]
        if len(row) >= length:
            break
    return row


def _blocks(text: str) -> Iterator[str]:
    """Split a text between words, so that the blocks have the same tokens as the whole text."""
    start = 0
    while len(text) - start > _BLOCK_CHARACTERS:
        end = text.rfind(" ", start, start + _BLOCK_CHARACTERS)
        is_word = end <= start  # a word longer than a block
        end = start + _BLOCK_CHARACTERS if is_word else end
        yield text[start:end]
        start = end if is_word else end + 1
    yield text[start:]


def _parts(sentence: str, tokenizer: WordEncoder, most: int, language: str) -> list[list[int]]:
    """Rows of at most `most` ids for the sentences in a text."""
    word_starts = frozenset(tokenizer.word_starts)
    rows: list[list[int]] = []
    for one in split_at_sentence_ends(sentence, language):
        for block in _blocks(one.strip()):
            rows += _chunks(tokenizer.encode([block])[0], most, word_starts)
    return rows


def _chunks(row: list[int], most: int, word_starts: Set[int]) -> Iterator[list[int]]:
    """Yield parts of a row with at most `most` ids each, split before words if possible."""
    start = 0
    while len(row) - start > most:
        ends = range(start + most, start, -1)
        end = next((end for end in ends if row[end] in word_starts), start + most)
        yield row[start:end]
        start = end
    if row[start:]:
        yield row[start:]


def length_fault(sentence: str, max_length: int) -> str:
    """What `SentenceTooLong` says about a sentence."""
    return f"has more than {max_length:,} tokens, end of sentence counted: {sentence[:40]!r}..."


def warn_of_length(name: str, index: int, sentence: str, max_length: int, outcome: str) -> None:
    """Warn that a sentence has more than `max_length` tokens, and say what happens to it."""
    fault = f"{length_fault(sentence, max_length)} ({outcome})"
    warnings.warn(LongSentenceWarning(name, index, fault), stacklevel=2)


# The library fails on a capital, one of these and a full stop: it takes each for one byte.
_WIDE_SPACE = re.compile(r"[^\S\x00-\x7f]")


def split_at_sentence_ends(text: str, language: str) -> list[str]:
    """Split a text after each of its sentences.

    Args:
        text: the text, without lone surrogates.
        language: code of the language, such as "en", whose abbreviations do not end a sentence.
            Languages without their own rules use general rules.

    Returns:
        The sentences, each with the white space after it, or white space alone. Joined, they give
        the text.

    Example:
        >>> split_at_sentence_ends("Mr. Smith came.  He left.", "en")
        ['Mr. Smith came.  ', 'He left.']
    """
    import sentencex  # rarely needed

    pieces, start = [], 0
    for piece in sentencex.segment(language, _WIDE_SPACE.sub(" ", text)):
        pieces.append(text[start : start + len(piece)])
        start += len(piece)
    return pieces


class TargetTags:
    """Puts the tag of a target language in front of rows of ids that have no tag.

    Args:
        tokenizer: tokenizer of the source.
        language: code of the target language, such as "deu"; None means that no tag is added.

    Raises:
        UserInputError: the vocabulary has no tag for this language.
    """

    def __init__(self, tokenizer: "SentencePieceTokenizer", language: str | None) -> None:
        self._tokenizer = tokenizer
        vocabulary, languages = tokenizer.vocabulary, tokenizer.target_languages
        self._tags = {vocabulary.ids[tag] for tag in vocabulary.tags} if vocabulary else set()
        self._tag: int | None = None
        if language is not None:
            if vocabulary is None or language not in languages:
                shown = ", ".join(languages[:_MOST_SHOWN]) or "no tags of languages"
                more = f" and {len(languages) - _MOST_SHOWN:,} more"
                raise UserInputError(
                    "`target_language` must be a code that the model has a tag for. It has "
                    f"{shown}{more if len(languages) > _MOST_SHOWN else ''}. "
                    f"Received: target_language={language}"
                )
            self._tag = vocabulary.ids[f">>{language}<<"]

    @property
    def length(self) -> int:
        """Number of tokens to leave room for."""
        return 1 if self._tags else 0

    def encode(
        self, name: str, sentences: Iterable[str], max_length: int, long_sentences: LongSentences
    ) -> list[list[int]]:
        """Like `encode_sentences`, with tags and with room for them."""
        most = max_length - self.length
        rows = encode_sentences(name, sentences, self._tokenizer, most, long_sentences)
        return [self.before([row])[0] for row in rows]

    def is_put_before(self, sentence: str, row: Sequence[int]) -> bool:
        """Whether a row from `encode` begins with a tag that its sentence lacks."""
        if not row or row[0] not in self._tags:
            return False
        (tag,) = self._tokenizer.pieces(row[:1])
        return not sentence.lstrip().startswith(tag)

    def before(self, rows: Sequence[list[int]]) -> list[list[int]]:
        """The parts of a sentence, each with the tag of the first part or the chosen tag."""
        if not self._tags or not rows or not rows[0]:
            return list(rows)
        tag = rows[0][0] if rows[0][0] in self._tags else self._tag
        return [row if tag is None or row[:1] == [tag] else [tag, *row] for row in rows]


@dataclasses.dataclass(frozen=True, eq=False)
class Alignment:
    """The cross-attention of one sentence pair.

    Args:
        source_pieces: pieces of the source; the last piece is the end of sentence.
        target_pieces: pieces of the target, without end of sentence.
        weights: float array (target pieces, source pieces): the attention that each target piece
            pays to each source piece. Every row sums to 1.

    Example:
        >>> weights = np.array([[0.1, 0.7, 0.2], [0.6, 0.3, 0.1]])
        >>> alignment = Alignment(["▁ja", "▁nein", "</s>"], ["▁no", "▁yes"], weights)
        >>> alignment.word_pairs(), alignment.pharaoh()
        ([(0, 1), (1, 0)], '0-1 1-0')
        >>> alignment.words()
        (['ja', 'nein'], ['no', 'yes'])
    """

    source_pieces: list[str]
    target_pieces: list[str]
    weights: np.ndarray

    def word_pairs(self) -> list[tuple[int, int]]:
        """The source word for every target word.

        Words are separated by white space in the text after the tokenizer's normalization. A target
        word is aligned with the source word of the largest weight: the mean over the target word's
        pieces, summed over the source word's pieces. The end of the source sentence is ignored.

        Returns:
            Sorted pairs `(source word, target word)`, both counted from 0; empty if a side has no
            words.
        """
        from_source = _membership(self.source_pieces[:-1])  # (source words, source pieces)
        from_target = _membership(self.target_pieces)  # (target words, target pieces)
        if not len(from_source):
            return []
        pieces = from_target.sum(axis=1, keepdims=True)  # in each target word
        weights = from_target @ self.weights[:, :-1] @ from_source.T / pieces
        return sorted((int(source), target) for target, source in enumerate(weights.argmax(axis=1)))

    def words(self) -> tuple[list[str], list[str]]:
        """The words of the source and the target, which `word_pairs` refers to by number.

        Words are spelled like their pieces, including bytes such as `<0xF0>`.
        """
        return _spelled(self.source_pieces[:-1]), _spelled(self.target_pieces)

    def pharaoh(self) -> str:
        """The word pairs in the Pharaoh format, such as `"0-0 2-1"`."""
        return " ".join(f"{source}-{target}" for source, target in self.word_pairs())


def _membership(pieces: Sequence[str]) -> np.ndarray:
    """Which pieces belong to which word: float array (words, pieces) of zeros and ones."""
    words = _word_pieces(pieces)
    membership = np.zeros((len(words), len(pieces)))
    for row, indices in zip(membership, words, strict=True):
        row[indices] = 1
    return membership


def _word_pieces(pieces: Sequence[str]) -> list[list[int]]:
    """The indices of the pieces of each word."""
    words: list[list[int]] = []
    is_open = False
    for index, piece in enumerate(pieces):
        is_open = is_open and not piece.startswith(SPACE)
        if piece.strip(SPACE):  # a piece of only spaces belongs to no word
            if not is_open:
                words.append([])
            words[-1].append(index)
            is_open = not piece.endswith(SPACE)
    return words


def _spelled(pieces: Sequence[str]) -> list[str]:
    """The words that pieces spell."""
    words = _word_pieces(pieces)
    return ["".join(pieces[i] for i in indices).strip(SPACE) for indices in words]
