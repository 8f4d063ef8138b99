"""Shortlists of the target tokens that a source sentence is likely to need.

Axes in the shape comments:
    links     pairs of a target token and a source token of its sentence, or the empty token
    entries   distinct pairs of tokens

Marian's binary format starts with six 8-byte little-endian numbers: a magic number, a checksum of
the rest of the file, the number of target ids for every sentence, the maximum number per source
token, the number of offsets and the number of translations. The offsets (8 bytes each) and the
translations (4 bytes each) follow.

Reference: `src/data/shortlist.cpp` in Marian and Bergamot.
"""

import itertools
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Self, TypeAlias

import numpy as np

from keras_transformer.argument_checks import check_non_negative_int, check_positive_int
from keras_transformer.errors import UserInputError
from keras_transformer.files import BeforeRename, whole_file
from keras_transformer.input_files import (
    DAMAGED,
    open_archive,
    open_ordinary,
    read_archive_record,
    read_array,
    write_archive,
)
from keras_transformer.text.sentencepiece_tokenizer import SentencePieceTokenizer
from keras_transformer.text.text_lines import text_lines
from keras_transformer.types import PathLike, SpecialTokens

_LINKS = 4_000_000  # maximum number of links per block of sentences
_ROUNDS = 4
_LEAST = 0.01  # drop expected counts below this value


