"""Lexical shortlists: the target tokens that the translations of a source token may have."""

from collections.abc import Iterable
from typing import Any, Self

import numpy as np

from keras_transformer.argument_checks import check_non_negative_int, check_positive_int
from keras_transformer.errors import UserInputError
from keras_transformer.files.whole_files import BeforeRename
from keras_transformer.special_tokens import SpecialTokens
from keras_transformer.text.lexical_counts import best_translations
from keras_transformer.text.sentencepiece_tokenizer import SentencePieceTokenizer
from keras_transformer.text.shortlist_files import ShortlistArrays, read_shortlist, write_shortlist
from keras_transformer.types import PathLike

# Marian's defaults: the most frequent target tokens, and the best ones of a source token.
FIRST = BEST = 100
_MULTIPLE = 8  # the number of candidates is one of its multiples


class Shortlist:
    """The target tokens that a search considers for a sentence: some hundred of the vocabulary.

    They are the likely translations of the sentence's tokens, the most frequent target tokens, the
    end of sentence and, if both sides share a vocabulary, the source's own tokens: names and
    numbers are copied. `Translator(..., shortlist=...)` searches among them.

    Args:
        offsets: int array (source tokens + 1,); the translations of source token `i` are
            `translations[offsets[i]:offsets[i + 1]]`. Source tokens beyond have none.
        translations: int array of target ids.
        always: int array of the target ids that every sentence has.
        tokenizer: the target's tokenizer.
        source_tokenizer: the source's; None: the same.

    The arguments are attributes, the arrays with NumPy's types int64, int32 and int32.
    `copies` is whether the source's own tokens are candidates: with one tokenizer.

    Raises:
        UserInputError: the arrays do not fit each other or the tokenizers.

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
        is_ordered = len(self.offsets) > 0 and bool((np.diff(self.offsets) >= 0).all())
        if not is_ordered or self.offsets[0] != 0 or self.offsets[-1] != len(self.translations):
            raise UserInputError(
                "`offsets` of a shortlist must ascend from 0 to the number of translations, "
                f"{len(self.translations)}. Received: {self.offsets[:3]} to {self.offsets[-1:]}"
            )
        num_sources, size = source_tokenizer.vocabulary_size, tokenizer.vocabulary_size
        if len(self.offsets) - 1 > num_sources:
            raise UserInputError(
                f"The shortlist must be for a source vocabulary of at most {num_sources} tokens. "
                f"Received: {len(self.offsets) - 1} source tokens"
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
        """Read a file of `save`, or one of Marian's: `lex.*.bin`, or a text such as `lex.s2t.gz`.

        Args:
            path: the file. A line of a text is `TARGET SOURCE PROBABILITY`, with pieces.
            tokenizer, source_tokenizer: as in the constructor.
            first: for a text: number of target ids, from 0, that every sentence has; Marian's
                vocabularies begin with the most frequent.
            best: for a text: most translations of a source token, those of the highest
                probabilities.

        Raises:
            UserInputError: the file cannot be read, is damaged, or does not fit the tokenizers.
        """
        check_non_negative_int("first", first)
        check_positive_int("best", best)
        source_tokenizer = source_tokenizer or tokenizer
        arrays = read_shortlist(path, source_tokenizer, tokenizer, first, best)
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
        best: int = BEST,
    ) -> Self:
        """Align the tokens of a parallel text, and keep the best translations of each.

        Args:
            source_rows, target_rows: ids of the sentences, lists or arrays, without begin and end
                of sentence.
            tokenizer, source_tokenizer: as in the constructor.
            first: number of the most frequent target tokens that every sentence has.
            best: most translations of a source token.

        Returns:
            The shortlist, from the expected counts of IBM Model 1.

        Raises:
            ValueError: the numbers of rows differ, or `first` or `best` breaks its rule.

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
        """Write the shortlist to a file, completely or not at all.

        Args:
            path: the file.
            before_rename: called with the complete file before it gets its name.
        """
        arrays = ShortlistArrays(self.offsets, self.translations, self.always)
        write_shortlist(path, arrays, before_rename)

    def candidates(
        self, source_ids: Any, prefix_ids: Any = None, *, in_few_sizes: bool = False
    ) -> np.ndarray:
        """The candidates of each sentence of a batch, for `SequenceGenerator.search`.

        Args:
            source_ids: int array (batch, length), tokens and padding.
            prefix_ids: int array (batch, prefix_length) of tokens that outputs begin with, and
                padding, or None; they become candidates.
            in_few_sizes: whether the number of columns is a power of 2, for a backend that compiles
                for each shape; otherwise it is a multiple of 8.

        Returns:
            int32 (batch, candidates): one token in each column, in ascending order; -1 where it is
            no candidate of the sentence, and in columns at the end that fill up the number.
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
        rows, ids = rows[is_known], ids[is_known]
        starts, counts = self.offsets[ids], self.offsets[ids + 1] - self.offsets[ids]
        places = np.arange(counts.sum()) + np.repeat(starts - (np.cumsum(counts) - counts), counts)
        is_candidate[np.repeat(rows, counts), self.translations[places]] = True
        is_candidate[:, [tokens.pad, tokens.bos]] = False
        is_candidate[:, tokens.eos] = True

        columns = np.flatnonzero(is_candidate.any(axis=0)).astype("int32")
        width = -(-len(columns) // _MULTIPLE) * _MULTIPLE
        if in_few_sizes:
            width = 1 << (width - 1).bit_length()
        found = np.full((len(source_ids), width), -1, "int32")
        found[:, : len(columns)] = np.where(is_candidate[:, columns], columns, -1)
        return found
