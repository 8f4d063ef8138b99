"""Convert sentences to batches of ids, and back.

Very long sentences are tokenized in blocks, and only as far as needed. Unused text is not
tokenized.
"""

import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Literal, Protocol, get_args

from keras_transformer.argument_checks import checked_strings
from keras_transformer.errors import LongSentenceWarning, SentenceTooLong, UserInputError
from keras_transformer.files import is_quiet

if TYPE_CHECKING:
    from keras_transformer.text.sentencepiece_tokenizer import SentencePieceTokenizer

# Memory use grows quadratically with length, so sentences longer than this get smaller batches.
FULL_BATCH_LENGTH = 256


def batches_by_length(
    indices: Iterable[int],
    lengths: Sequence[int] | Mapping[int, int],
    batch_size: int,
    progress: bool = False,
    *,
    full_length: int | None = None,
) -> Iterator[list[int]]:
    """Split sentence indices into batches of similar lengths, longest first.

    A batch contains at most `batch_size` sentences, or fewer if they are longer than `full_length`
    (default: `FULL_BATCH_LENGTH`).

    Example:
        >>> list(batches_by_length(range(4), [3, 9, 4, 8], batch_size=2))
        [[1, 3], [2, 0]]
    """
    indices = sorted(indices, key=lambda i: -lengths[i])
    batches = _batches(indices, lengths, batch_size, full_length or FULL_BATCH_LENGTH)
    if not progress or is_quiet():
        yield from batches
        return
    from tqdm import tqdm  # imported here to keep `--help` fast

    with tqdm(total=len(indices), unit=" sentences") as bar:
        for batch in batches:
            yield batch
            bar.update(len(batch))