def best_translations(
    source_rows: Iterable[Any],
    target_rows: Iterable[Any],
    source_size: int,
    target_size: int,
    best: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Find the most probable target tokens for each source token.

    Sentences are aligned in blocks that fit into memory. Each block starts from the counts of the
    previous blocks.

    Args:
        source_rows, target_rows: token ids of the sentences, as lists or arrays.
        source_size, target_size: vocabulary sizes.
        best: maximum number of target tokens per source token.

    Returns:
        `(offsets, translations, frequencies)`: int64 (source_size + 1,) and int32, where
        `translations[offsets[i]:offsets[i + 1]]` are the target tokens of source token `i` in
        ascending order; int64 (target_size,), the number of occurrences of each target token.

    Raises:
        ValueError: the numbers of source and target rows differ.
    """
    keys: Any = np.zeros(0, "int64")  # (entries,)
    counts: Any = np.zeros(0)
    frequencies = np.zeros(target_size, "int64")
    for sources, targets in _blocks(source_rows, target_rows):
        frequencies += np.bincount(np.concatenate(targets), minlength=target_size)
        new_keys, new_counts = _align(sources, targets, source_size, target_size, keys, counts)
        keys, places = np.unique(np.concatenate([keys, new_keys]), return_inverse=True)
        counts = np.bincount(places, np.concatenate([counts, new_counts]))
        keys, counts = keys[counts >= _LEAST], counts[counts >= _LEAST]

    source, target = np.divmod(keys, target_size)
    order = np.lexsort((target, -counts, source))
    order = order[source[order] < source_size]  # without the empty token
    source, target = source[order], target[order]
    ranks = np.arange(len(source)) - np.searchsorted(source, source)
    source, target = source[ranks < best], target[ranks < best]
    order = np.lexsort((target, source))
    offsets = np.searchsorted(source, np.arange(source_size + 1))
    return offsets, target[order].astype("int32"), frequencies


def _blocks(
    source_rows: Iterable[Any], target_rows: Iterable[Any]
) -> Iterable[tuple[list[np.ndarray], list[np.ndarray]]]:
    """Yield sources and targets of consecutive pairs, skipping pairs with an empty side."""
    sources: list[np.ndarray] = []
    targets: list[np.ndarray] = []
    links = 0
    for source, target in zip(source_rows, target_rows, strict=True):
        if not len(source) or not len(target):
            continue
        sources.append(np.asarray(source, "int64"))
        targets.append(np.asarray(target, "int64"))
        links += (len(source) + 1) * len(target)
        if links >= _LINKS:
            yield sources, targets
            sources, targets, links = [], [], 0
    if sources:
        yield sources, targets


def _align(
    sources: list[np.ndarray],
    targets: list[np.ndarray],
    source_size: int,
    target_size: int,
    known_keys: np.ndarray,
    known_counts: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Return entry keys (`source * target_size + target`) and expected counts for a block."""
    sources = [np.append(row, source_size) for row in sources]  # the empty token of each source
    lengths = np.array([len(row) for row in sources])
    starts = np.cumsum(lengths) - lengths  # start of each source
    pair = np.repeat(np.arange(len(targets)), [len(row) for row in targets])
    widths = lengths[pair]  # number of links of each target token
    ends = np.cumsum(widths)
    first = ends - widths
    places = np.arange(ends[-1]) + np.repeat(starts[pair] - first, widths)  # (links,)
    keys = np.concatenate(sources)[places] * target_size
    keys += np.repeat(np.concatenate(targets), widths)
    keys, entry = np.unique(keys, return_inverse=True)

    known = np.searchsorted(known_keys, keys)
    found = known < len(known_keys)
    found[found] = known_keys[known[found]] == keys[found]
    prior = np.full(len(keys), _LEAST)
    prior[found] += known_counts[known[found]]
    counts: Any = np.zeros(len(keys))
    source = keys // target_size
    for _ in range(_ROUNDS):
        totals = np.bincount(source, prior + counts, source_size + 1)
        probabilities = ((prior + counts) / totals[source])[entry]  # (links,)
        probabilities /= np.repeat(np.add.reduceat(probabilities, first), widths)
        counts = np.bincount(entry, probabilities, len(keys))
    return keys, counts


_MARK = 0xF11A48D5013417F5.to_bytes(8, "little")
_ARCHIVE = b"PK"
_HEADER = 48  # size in bytes
_MOST_BYTES = 1 << 30
_NO_PIECE = "NULL"  # the empty token in Marian's text files
_ARRAYS = {"offsets": "<i8", "translations": "<i4", "always": "<i4"}
_SHORT_ARRAYS = {"offsets": "<u4", "translations": "<u2", "always": "<u2"}  # if all numbers fit
_BLOCK = 1 << 16  # number of words or lines kept as Python objects at the same time
_MOST_BLOCKS = 16  # number of text blocks to read before dropping all but the best entries
_ENTRY = [("source", "<i4"), ("target", "<i4"), ("probability", "<f8")]


# The arrays of a `Shortlist`; see the class.
_Arrays: TypeAlias = tuple[np.ndarray, np.ndarray, np.ndarray]


def _read_archive(path: PathLike) -> _Arrays:
    with open_archive(path) as archive:
        record = read_archive_record(archive, path)
        size = os.path.getsize(path)
        arrays = []
        is_short = isinstance(record, dict) and record.get("short", False)
        for name, kind in (_SHORT_ARRAYS if is_short else _ARRAYS).items():
            length = record[name] if isinstance(record, dict) else None
            if not isinstance(length, int) or not 0 <= length <= size:
                raise ValueError(f"{name} has the length {length!r}"[:100])
            array = read_array(archive, name, [length], np.dtype(kind).itemsize)
            if array.dtype != np.dtype(kind):
                raise ValueError(f"{name} has the type {array.dtype}")
            arrays.append(array)
    return arrays[0], arrays[1], arrays[2]


def _read_binary(path: PathLike, vocabulary_size: int) -> _Arrays:
    with open_ordinary(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > _MOST_BYTES:
            raise ValueError(f"it has more than {_MOST_BYTES:,} bytes")
        content = np.empty(size, "uint8")
        if size < _HEADER or file.readinto(content.data) < size:
            raise EOFError("it ends early")
    _, expected, first, _, num_offsets, length = content[:_HEADER].view("<u8").tolist()
    if _HEADER + 8 * num_offsets + 4 * length != size:
        raise ValueError(f"{num_offsets:,} offsets and {length:,} ids do not make up its size")
    if _checksum(content[16 : size - size % 8].view("<u8")) != expected:
        raise ValueError("its checksum is wrong")
    end = _HEADER + 8 * num_offsets
    offsets, translations = content[_HEADER:end].view("<i8"), content[end:].view("<i4")
    if not all(
        0 <= ids.min(initial=0) <= ids.max(initial=0) < 1 << 31 for ids in (offsets, translations)
    ):
        raise ValueError("an offset or an id is too large")
    return offsets, translations, np.arange(min(first, vocabulary_size))


def _checksum(words: np.ndarray) -> int:
    """Combine the hashes of 8-byte words in the same way as Boost's `hash_combine`."""
    seed, most = 0, (1 << 64) - 1
    for start in range(0, len(words), _BLOCK):
        for word in words[start : start + _BLOCK].tolist():
            seed ^= (word + 0x9E3779B9 + (seed << 6) + (seed >> 2)) & most
    return seed


def _read_text(
    path: PathLike,
    source_tokenizer: SentencePieceTokenizer,
    tokenizer: SentencePieceTokenizer,
    first: int,
    best: int,
) -> _Arrays:
    source_ids, target_ids = (
        {piece: i for i, piece in enumerate(side.pieces(range(side.vocabulary_size)))}
        for side in (source_tokenizer, tokenizer)
    )
    unknown, source_unknown = tokenizer.special_tokens.unk, source_tokenizer.special_tokens.unk
    entries = (
        (source_ids.get(source, source_unknown), target_ids.get(target, unknown), probability)
        for number, line in enumerate(text_lines(path), start=1)
        for target, source, probability in (_entry(path, number, line),)
        if _NO_PIECE not in (source, target)
    )
    found = [np.zeros(0, _ENTRY)]
    while block := list(itertools.islice(entries, _BLOCK)):
        found.append(np.array(block, _ENTRY))
        if len(found) > _MOST_BLOCKS:
            found = [_best_entries(np.concatenate(found), best)]
    kept = _best_entries(np.concatenate(found), best)
    offsets = np.searchsorted(kept["source"], np.arange(source_tokenizer.vocabulary_size + 1))
    return offsets, kept["target"].copy(), np.arange(min(first, len(target_ids)))


def _entry(path: PathLike, number: int, line: str) -> tuple[str, str, float]:
    """Parse a line into the target piece, the source piece and the probability."""
    try:
        target, source, text = line.split(" ")
        if not 0 <= float(text) <= 1:
            raise ValueError(text)
        return target, source, float(text)
    except ValueError as error:
        raise UserInputError(
            f"{path}, line {number} must be a target piece, a source piece and a probability from "
            f"0 to 1. Received: {line[:100]!r}"
        ) from error


def _best_entries(entries: np.ndarray, best: int) -> np.ndarray:
    """Return the most probable entries of each source token, sorted by source and target."""
    order = np.lexsort((-entries["probability"], entries["target"], entries["source"]))
    entries = entries[order]
    is_first = np.ones(len(entries), bool)  # the first entry of each pair of tokens
    is_first[1:] = np.diff(entries["source"]).astype(bool) | np.diff(entries["target"]).astype(bool)
    entries = entries[is_first]
    order = np.lexsort((-entries["target"], -entries["probability"], entries["source"]))
    sources = entries["source"][order]
    ranks = np.arange(len(sources)) - np.searchsorted(sources, sources)
    return entries[np.sort(order[ranks < best])]


# Marian's defaults for frequent target tokens and for the best translations of a source token.
FIRST = BEST = 100
_MULTIPLE = 8  # the number of candidates is a multiple of this


class Shortlist:
    """The target tokens to consider for each sentence: a few hundred tokens of the vocabulary.

    They include likely translations of the source tokens, the most frequent target tokens and EOS.
    If both sides share a vocabulary, the source tokens are also included so that the model can copy
    names and numbers. `Translator(..., shortlist=...)` searches only among these tokens.

    Args:
        offsets: int array (source tokens + 1,); the translations of source token `i` are
            `translations[offsets[i]:offsets[i + 1]]`; tokens beyond the offsets have none.
        translations: int array of target ids.
        always: int array of the target ids that are candidates for every sentence.
        tokenizer: target tokenizer.
        source_tokenizer: source tokenizer; defaults to `tokenizer`.

    All arguments are available as attributes; the arrays have the NumPy dtypes int64, int32 and
    int32. The `copies` attribute indicates whether the source tokens are candidates. It is True if
    both sides share a tokenizer.

    Raises:
        UserInputError: the arrays do not match each other or the tokenizers.

    Example:
        >>> lines = ["a small house", "a small tree", "the house and the tree"]
        >>> tokenizer = SentencePieceTokenizer.train(lines, vocabulary_size=30)
        >>> rows = tokenizer.encode(lines)
        >>> shortlist = Shortlist.build(rows, rows, tokenizer, first=2, best=1)
        >>> shortlist.candidates([[4, 5, 2]]).shape
        (1, 8)

    Reference: Jean et al., "On Using Very Large Target Vocabulary for Neural Machine Translation",
        2015, section 3.2; Junczys-Dowmunt et al., "Marian: Fast Neural Machine Translation in C++",
        2018.
    """

    def __init__(
        self,
        offsets: Any,
        translations: Any,
        always: Any,
        tokenizer: SentencePieceTokenizer,
        source_tokenizer: SentencePieceTokenizer | None = None,
    ) -> None:
        source_tokenizer = source_tokenizer or tokenizer
        self.offsets = np.asarray(offsets, "int64")
        self.translations = np.asarray(translations, "int32")
        self.always = np.asarray(always, "int32")
        self.tokenizer = tokenizer
        self.source_tokenizer = source_tokenizer
        self.copies = source_tokenizer.fingerprint == tokenizer.fingerprint
        num_sources, size = source_tokenizer.vocabulary_size, tokenizer.vocabulary_size
        if len(self.offsets) - 1 > num_sources:
            raise UserInputError(
                f"The shortlist must be for a source vocabulary of at most {num_sources} tokens. "
                f"Received: {len(self.offsets) - 1} source tokens"
            )
        is_ordered = len(self.offsets) > 0 and bool((self.offsets[1:] >= self.offsets[:-1]).all())
        if not is_ordered or self.offsets[0] != 0 or self.offsets[-1] != len(self.translations):
            raise UserInputError(
                "`offsets` of a shortlist must ascend from 0 to the number of translations, "
                f"{len(self.translations)}. Received: {self.offsets[:3]} to {self.offsets[-1:]}"
            )
        for ids in (self.translations, self.always):
            if ids.size and not 0 <= ids.min() <= ids.max() < size:
                raise UserInputError(
                    f"The shortlist must have target ids from 0 to {size - 1}. "
                    f"Received: ids from {ids.min()} to {ids.max()}"
                )

    @classmethod
    def load(
        cls,
        path: PathLike,
        tokenizer: SentencePieceTokenizer,
        source_tokenizer: SentencePieceTokenizer | None = None,
        *,
        first: int = FIRST,
        best: int = BEST,
    ) -> Self:
        """Load a file written by `save` or a Marian file: `lex.*.bin`, or text like `lex.s2t.gz`.

        Args:
            path: the file. Each line of a text file is `TARGET SOURCE PROBABILITY`, with pieces.
            tokenizer, source_tokenizer: see the constructor.
            first: for text files, the number of target ids, counted from id 0, that are candidates
                for every sentence; Marian's vocabularies start with the most frequent tokens.
            best: for text files, the maximum number of translations per source token; the most
                probable translations are kept.

        Raises:
            UserInputError: the file is unreadable or damaged, or does not match the tokenizers.
        """
        check_non_negative_int("first", first)
        check_positive_int("best", best)
        source_tokenizer = source_tokenizer or tokenizer
        try:
            with open_ordinary(path) as file:
                begin = file.read(len(_MARK))
            arrays: _Arrays | None = None
            if begin == _MARK:
                arrays = _read_binary(path, tokenizer.vocabulary_size)
            elif begin.startswith(_ARCHIVE):
                arrays = _read_archive(path)
        except UserInputError:
            raise
        except DAMAGED as error:
            raise UserInputError(
                f"{path} is not a shortlist, or it is damaged: {str(error)[:200]}"
            ) from error
        if arrays is None:
            if Path(path).suffix == ".bin":
                raise UserInputError(f"{path} is not a Marian shortlist, or it is damaged.")
            arrays = _read_text(path, source_tokenizer, tokenizer, first, best)
        try:
            return cls(*arrays, tokenizer, source_tokenizer)
        except UserInputError as error:
            raise UserInputError(f"{path}: {error}") from error

    @classmethod
    def build(
        cls,
        source_rows: Iterable[Any],
        target_rows: Iterable[Any],
        tokenizer: SentencePieceTokenizer,
        source_tokenizer: SentencePieceTokenizer | None = None,
        *,
        first: int = FIRST,
        best: int = 50,
    ) -> Self:
        """Align the tokens of parallel text and keep the best translations of each source token.

        Args:
            source_rows, target_rows: token ids of the sentences, as lists or arrays, without BOS
                and EOS.
            tokenizer, source_tokenizer: see the constructor.
            first: number of most frequent target tokens to include as candidates for every
                sentence.
            best: maximum number of translations per source token. The default is that of Firefox
                Translations; Marian's is 100.

        Returns:
            The shortlist, based on the expected counts of IBM Model 1.

        Raises:
            ValueError: the numbers of rows differ, or `first` or `best` is invalid.

        Reference: Brown et al., "The Mathematics of Statistical Machine Translation", 1993,
            section 4.1.
        """
        check_non_negative_int("first", first)
        check_positive_int("best", best)
        source_tokenizer = source_tokenizer or tokenizer
        sizes = source_tokenizer.vocabulary_size, tokenizer.vocabulary_size
        offsets, translations, frequencies = best_translations(
            source_rows, target_rows, *sizes, best
        )
        order = np.argsort(-frequencies, kind="stable")[:first]
        always = np.sort(order[frequencies[order] > 0])
        return cls(offsets, translations, always, tokenizer, source_tokenizer)

    def save(self, path: PathLike, before_rename: BeforeRename | None = None) -> None:
        """Write the shortlist to a file atomically.

        Args:
            path: the output file.
            before_rename: callback that receives the complete file before it is renamed to `path`.
        """
        is_short = self.tokenizer.vocabulary_size <= 1 << 16 and len(self.translations) < 1 << 32
        kinds = _SHORT_ARRAYS if is_short else _ARRAYS
        arrays = {name: getattr(self, name).astype(kind) for name, kind in kinds.items()}
        record = {"short": is_short, **{name: len(array) for name, array in arrays.items()}}
        with whole_file(path, before_rename) as file:
            write_archive(file, record, arrays.items())

    def marian_bytes(self) -> bytes:
        """Return the shortlist in Marian's binary format, for sources that end with EOS.

        The format stores only the length of the list of tokens for every sentence, which contains
        the first ids. Here, these tokens are therefore stored as translations of the source's EOS.
        """
        source_size, size = (
            each.vocabulary_size for each in (self.source_tokenizer, self.tokenizer)
        )
        tokens = self.tokenizer.special_tokens
        counts = np.zeros(source_size, "int64")
        counts[: len(self.offsets) - 1] = np.diff(self.offsets)
        sources = np.repeat(np.arange(source_size), counts)
        always = np.append(self.always, tokens.eos)
        eos = np.full(len(always), self.source_tokenizer.special_tokens.eos)
        keys = np.append(sources, eos) * size + np.append(self.translations, always)
        source, target = np.divmod(np.unique(keys), size)
        kept = ~np.isin(target, [tokens.pad, tokens.bos])
        source, target = source[kept], target[kept]
        offsets = np.searchsorted(source, np.arange(source_size + 1))
        best = np.diff(offsets).max()
        sizes = np.array([0, best, len(offsets), len(target)], "<u8").tobytes()
        content = sizes + offsets.astype("<u8").tobytes() + target.astype("<u4").tobytes()
        words = np.frombuffer(content[: len(content) // 8 * 8], "<u8")
        return _MARK + _checksum(words).to_bytes(8, "little") + content

    def candidates(
        self, source_ids: Any, prefix_ids: Any = None, *, in_few_sizes: bool = False
    ) -> np.ndarray:
        """Return the candidates of each sentence in a batch, for `SequenceGenerator.search`.

        Args:
            source_ids: int array (batch, length) of tokens and padding.
            prefix_ids: int array (batch, prefix_length) of output prefixes, padded at the end, or
                None. The tokens of the prefixes become candidates.
            in_few_sizes: whether to round the number of columns to a power of 2, for backends that
                compile each shape separately; otherwise, it is rounded to a multiple of 8.

        Returns:
            int32 (batch, candidates): one token per column, in ascending order; -1 where the token
            is not a candidate for the sentence, and in padding columns at the end.
        """
        source_ids = np.asarray(source_ids)
        tokens: SpecialTokens = self.tokenizer.special_tokens
        size = self.tokenizer.vocabulary_size
        rows = np.repeat(np.arange(len(source_ids)), source_ids.shape[1])
        ids = source_ids.reshape(-1)
        is_candidate = np.zeros((len(source_ids), size), bool)
        is_candidate[:, self.always] = True
        if self.copies:
            is_candidate[rows, ids] = True
        if prefix_ids is not None:
            np.put_along_axis(is_candidate, np.asarray(prefix_ids), True, axis=1)
        is_known = (ids < len(self.offsets) - 1) & (ids != tokens.pad)
        # One at a time, because a malicious shortlist may list all translations for every token.
        for row, source in {*zip(rows[is_known].tolist(), ids[is_known].tolist(), strict=True)}:
            start, end = self.offsets[source : source + 2]
            is_candidate[row, self.translations[start:end]] = True
        is_candidate[:, [tokens.pad, tokens.bos]] = False
        is_candidate[:, tokens.eos] = True

        columns = np.flatnonzero(is_candidate.any(axis=0)).astype("int32")
        width = -(-len(columns) // _MULTIPLE) * _MULTIPLE
        if in_few_sizes:
            width = 1 << (width - 1).bit_length()
        found = np.full((len(source_ids), width), -1, "int32")
        found[:, : len(columns)] = np.where(is_candidate[:, columns], columns, -1)
        return found
