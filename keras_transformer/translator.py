"""Strings in, strings out: a trained model with its tokenizer."""

import functools

import keras
import numpy as np
from keras import ops
from tqdm import tqdm

from keras_transformer.argument_checks import check_positive_int
from keras_transformer.decoding.length_penalty import check_alpha, length_penalty
from keras_transformer.errors import UserInputError
from keras_transformer.graph_compilation import compile_function
from keras_transformer.run_directory import RunDirectory
from keras_transformer.sequence_generation import SequenceGenerator

# Memory grows with length squared: a batch of longer sentences than these has fewer of them.
FULL_BATCH_LENGTH = 256


class Translator:
    """Translates and scores lists of sentences.

    Sentences are sorted by length, run in batches and returned in the order in which they came. An
    empty sentence, or one of white space alone, has the empty translation.

    Args:
        model: a model from `build_transformer`, or one that was reloaded. What training changes in
            it later, the translator sees.
        tokenizer: the `SentencePieceTokenizer` that the model was trained with.
        beam_size: number of hypotheses of the beam search; 1 is greedy search.
        alpha: exponent of the length penalty, at least 0.
        extra_length: most output tokens beyond the source's own number.
        batch_size: most sentences of a batch.

    Raises:
        ValueError: an argument breaks its rule.
        UserInputError: model and tokenizer do not fit each other.

    Example:
        >>> translator = Translator.load("runs/number_words/latest")  # doctest: +SKIP
        >>> translator.translate(["forty-two", ""])  # doctest: +SKIP
        ['zweiundvierzig', '']
    """

    def __init__(self, model, tokenizer, *, beam_size=4, alpha=0.6, extra_length=50, batch_size=32):
        check_positive_int("beam_size", beam_size)
        check_alpha(alpha)
        check_positive_int("extra_length", extra_length)
        check_positive_int("batch_size", batch_size)
        self.tokenizer = tokenizer
        self.beam_size = beam_size
        self.alpha = alpha
        self.extra_length = extra_length
        self.batch_size = batch_size
        self._generator = SequenceGenerator(model, tokenizer.special_tokens)
        if tokenizer.vocabulary_size != self._generator.layers.vocabulary_size:
            raise UserInputError(
                "The tokenizer must have the model's vocabulary. "
                f"Received: {tokenizer.vocabulary_size} pieces, "
                f"{self._generator.layers.vocabulary_size} tokens of the model"
            )
        self._variables = model.variables
        self._searches = {}  # number of results -> compiled search
        self._score = compile_function(self._generator.score, 3, self._variables)

    @classmethod
    def load(cls, run_directory, checkpoint=None, **options):
        """The translator of a run.

        Args:
            run_directory: path of the run.
            checkpoint: name or path of the weights; None: those with which the run ended.
            **options: the keyword arguments of `Translator`.

        Raises:
            UserInputError: no run is there, or its files do not fit each other.
        """
        run = RunDirectory.open(run_directory)
        return cls(run.load_model(checkpoint), run.load_tokenizer(), **options)

    def translate(self, sentences, progress=False):
        """The best translation of each sentence.

        Args:
            sentences: iterable of strings.
            progress: whether to show a progress bar on stderr.

        Returns:
            A list of strings, in the order of `sentences`.
        """
        return [best[0] for best, *_ in self._translate(sentences, 1, progress)]

    def translate_nbest(self, sentences, n, progress=False):
        """The n best translations of each sentence, with their scores.

        Args:
            sentences: iterable of strings.
            n: how many translations, at most `beam_size`.
            progress: whether to show a progress bar on stderr.

        Returns:
            A list of lists of `(text, score)`, best first; the score is the log-probability divided
            by the length penalty. Different tokens may spell the same text. A list is shorter than
            n where the search found fewer; that of an empty sentence is `[("", 0.0)]`.
        """
        check_positive_int("n", n)
        if n > self.beam_size:
            raise UserInputError(
                f"`n` must be at most the beam size. Received: n={n}, beam_size={self.beam_size}"
            )
        return self._translate(sentences, n, progress)

    def score(self, sources, targets, progress=False):
        """Natural-log probability of given translations, EOS included, without length penalty.

        Args:
            sources: iterable of strings.
            targets: iterable of as many strings, the translations.
            progress: whether to show a progress bar on stderr.

        Returns:
            A list of floats, in the order of `sources`.
        """
        sources, targets = self._encode("sources", sources), self._encode("targets", targets)
        if len(sources) != len(targets):
            raise UserInputError(
                "`targets` must be as many as `sources`. "
                f"Received: {len(sources)} sources, {len(targets)} targets"
            )
        bos, eos = self.tokenizer.special_tokens.bos, self.tokenizer.special_tokens.eos
        lengths = [1 + max(map(len, pair)) for pair in zip(sources, targets, strict=True)]
        scores = [0.0] * len(sources)
        for indices in self._batches(range(len(sources)), lengths, progress):
            values = self._score(
                self._pad([[*sources[i], eos] for i in indices]),
                self._pad([[bos, *targets[i]] for i in indices]),
                self._pad([[*targets[i], eos] for i in indices]),
            )
            for i, value in zip(indices, values[: len(indices)], strict=True):
                scores[i] = float(value)
        return scores

    def _translate(self, sentences, n, progress):
        """The n best `(text, score)` of each sentence."""
        rows = self._encode("sentences", sentences)
        results = [[("", 0.0)] for _ in rows]
        not_empty = [i for i, row in enumerate(rows) if row]
        for indices in self._batches(not_empty, [1 + len(row) for row in rows], progress):
            eos = self.tokenizer.special_tokens.eos
            ids, scores = self._search(self._pad([[*rows[i], eos] for i in indices]), n)
            for i, ids_of_one, scores_of_one in zip(indices, ids, scores, strict=False):
                found = np.isfinite(scores_of_one)
                texts = self.tokenizer.decode(ids_of_one[found])
                results[i] = list(zip(texts, scores_of_one[found].tolist(), strict=True))
        return results

    def _encode(self, name, sentences):
        """The sentences' ids, without EOS; refuses what is no list of strings or does not fit."""
        if isinstance(sentences, (str, bytes)):
            raise ValueError(f"`{name}` must be a list of strings. Received: {name}={sentences!r}")
        sentences = list(sentences)
        for i, sentence in enumerate(sentences):
            if not isinstance(sentence, str):
                raise ValueError(
                    f"`{name}` must be a list of strings. Received: {name}[{i}]={sentence!r}"
                )
        rows = self.tokenizer.encode(sentences)
        most = self._generator.layers.max_length
        for sentence, row in zip(sentences, rows, strict=True):
            if most is not None and len(row) >= most:
                raise UserInputError(
                    f"A sentence must have fewer tokens than the model has positions, {most}. "
                    f"Received: {len(row)} tokens: {sentence[:40]!r}..."
                )
        return rows

    def _search(self, source_ids, n):
        """The n best outputs of an array of ids (batch, length), with their scores."""
        if n not in self._searches:
            search = functools.partial(self._search_ids, num_results=n)
            self._searches[n] = compile_function(search, 1, self._variables)
        return self._searches[n](source_ids)

    def _search_ids(self, source_ids, num_results):
        """Ids (batch, num_results, length) and scores of a tensor of ids (batch, length)."""
        if self.beam_size > 1:
            return self._generator.beam_search(
                source_ids,
                beam_size=self.beam_size,
                alpha=self.alpha,
                extra_length=self.extra_length,
                num_results=num_results,
            )
        ids, log_probs = self._generator.greedy(source_ids, extra_length=self.extra_length)
        is_token = ops.cast(ids != self.tokenizer.special_tokens.pad, "float32")
        scores = log_probs / length_penalty(ops.sum(is_token, axis=1), self.alpha)
        return ops.expand_dims(ids, 1), ops.expand_dims(scores, 1)

    def _batches(self, indices, lengths, progress):
        """Split the indices of sentences into batches of similar lengths, the longest first."""
        indices = sorted(indices, key=lambda i: -lengths[i])
        with tqdm(total=len(indices), unit=" sentences", disable=not progress) as bar:
            start = 0
            while start < len(indices):
                longest = max(lengths[indices[start]], FULL_BATCH_LENGTH)
                size = max(1, self.batch_size * FULL_BATCH_LENGTH // longest)
                yield indices[start : start + size]
                start += size
                bar.update(min(size, bar.total - bar.n))

    def _pad(self, rows):
        """Rows of ids as one array; on JAX in one of few shapes, because it compiles for each."""
        num_rows, length = len(rows), max(map(len, rows))
        if keras.backend.backend() == "jax":
            num_rows = 1 << (num_rows - 1).bit_length()
            length = -(-length // 8) * 8
        array = np.full((num_rows, length), self.tokenizer.special_tokens.pad, dtype="int32")
        for row, ids in zip(array, rows, strict=False):
            row[: len(ids)] = ids
        return array
