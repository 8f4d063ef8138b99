"""Subword sampling in training: each time a sentence is read it is cut into other pieces."""

import dataclasses

import numpy as np

from keras_transformer.data.parallel_corpus import SIDES

_MEASURED_PAIRS = 2000
# Room for samples beyond the mean. With BPE dropout of 0.1 on Multi30k (8,000 subwords, batches of
# 4,096 tokens) 1, 1.1 and 1.2 leave 18 %, 7 % and 2 % of the sentences with their ordinary pieces,
# and batches of 3,245, 3,122 and 2,880 real tokens a side.
_MARGIN = 1.1


@dataclasses.dataclass(frozen=True)
class SubwordSampling:
    """Says that batches are tokenized anew, by a draw that depends on seed and step alone.

    Args:
        tokenizer: tokenizer of the targets; has `sample(sentences, alpha=, seed=)`.
        source_tokenizer: tokenizer of the sources, the same object where they share one.
        alpha: how far samples differ from the ordinary pieces, see `SentencePieceTokenizer.sample`:
            the papers take 0.1 for a BPE vocabulary and 0.2 for a unigram one.
        seed: non-negative integer; another seed draws other pieces.

    Reference:
        [BPE-Dropout](https://arxiv.org/abs/1910.13267);
        [Subword Regularization](https://arxiv.org/abs/1804.10959).
    """

    tokenizer: object
    source_tokenizer: object
    alpha: float
    seed: int

    def sample(self, side, lines, step):
        """Pieces for the lines of one side of the batch of global step `step`.

        Args:
            side: `"source"` or `"target"`.
            lines: list of strings.
            step: global step, from 0.

        Returns:
            A list of int32 arrays, one a line.
        """
        entropy = [self.seed, step, SIDES.index(side)]
        seed = int(np.random.SeedSequence(entropy).generate_state(1)[0])
        tokenizer = self.source_tokenizer if side == "source" else self.tokenizer
        ids = tokenizer.sample(lines, alpha=self.alpha, seed=seed)
        return [np.asarray(row, dtype="int32") for row in ids]

    @property
    def fingerprint(self):
        """A string that differs where other pieces are drawn."""
        tokenizers = self.source_tokenizer.fingerprint, self.tokenizer.fingerprint
        return f"{tokenizers} {float(self.alpha)} {self.seed}"

    def growth(self, corpus):
        """How many times as long as ordinary pieces to expect samples, measured on some pairs.

        Args:
            corpus: a `CorpusMixture` of corpora prepared with `keep_text=True`.

        Returns:
            Two floats >= 1: for sources and for targets.

        Raises:
            ValueError: the corpora hold no text, or were prepared with other tokenizers.
        """
        self._check_tokenizers(corpus.corpora[0].metadata)
        pairs = np.unique(np.linspace(0, len(corpus) - 1, _MEASURED_PAIRS).astype("int64"))
        growth = []
        for side in SIDES:
            _, lengths = corpus.padded(side, pairs, padding_id=0)
            sampled = sum(map(len, self.sample(side, corpus.text(side, pairs), step=0)))
            growth.append(max(1.0, _MARGIN * sampled / int(lengths.sum())))
        return tuple(growth)

    def _check_tokenizers(self, metadata):
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
