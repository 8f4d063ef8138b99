"""SentencePiece tokenizers: encoding, decoding, training and files."""

from __future__ import annotations

import functools
import hashlib
import io
import itertools
import math
import random
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal, NoReturn, Self, TypeVar, cast

import sentencepiece

from keras_transformer.argument_checks import (
    check_no_string,
    check_one_of,
    check_positive_int,
    checked_strings,
    without_surrogates,
)
from keras_transformer.errors import UserInputError, refuse
from keras_transformer.files import write_bytes
from keras_transformer.input_files import read_input
from keras_transformer.text.sentencepiece_model import (
    BYTES,
    MOST_PIECES,
    VARINT,
    PieceVocabulary,
    check_sizes,
    fields,
)
from keras_transformer.text.subword_sampler import SPACE, SubwordSampler
from keras_transformer.types import MODEL_TYPES, NORMALIZATIONS, PathLike, SpecialTokens

# SentencePiece log levels: 0 for information, 1 for warnings, 2 for errors.
_LOG_ERRORS_ONLY = 2
# By default, SentencePiece silently skips training lines longer than 4,192 bytes.
_LONGEST_LINE_BYTES = 1 << 20
# Unigram training sums floats per thread. A fixed thread count makes results reproducible.
_TRAINING_THREADS = 16
_FEW = 16  # texts that are segmented before the library has started its threads
_T = TypeVar("_T")
# Fields of the messages `SentencePieceText` and, for `_BEGIN` and `_END`, of its pieces.
_PIECE, _BEGIN, _END = (2, BYTES), (4, VARINT), (5, VARINT)
_PLACE = "\uf8ff"  # private use: marks the place of another text


def train_model(lines: Iterable[str], *, vocab_size: int, **options: Any) -> bytes:
    """Run SentencePiece's trainer with the given options and return the serialized model."""
    model = io.BytesIO()
    faults: list[BaseException] = []
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=_checked(lines, faults),
            model_writer=model,
            vocab_size=vocab_size,
            **options,
            **{f"{name}_id": value for name, value in asdict(SpecialTokens()).items()},
            max_sentence_length=_LONGEST_LINE_BYTES,
            num_threads=_TRAINING_THREADS,
            minloglevel=_LOG_ERRORS_ONLY,
        )
    except RuntimeError as error:
        if faults:
            raise faults[0] from None
        message = _explain(str(error), vocab_size)
        if message is None:
            raise
        raise UserInputError(message) from error
    return model.getvalue()


def _checked(lines: Iterable[str], faults: list[BaseException]) -> Iterator[str]:
    """Yield the lines in a form that SentencePiece accepts; append any error to `faults`.

    The exception raised by the trainer contains only the message of the original error.
    """
    try:
        for number, line in enumerate(lines):
            if not isinstance(line, str):
                raise ValueError(
                    f"`lines` must be strings. Received: lines[{number}]={repr(line)[:100]}"
                )
            yield without_surrogates(line)
    except BaseException as error:
        faults.append(error)
        raise


def _explain(message: str, vocabulary_size: int) -> str | None:
    """Return a clearer version of the trainer's message, or None if the input is valid."""
    if "!sentences_.empty()" in message or "(all_chars_count) > (0)" in message:
        return "There is no text to train a vocabulary from"
    received = f"Received: vocabulary_size={vocabulary_size}"
    if "insert_id" in message:
        return f"`vocabulary_size` is too small for the special tokens. {received}"
    least = re.search(r"required_chars\. \d+ vs (\d+)", message)
    if least:
        return (
            "`vocabulary_size` is too small for the characters of the text, which need at least "
            f"{least.group(1)}. {received}"
        )
    most = re.search(r"set it to a value <= (\d+)", message)
    if most:
        return (
            "`vocabulary_size` is too large for the text, which yields at most "
            f"{most.group(1)}. {received}"
        )
    return None


