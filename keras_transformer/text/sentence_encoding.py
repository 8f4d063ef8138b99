"""From strings to rows of ids; what is longer than a model should read is refused, cut or split.

A sentence of millions of characters is tokenised in blocks, and no further than its limit needs:
its cost does not grow with what nobody reads.
"""

import warnings

from keras_transformer.errors import LongSentenceWarning, SentenceTooLong
from keras_transformer.text.sentence_batches import checked_strings

LONG_SENTENCES = ("refuse", "cut", "split")

_BLOCK_CHARACTERS = 1 << 14


def encode_sentences(name, sentences, tokenizer, max_length, long_sentences="refuse"):
    """The ids of sentences, lists of int without begin or end of sentence.

    `max_length` counts EOS, although no row has it. What becomes of longer ones `long_sentences`
    says: "refuse" (`SentenceTooLong`), or "cut", which is warned of. `name` is for errors.
    """
    sentences = checked_strings(name, sentences)
    rows = _rows_up_to(max_length, sentences, tokenizer)
    for i, (sentence, row) in enumerate(zip(sentences, rows, strict=True)):
        if len(row) < max_length:
            continue
        if long_sentences == "refuse":
            raise SentenceTooLong(name, i, _fault(sentence, max_length))
        _warn(name, i, sentence, max_length, "its end is cut off")
        rows[i] = row[: max_length - 1]
    return rows


def split_sentences(name, sentences, tokenizer, max_length, language):
    """The ids of sentences, those that are too long in several rows, which is warned of.

    Such a one is split where a sentence within it ends, by the rules for abbreviations of
    `language`, a code such as "en". What is too long even so is parted between words, and a word
    that is, between tokens. Returns a list of rows for each sentence.
    """
    sentences = checked_strings(name, sentences)
    parts = [[row] for row in _rows_up_to(max_length, sentences, tokenizer)]
    for i, sentence in enumerate(sentences):
        if len(parts[i][0]) >= max_length:
            parts[i] = _parts(sentence, tokenizer, max_length - 1, language)
            _warn(name, i, sentence, max_length, f"it is split into {len(parts[i]):,}")
    return parts


def _rows_up_to(length, sentences, tokenizer):
    """Rows of ids; of a sentence with more than `length`, at least so many of the first."""
    is_short = [len(sentence) <= _BLOCK_CHARACTERS for sentence in sentences]
    short = [sentence for sentence, short in zip(sentences, is_short, strict=True) if short]
    rows = iter(tokenizer.encode(short))
    return [
        next(rows) if short else _row_up_to(length, sentence, tokenizer)
        for sentence, short in zip(sentences, is_short, strict=True)
    ]


def _row_up_to(length, sentence, tokenizer):
    row = []
    for block in _blocks(sentence):
        row += tokenizer.encode([block])[0]
        if len(row) >= length:
            break
    return row


def _blocks(text):
    """Parts of a text that a tokenizer turns into the tokens of the whole: parted between words."""
    start = 0
    while len(text) - start > _BLOCK_CHARACTERS:
        end = text.rfind(" ", start, start + _BLOCK_CHARACTERS)
        is_word = end <= start  # without an end in sight
        end = start + _BLOCK_CHARACTERS if is_word else end
        yield text[start:end]
        start = end if is_word else end + 1
    yield text[start:]


def _parts(sentence, tokenizer, most, language):
    """Rows of at most `most` ids, of the sentences in a text."""
    import sentencex  # not needed by most

    word_starts = frozenset(tokenizer.word_starts)
    rows = []
    for one in sentencex.segment(language, sentence):
        for block in _blocks(one.strip()):
            rows += _chunks(tokenizer.encode([block])[0], most, word_starts)
    return rows


def _chunks(row, most, word_starts):
    """Yield parts of a row with at most `most` ids, if possible up to the beginning of a word."""
    start = 0
    while len(row) - start > most:
        ends = range(start + most, start, -1)
        end = next((end for end in ends if row[end] in word_starts), start + most)
        yield row[start:end]
        start = end
    if row[start:]:
        yield row[start:]


def _fault(sentence, max_length):
    return f"has more than {max_length:,} tokens, end of sentence counted: {sentence[:40]!r}..."


def _warn(name, index, sentence, max_length, outcome):
    fault = f"{_fault(sentence, max_length)} ({outcome})"
    warnings.warn(LongSentenceWarning(name, index, fault), stacklevel=2)
