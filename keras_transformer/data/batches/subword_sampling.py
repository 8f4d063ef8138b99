"""Subword sampling in training: each time a sentence is read, it is segmented differently."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from keras_transformer.data.corpus_mixture import CorpusMixture
from keras_transformer.data.parallel_corpus import SIDES

if TYPE_CHECKING:
    from keras_transformer.text import SentencePieceTokenizer

_MEASURED_PAIRS = 2000
# Room for samples longer than the mean. With BPE dropout of 0.1 on Multi30k (8,000 subwords,
# batches of 4,096 tokens), 1, 1.1 and 1.2 leave 18 %, 7 % and 2 % of the sentences with their
# ordinary pieces, and give batches of 3,245, 3,122 and 2,880 real tokens per side.
_MARGIN = 1.1


@dataclasses.dataclass(frozen=True)
class SubwordSampling:
    """Random segmentations of batches that depend only on the seed and the step.

    Args:
        tokenizer: tokenizer of the targets.
        source_tokenizer: tokenizer of the sources; the same object if both sides share a tokenizer.
        alpha: strength of the sampling; see `SentencePieceTokenizer.sample`. The papers use 0.1 for
            a BPE vocabulary and 0.2 for a unigram vocabulary.
        seed: integer >= 0.

    Reference:
        [BPE-Dropout](https://arxiv.org/abs/1910.13267);
        [Subword Regularization](https://arxiv.org/abs/1804.10959).
    """

    tokenizer: SentencePieceTokenizer
    source_tokenizer: SentencePieceTokenizer
    alpha: float
    seed: int

    def sample(self, side: str, lines: Sequence[str], step: int) -> list[NDArray[np.int32]]:
        """Draw the pieces of one side of a batch.

        Args:
            side: `"source"` or `"target"`.
            lines: the sentences.
            step: global step, from 0.

        Returns:
            The ids of each sentence.
        """
        entropy = [self.seed, step, SIDES.index(side)]
        seed = int(np.random.SeedSequence(entropy).generate_state(1)[0])
        tokenizer = self.source_tokenizer if side == "source" else self.tokenizer
        ids = tokenizer.sample(lines, alpha=self.alpha, seed=seed)
        return [np.asarray(row, dtype="int32") for row in ids]

    @property
    def fingerprint(self) -> str:
        """A string that identifies the drawn pieces."""
        tokenizers = self.source_tokenizer.fingerprint, self.tokenizer.fingerprint
        return f"{tokenizers} {float(self.alpha)} {self.seed}"

    def growth(self, corpus: CorpusMixture) -> tuple[float, float]:
        """Estimate from some of the pairs how much longer samples are than ordinary pieces.

        Args:
            corpus: corpora prepared with `keep_text=True`.

        Returns:
            Two factors >= 1, for the sources and the targets.

        Raises:
            ValueError: the corpora were prepared without text or with different tokenizers.
        """
        self._check_tokenizers(corpus.corpora[0].metadata)
        pairs = np.unique(np.linspace(0, len(corpus) - 1, _MEASURED_PAIRS).astype("int64"))
        return self._growth_of("source", corpus, pairs), self._growth_of("target", corpus, pairs)

    def _growth_of(self, side: str, corpus: CorpusMixture, pairs: NDArray[np.integer]) -> float:
        _, lengths = corpus.padded(side, pairs, padding_id=0)
        sampled = sum(map(len, self.sample(side, corpus.text(side, pairs), step=0)))
        return max(1.0, _MARGIN * sampled / max(1, int(lengths.sum())))

    def _check_tokenizers(self, metadata: Mapping[str, Any]) -> None:
        for key, name in (
            ("tokenizer_fingerprint", "tokenizer"),
            ("source_tokenizer_fingerprint", "source_tokenizer"),
        ):
            fingerprint = getattr(self, name).fingerprint
            if metadata.get(key, fingerprint) != fingerprint:
                raise ValueError(
                    f"`{name}` must be the one that the corpora were prepared with. "
                    f"Received: one with the fingerprint {fingerprint}, not {metadata[key]}"
                )