def sample_lines(lines: Iterable[str], most: int, seed: int = 0) -> list[str]:
    """Sample at most `most` lines uniformly, and return them in text order.

    The lines are read once, and only the sample is kept in memory. Use this function for text that
    is larger than memory, because `SentencePieceTokenizer.train` keeps all lines in memory.

    Args:
        lines: the lines; blank lines are skipped.
        most: number of lines to sample; shorter texts are returned in full.
        seed: random seed; the result depends only on the arguments.

    Returns:
        The sampled lines.

    Raises:
        ValueError: `most` is not a positive integer, or `lines` is a string.

    Example:
        >>> sample_lines(["one", "", "two", "three"], most=3)
        ['one', 'two', 'three']

    Reference:
        Vitter, "Random Sampling with a Reservoir", 1985, algorithm R.
    """
    check_positive_int("most", most)
    check_no_string("lines", lines)
    sample, _ = draw_some(filter(str.strip, lines), most, random.Random(seed))
    return [line for _, line in sorted(sample)]


def draw_some(
    items: Iterable[_T], most: int, generator: random.Random
) -> tuple[list[tuple[int, _T]], int]:
    """Sample at most `most` items in one pass; return `(index, item)` pairs and the item count."""
    sample: list[tuple[int, _T]] = []  # reservoir of equally likely items
    seen = 0
    for seen, item in enumerate(items, start=1):
        if len(sample) < most:
            sample.append((seen, item))
        elif (place := generator.randrange(seen)) < most:
            sample[place] = (seen, item)
    return sample, seen


_RESERVED_SYMBOL = re.compile("<pad>|<s>|</s>|<unk>|<0x[0-9A-Fa-f]{2}>")

_MOST_BYTES = 1 << 26  # maximum model size; 256,000 pieces take about 5 million bytes