def _batches(
    indices: list[int], lengths: Sequence[int] | Mapping[int, int], batch_size: int, full: int
) -> Iterator[list[int]]:
    start = 0
    while start < len(indices):
        size = max(1, batch_size * full // max(lengths[indices[start]], full))
        yield indices[start : start + size]
        start += size


LongSentences = Literal["refuse", "cut", "split"]
LONG_SENTENCES: tuple[str, ...] = get_args(LongSentences)

_BLOCK_CHARACTERS = 1 << 14
_MOST_SHOWN = 20


class Encoder(Protocol):
    """Protocol for tokenizers that convert sentences to lists of ids."""

    def encode(self, sentences: list[str], /) -> list[list[int]]: ...


class WordEncoder(Encoder, Protocol):
    """Protocol for tokenizers that also provide the ids that start a word."""

    @property
    def word_starts(self) -> Sequence[int]: ...


CUT = "its end is cut off"  # outcome for a long sentence, used in warnings


def encode_sentences(
    name: str,
    sentences: Iterable[str],
    tokenizer: Encoder,
    max_length: int,
    long_sentences: LongSentences = "refuse",
    indices: Sequence[int] | None = None,
) -> list[list[int]]:
    """Return the ids of sentences, without BOS or EOS.

    A sentence with more than `max_length` tokens, including EOS, raises `SentenceTooLong` or, with
    `long_sentences="cut"`, is truncated with a warning. `name` is the argument name for errors, and
    `indices` the index of each sentence in this argument if several sentences can belong to an
    item.
    """
    sentences = checked_strings(name, sentences)
    rows = _rows_up_to(max_length, sentences, tokenizer)
    for i, (sentence, row) in enumerate(zip(sentences, rows, strict=True)):
        if len(row) < max_length:
            continue
        index = i if indices is None else indices[i]
        if long_sentences == "refuse":
            raise SentenceTooLong(name, index, length_fault(sentence, max_length))
        warn_of_length(name, index, sentence, max_length, CUT)
        rows[i] = row[: max_length - 1]
    return rows


def split_sentences(
    name: str,
    sentences: Iterable[str],
    tokenizer: WordEncoder,
    max_length: int,
    language: str,
    indices: Sequence[int] | None = None,
) -> list[list[list[int]]]:
    """Return a list of id rows for each sentence; long sentences are split, with a warning.

    Long inputs are split at sentence boundaries, using the abbreviation rules of `language`, a code
    such as "en". Parts that are still too long are split between words, and overlong words are
    split between tokens.
    """
    sentences = checked_strings(name, sentences)
    parts = [[row] for row in _rows_up_to(max_length, sentences, tokenizer)]
    for i, sentence in enumerate(sentences):
        if len(parts[i][0]) >= max_length:
            parts[i] = _parts(sentence, tokenizer, max_length - 1, language)
            index = i if indices is None else indices[i]
            warn_of_length(name, index, sentence, max_length, f"it is split into {len(parts[i]):,}")
    return parts


def is_longer(sentence: str, tokenizer: Encoder, max_length: int) -> bool:
    """Return whether a sentence has more than `max_length` tokens, including EOS."""
    return len(_rows_up_to(max_length, [sentence], tokenizer)[0]) >= max_length


def _rows_up_to(length: int, sentences: list[str], tokenizer: Encoder) -> list[list[int]]:
    """Return rows of ids. Ids beyond the first `length` ids of a row may be missing."""
    rows = iter(tokenizer.encode([each for each in sentences if len(each) <= _BLOCK_CHARACTERS]))
    return [
        next(rows)
        if len(sentence) <= _BLOCK_CHARACTERS
        else _row_up_to(length, sentence, tokenizer)
        for sentence in sentences
    ]


def _row_up_to(length: int, sentence: str, tokenizer: Encoder) -> list[int]:
    row: list[int] = []
    for block in _blocks(sentence):
        row += tokenizer.encode([block])[0]
        if len(row) >= length:
            break
    return row


def _blocks(text: str) -> Iterator[str]:
    """Split a text between words into blocks with the same tokens as the full text."""
    start = 0
    while len(text) - start > _BLOCK_CHARACTERS:
        end = text.rfind(" ", start, start + _BLOCK_CHARACTERS)
        is_word = end <= start  # a word longer than a block
        end = start + _BLOCK_CHARACTERS if is_word else end
        yield text[start:end]
        start = end if is_word else end + 1
    yield text[start:]


def _parts(sentence: str, tokenizer: WordEncoder, most: int, language: str) -> list[list[int]]:
    """Return rows of at most `most` ids for the sentences in a text."""
    word_starts = frozenset(tokenizer.word_starts)
    rows: list[list[int]] = []
    for one in split_at_sentence_ends(sentence, language):
        for block in _blocks(one.strip()):
            rows += _chunks(tokenizer.encode([block])[0], most, word_starts)
    return rows


def _chunks(row: list[int], most: int, word_starts: Set[int]) -> Iterator[list[int]]:
    """Yield parts of at most `most` ids, splitting the row at word boundaries where possible."""
    start = 0
    while len(row) - start > most:
        ends = range(start + most, start, -1)
        end = next((end for end in ends if row[end] in word_starts), start + most)
        yield row[start:end]
        start = end
    if row[start:]:
        yield row[start:]


def length_fault(sentence: str, max_length: int) -> str:
    """Return the error description of an overlong sentence, for `SentenceTooLong`."""
    return f"has more than {max_length:,} tokens, end of sentence counted: {sentence[:40]!r}..."


def warn_of_length(name: str, index: int, sentence: str, max_length: int, outcome: str) -> None:
    """Warn that a sentence has more than `max_length` tokens, and report the `outcome`."""
    fault = f"{length_fault(sentence, max_length)} ({outcome})"
    warnings.warn(LongSentenceWarning(name, index, fault), stacklevel=2)


# The library fails on a capital letter, one of these spaces and a period: it assumes single bytes.
_WIDE_SPACE = re.compile(r"[^\S\x00-\x7f]")


def split_at_sentence_ends(text: str, language: str) -> list[str]:
    """Split a text after each sentence.

    Args:
        text: the text, without lone surrogates.
        language: language code, such as "en"; determines the abbreviations that do not end a
            sentence. Languages without specific rules use general rules.

    Returns:
        The sentences, each with the white space that follows it; an item may be only white space.
        Concatenated, the items equal the text.

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
    """Prepends the tag of a target language to rows of ids without a tag.

    Args:
        tokenizer: source tokenizer.
        language: target language code, such as "deu"; None adds no tag.

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
                shown = ", ".join(languages[:_MOST_SHOWN]) or "no language tags"
                more = f" and {len(languages) - _MOST_SHOWN:,} more"
                raise UserInputError(
                    "`target_language` must be a code that the model has a tag for. It has "
                    f"{shown}{more if len(languages) > _MOST_SHOWN else ''}. "
                    f"Received: target_language={language}"
                )
            self._tag = vocabulary.ids[f">>{language}<<"]

    @property
    def length(self) -> int:
        """Number of tokens to reserve for the tag."""
        return 1 if self._tags else 0

    def encode(
        self,
        name: str,
        sentences: Iterable[str],
        max_length: int,
        long_sentences: LongSentences,
        indices: Sequence[int] | None = None,
    ) -> list[list[int]]:
        """Like `encode_sentences`, but adds tags and reserves space for them."""
        most = max_length - self.length
        rows = encode_sentences(name, sentences, self._tokenizer, most, long_sentences, indices)
        return [self.before([row])[0] for row in rows]

    def is_put_before(self, sentence: str, row: Sequence[int]) -> bool:
        """Return whether a row from `encode` starts with a tag that was added to its sentence."""
        if not row or row[0] not in self._tags:
            return False
        (tag,) = self._tokenizer.pieces(row[:1])
        return not sentence.lstrip().startswith(tag)

    def before(self, rows: Sequence[list[int]]) -> list[list[int]]:
        """Prepend the tag of the first part, or the selected tag, to all parts of a sentence."""
        if not self._tags or not rows or not rows[0]:
            return list(rows)
        tag = rows[0][0] if rows[0][0] in self._tags else self._tag
        return [row if tag is None or row[:1] == [tag] else [tag, *row] for row in rows]
