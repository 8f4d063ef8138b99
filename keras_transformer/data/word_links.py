"""Word alignments of sentence pairs, which guide a model's alignment head in training."""

import hashlib
import itertools
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from keras_transformer.data.corpus_mixture import CorpusMixture
from keras_transformer.data.parallel_corpus import ParallelCorpus
from keras_transformer.text import SentencePieceTokenizer
from keras_transformer.text.pharaoh import Link, parse_pharaoh, read_pharaoh
from keras_transformer.text.words import TokenWords
from keras_transformer.types import PathLike


class PackedLinks(NamedTuple):
    """The links of consecutive sentence pairs.

    Args:
        links: int32 (links, 2), the numbers of a source word and of a target word.
        offsets: int64 (pairs + 1,), the start of each pair's links.
    """

    links: NDArray[np.int32]
    offsets: NDArray[np.int64]

    @classmethod
    def of(cls, pairs: Iterable[Sequence[Link]]) -> Self:
        """Pack the links of pairs."""
        lengths, chunks = [0], []
        for own in pairs:
            lengths.append(len(own))
            chunks.append(np.array(own, "int32").reshape(-1, 2))
        links = np.concatenate([np.zeros((0, 2), "int32"), *chunks])
        return cls(links, np.cumsum(lengths, dtype="int64"))

    def of_pair(self, pair: int) -> NDArray[np.int32]:
        """Return the links of a pair."""
        return self.links[self.offsets[pair] : self.offsets[pair + 1]]

    def chosen(self, pairs: NDArray[np.integer]) -> Self:
        """Return the links of some pairs."""
        lengths = np.diff(self.offsets)[pairs]
        offsets = np.cumsum([0, *lengths], dtype="int64")
        places = np.repeat(self.offsets[pairs] - offsets[:-1], lengths) + np.arange(offsets[-1])
        return type(self)(self.links[places], offsets)


def read_links(paths: Iterable[PathLike]) -> PackedLinks:
    """Read alignments in Pharaoh format, one line per sentence pair.

    Raises:
        UserInputError: a file is missing or contains anything else.
    """
    lines = (read_pharaoh(path, parse_pharaoh) for path in paths)
    return PackedLinks.of(itertools.chain.from_iterable(lines))


class WordLinks:
    """The word alignments of corpora, projected to the tokens of batches.

    Args:
        corpora: the links of each corpus, or None for a corpus without links.
        source_tokenizer, tokenizer: the tokenizers of the source and of the target.
        by_spaces: whether only spaces separate words, as in files in Pharaoh format. Otherwise,
            letters and digits form words, and any other character is a word.
    """

    def __init__(
        self,
        corpora: Sequence[PackedLinks | None],
        source_tokenizer: SentencePieceTokenizer,
        tokenizer: SentencePieceTokenizer,
        *,
        by_spaces: bool,
    ) -> None:
        self.corpora = list(corpora)
        self._sides = [
            TokenWords(each, by_spaces=by_spaces) for each in (source_tokenizer, tokenizer)
        ]

    def weights(
        self, mixture: CorpusMixture, pairs: NDArray[np.integer], shape: tuple[int, int]
    ) -> NDArray[np.float32]:
        """Return the weight of each link of tokens in the loss.

        Args:
            mixture: the corpora.
            pairs: the pairs of a batch.
            shape: `(target_length, source_length)` of the batch.

        Returns:
            float32 (batch, target_length, source_length) for rows that start with BOS. The row of
            each token sums to 1; a token of a word without links is linked to EOS. Rows of BOS,
            and of pairs without any links, are 0.
        """
        found = np.zeros((len(pairs), *shape), "float32")
        for number, rows, indices in mixture.parts(pairs):
            corpus, links = mixture.corpora[number], self.corpora[number]
            if links is None:
                continue
            for row, index in zip(np.arange(len(pairs))[rows], indices.tolist(), strict=True):
                linked = self._of_pair(corpus, index, links.of_pair(index))
                found[row, 1 : 1 + linked.shape[0], : linked.shape[1]] = linked
        return found

    def _of_pair(
        self, corpus: ParallelCorpus, index: int, links: NDArray[np.int32]
    ) -> NDArray[np.float32]:
        """Return the weights of a pair, (target tokens, source tokens and EOS)."""
        sources, targets = (
            side.numbers(ids)
            for side, ids in zip(
                self._sides, (corpus.source(index), corpus.target(index)), strict=True
            )
        )
        by_word = np.zeros((targets.max(initial=-1) + 1, sources.max(initial=-1) + 1), "float32")
        # Words of a truncated or normalized sentence may be missing.
        links = links[(links < by_word.shape[::-1]).all(axis=1)]
        by_word[links[:, 1], links[:, 0]] = 1
        by_token = np.pad(by_word[targets][:, sources], [(0, 0), (0, 1)])
        by_token[:, -1] = by_word.any() & ~by_token.any(axis=1)
        return by_token / np.maximum(1, by_token.sum(axis=1, keepdims=True))

    @property
    def fingerprint(self) -> str:
        """A hash that identifies the links."""
        digest = hashlib.sha256()
        for links in self.corpora:
            for array in links or ():
                digest.update(np.ascontiguousarray(array).tobytes())
            digest.update(b"next")
        return digest.hexdigest()