class SentencePieceTokenizer:
    """Subword tokenizer based on the `sentencepiece` library, without TensorFlow.

    Args:
        model_bytes: a serialized SentencePiece model with padding, BOS, EOS and unknown tokens, or
            with an embedded `PieceVocabulary`, which then determines the ids.

    Raises:
        UserInputError: the bytes are not a SentencePiece model, the scores are not finite, or one
            of the four special tokens is missing or shares an id with another.

    Example:
        >>> lines = ["a small house", "a small tree", "the house and the tree"]
        >>> tokenizer = SentencePieceTokenizer.train(lines, vocabulary_size=40)
        >>> tokenizer.decode(tokenizer.encode(["the small house"]))
        ['the small house']

    Reference:
        Kudo and Richardson, [SentencePiece](https://arxiv.org/abs/1808.06226), 2018.
    """

    output: Literal["text", "trees"] = "text"  # what `decode` returns

    def __init__(self, model_bytes: bytes) -> None:
        self.model_bytes = bytes(model_bytes)
        self._processor = load_processor(self.model_bytes)
        self.vocabulary = PieceVocabulary.of(self.model_bytes)
        if self.vocabulary is None:
            self.special_tokens = special_tokens_of(self._processor)
            self.vocabulary_size: int = self._processor.get_piece_size()
        else:
            self.special_tokens = self.vocabulary.special_tokens
            self.vocabulary_size = len(self.vocabulary.pieces)
        self.fingerprint = hashlib.sha256(self.model_bytes).hexdigest()

    @classmethod
    def train(
        cls,
        lines: Iterable[str],
        path: PathLike | None = None,
        *,
        vocabulary_size: int,
        model_type: str = "bpe",
        byte_fallback: bool = False,
        normalization: str = "nmt_nfkc",
        character_coverage: float = 1.0,
        user_defined_symbols: Iterable[str] = (),
    ) -> Self:
        """Train a tokenizer. Identical lines and settings produce an identical model.

        Args:
            lines: training lines of both source and target text.
            path: output file for the model.
            vocabulary_size: number of ids, including special tokens, at most 300,000.
            model_type: `"bpe"` or `"unigram"`.
            byte_fallback: whether to encode unknown characters as bytes instead of the unknown
                token; uses 256 ids.
            normalization: SentencePiece's text normalization. `"nmt_nfkc"` normalizes character
                widths, ligatures and control characters and merges spaces; `"identity"` keeps all
                characters and spaces.
            character_coverage: share of characters that get an id, from 0.98 to 1.
            user_defined_symbols: strings that are always encoded as one token each.

        Returns:
            The trained tokenizer.

        Raises:
            UserInputError: `lines` is empty, or `vocabulary_size` does not fit the text.
        """
        check_positive_int("vocabulary_size", vocabulary_size)
        if vocabulary_size > MOST_PIECES:
            refuse("vocabulary_size", f"be at most {MOST_PIECES:,}", vocabulary_size)
        check_one_of("model_type", model_type, MODEL_TYPES)
        check_one_of("normalization", normalization, NORMALIZATIONS)
        # SentencePiece has the same bounds but reports only a failed assertion.
        if not 0.98 <= character_coverage <= 1:
            refuse("character_coverage", "be a number in [0.98, 1]", character_coverage)
        check_no_string("user_defined_symbols", user_defined_symbols)
        user_defined_symbols = list(user_defined_symbols)
        check_symbols("user_defined_symbols", user_defined_symbols)
        check_no_string("lines", lines)
        model_bytes = train_model(
            lines,
            vocab_size=vocabulary_size,
            model_type=model_type,
            byte_fallback=byte_fallback,
            normalization_rule_name=normalization,
            remove_extra_whitespaces=normalization != "identity",
            character_coverage=character_coverage,
            user_defined_symbols=user_defined_symbols,
        )
        tokenizer = cls(model_bytes)
        if path is not None:
            tokenizer.save(path)
        return tokenizer

    @classmethod
    def load(cls, path: PathLike) -> Self:
        """Load a SentencePiece model file of at most 64 MB."""
        model_bytes = read_input(path, _MOST_BYTES)
        try:
            return cls(model_bytes)
        except UserInputError as error:
            raise UserInputError(f"{path}: {error}") from error

    def save(self, path: PathLike) -> None:
        """Write the model to a file atomically."""
        write_bytes(path, self.model_bytes)

    def encode(self, sentences: Iterable[str]) -> list[list[int]]:
        """Convert sentences to token ids, without BOS or EOS.

        Lone surrogates, which UTF-8 cannot encode, are treated as U+FFFD. The "nmt_nfkc"
        normalization replaces U+FFFD with a space.
        """
        sentences = checked_strings("sentences", sentences)
        if self.vocabulary is None:
            return self._segment(sentences, int)
        return self._rows(sentences, lambda texts: self._segment(texts, str))

    def _segment(self, texts: list[str], kind: type) -> list[Any]:
        """Return the ids or the pieces of texts, in the library's threads if there are many."""
        if len(texts) > _FEW:
            return self._processor.encode(texts, out_type=kind)
        return [self._processor.encode(text, out_type=kind) for text in texts]

    def __call__(self, *arguments: Any, **keywords: Any) -> NoReturn:
        """Raise a `TypeError` that points to `encode` and `decode`."""
        raise TypeError(f"{type(self).__name__!r} object is not callable: use `encode` or `decode`")

    def sample(self, sentences: Iterable[str], *, alpha: float, seed: int) -> list[list[int]]:
        """Convert sentences to token ids with random segmentations, for training.

        The model then sees words in several segmentations that all decode to the same text. The
        result depends only on the arguments, not on the process or the machine.

        Args:
            sentences: the sentences.
            alpha: number in [0, 1]. For BPE vocabularies, the probability of dropping a merge: 0
                is equivalent to `encode`, 1 yields single characters; the paper uses 0.1. For
                unigram vocabularies, the exponent of the segmentation probabilities: 0 samples
                uniformly, 1 by the vocabulary's probabilities; the paper uses 0.2.
            seed: integer >= 0.

        Returns:
            A list of ids for each sentence.

        Raises:
            UserInputError: the model is neither BPE nor unigram.

        Example:
            >>> tokenizer = SentencePieceTokenizer.train(["houses and trees"], vocabulary_size=20)
            >>> ids = tokenizer.sample(["trees and houses"], alpha=0.5, seed=1)
            >>> tokenizer.decode(ids)
            ['trees and houses']

        Reference:
            [BPE-Dropout](https://arxiv.org/abs/1910.13267);
            [Subword Regularization](https://arxiv.org/abs/1804.10959) for unigram vocabularies.
        """
        sentences = checked_strings("sentences", sentences)
        if self.vocabulary is None:
            return self._sampler.sample(sentences, alpha=alpha, seed=seed)
        return self._rows(
            sentences, lambda texts: self._sampler.sample_pieces(texts, alpha=alpha, seed=seed)
        )

    def decode(self, ids: Iterable[Iterable[int]]) -> list[str]:
        """Convert token ids to sentences, ignoring padding, BOS and EOS.

        Args:
            ids: rows of ids, such as an int array `(sentences, length)`.

        Returns:
            The sentences. The unknown token is decoded as " ⁇ ".
        """
        if self.vocabulary is not None:
            return [self._text(row) for row in ids]
        # For a list of rows, the library would start threads, which take longer than 30 rows.
        return [self._processor.decode([int(token) for token in row]) for row in ids]

    def decode_around(
        self, ids: Iterable[int], tokens: Collection[int]
    ) -> tuple[list[str], list[int]]:
        """Convert a row of token ids to the texts around some of its tokens.

        Args:
            ids: the ids of the row.
            tokens: ids of tokens that are not converted.

        Returns:
            `(texts, found)`: the text before each of the tokens and the text after the last one,
            and the tokens, both from left to right.
        """
        special = self.special_tokens
        ids = [i for i in map(int, ids) if i not in (special.pad, special.bos, special.eos)]
        pieces, found = self.pieces(ids), []
        for place, token in enumerate(ids):
            if token in tokens:
                space = SPACE if pieces[place].startswith(SPACE) else ""
                pieces[place] = f"{space}{_PLACE}"
                found.append(token)
            else:
                pieces[place] = pieces[place].replace(_PLACE, "")
        text = self._processor.decode_pieces(self._ordered(pieces))
        return text.replace(SPACE, " ").strip(" ").split(_PLACE), self._ordered(found)

    def spans(self, sentence: str) -> list[tuple[int, int]]:
        """Return the characters of each token of a sentence, `sentence[start:end]`.

        The spans go from left to right and include the space before a word. A token that
        normalization adds has an empty span.
        """
        text = sentence = without_surrogates(sentence)
        tag: list[int] = []
        if self.vocabulary is not None:
            tag, text = self.vocabulary.split_tag(sentence)
        first = len(sentence) - len(text)
        message = self._processor.encode(text, out_type="serialized_proto")
        offsets = list(
            itertools.accumulate(((byte & 0xC0) != 0x80 for byte in text.encode()), initial=first)
        )
        pieces = [dict(fields(piece)) for field, piece in fields(message) if field == _PIECE]
        spans = [(offsets[piece[_BEGIN]], offsets[piece[_END]]) for piece in pieces]
        return [(0, first)] * len(tag) + spans

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Convert ids to pieces, such as `["▁house", "s"]`."""
        if self.vocabulary is not None:
            return [self.vocabulary.pieces[int(token)] for token in ids]
        return [self._processor.id_to_piece(int(token)) for token in ids]

    @functools.cached_property
    def piece_ids(self) -> dict[str, int]:
        """The id of each piece, such as that of "▁house"."""
        return {piece: i for i, piece in enumerate(self.pieces(range(self.vocabulary_size)))}

    @property
    def target_languages(self) -> tuple[str, ...]:
        """Target language codes of a multilingual model, such as "deu" for the `>>deu<<` tag."""
        return () if self.vocabulary is None else tuple(t[2:-2] for t in self.vocabulary.tags)

    @property
    def right_to_left(self) -> bool:
        """Whether token ids are in reverse order, as in some Marian models."""
        return self.vocabulary is not None and self.vocabulary.right_to_left

    def _ordered(self, ids: list[_T]) -> list[_T]:
        """Convert ids from text order to model order, or vice versa."""
        return ids[::-1] if self.right_to_left else ids

    def _rows(
        self, sentences: list[str], segment: Callable[[list[str]], list[list[str]]]
    ) -> list[list[int]]:
        """Return the vocabulary ids of sentences, using `segment` to split them into pieces."""
        vocabulary = cast(PieceVocabulary, self.vocabulary)
        parts = [vocabulary.split_tag(sentence) for sentence in sentences]
        rows = segment([text for _, text in parts])
        return [
            self._ordered(tag + [vocabulary.ids.get(each, vocabulary.unk) for each in pieces])
            for (tag, _), pieces in zip(parts, rows, strict=True)
        ]

    def _text(self, ids: Iterable[int]) -> str:
        """Decode vocabulary ids to text."""
        vocabulary = cast(PieceVocabulary, self.vocabulary)
        special = (vocabulary.pad, vocabulary.start, vocabulary.eos)
        pieces = self.pieces(self._ordered([i for i in map(int, ids) if i not in special]))
        # Pieces found only in the other side's model are left unchanged.
        return self._processor.decode_pieces(pieces).replace(SPACE, " ").strip(" ")

    @functools.cached_property
    def word_starts(self) -> tuple[int, ...]:
        """The ids that start a word: EOS and all pieces with a leading space.

        Use them for `build_transformer(positions="words", source_word_starts=...)`. For exact word
        numbers, as parsers require, train the tokenizer with `normalization="identity"`.
        Otherwise, a no-break space splits a word, and words made of zero-width characters are lost.
        """
        pieces = self.pieces(range(self.vocabulary_size))
        spaces = [number for number, piece in enumerate(pieces) if piece.startswith(SPACE)]
        return (self.special_tokens.eos, *spaces)

    @functools.cached_property
    def _sampler(self) -> SubwordSampler:
        return SubwordSampler(self._processor, self.model_bytes)


def check_symbols(name: str, symbols: Iterable[str]) -> None:
    """Require distinct symbols that can occur in text and do not match special pieces."""
    symbols = list(symbols)
    for symbol in symbols:
        if not isinstance(symbol, str) or not symbol or " " in symbol:
            refuse(name, "be nonempty strings without spaces", symbol)
    reserved = [symbol for symbol in symbols if _RESERVED_SYMBOL.fullmatch(symbol)]
    if reserved or len(set(symbols)) < len(symbols):
        rule = "be different from each other and from <pad>, <s>, </s>, <unk> and bytes like <0x41>"
        refuse(name, rule, symbols)


def load_processor(model_bytes: bytes) -> sentencepiece.SentencePieceProcessor:
    """Load a serialized model, requiring UTF-8 pieces and finite scores.

    The library itself validates the structure and the bounds of the normalizer's table.
    """
    check_sizes(model_bytes)
    processor = sentencepiece.SentencePieceProcessor()
    try:
        processor.LoadFromSerializedProto(model_bytes)
        numbers = range(processor.get_piece_size())
        for number in numbers:
            processor.id_to_piece(number)
    # A piece or the library's message can raise the UnicodeDecodeError.
    except (RuntimeError, OSError, UnicodeDecodeError) as error:
        raise UserInputError("The tokenizer is not a SentencePiece model") from error
    if not all(math.isfinite(processor.get_score(number)) for number in numbers):
        raise UserInputError("The SentencePiece model has scores that are not finite numbers")
    return processor


def special_tokens_of(processor: sentencepiece.SentencePieceProcessor) -> SpecialTokens:
    """Return a loaded model's special tokens, requiring all four to exist with distinct ids."""
    ids = {name: getattr(processor, f"{name}_id")() for name in asdict(SpecialTokens())}
    missing = [name for name, value in ids.items() if value < 0]
    default = " ".join(f"--{name}_id={value}" for name, value in asdict(SpecialTokens()).items())
    if missing:
        raise UserInputError(
            f"The SentencePiece model lacks the special tokens {missing}. Train it with {default}"
        )
    if len(set(ids.values())) < len(ids):
        raise UserInputError(
            "The special tokens of the SentencePiece model must differ. "
            f"Received: {ids}. Train it with {default}"
        )
    return SpecialTokens(**ids)


TOKENIZER = "tokenizer.model"
SOURCE_TOKENIZER = "source_tokenizer.model"  # if the source has a separate vocabulary
SHORTLIST = "shortlist.npz"


def save_tokenizers(
    directory: PathLike, source_tokenizer: SentencePieceTokenizer, tokenizer: SentencePieceTokenizer
) -> dict[str, str]:
    """Write a model's tokenizers and return the file names for `source` and `target`."""
    names = {"source": TOKENIZER, "target": TOKENIZER}
    tokenizer.save(Path(directory) / TOKENIZER)
    if source_tokenizer is not tokenizer:
        names["source"] = SOURCE_TOKENIZER
        source_tokenizer.save(Path(directory) / SOURCE_TOKENIZER)
    return names
