"""Strings in, strings out: trained models with their tokenizers."""

import numpy as np

from keras_transformer.argument_checks import (
    check_non_negative_int,
    check_one_of,
    check_positive_int,
)
from keras_transformer.decoding.constraints import check_no_repeat_ngram
from keras_transformer.decoding.length_penalty import check_alpha
from keras_transformer.errors import UserInputError
from keras_transformer.inference.alignment import Alignment
from keras_transformer.inference.compiled_generator import CompiledGenerator
from keras_transformer.inference.graph_compilation import pad_ids
from keras_transformer.models import TransformerStacks
from keras_transformer.runs.run_directory import RunDirectory
from keras_transformer.text.sentence_batches import (
    batches_by_length,
    check_equal_numbers,
)
from keras_transformer.text.sentence_encoding import (
    LONG_SENTENCES,
    MAX_SOURCE_LENGTH,
    check_max_source_length,
    encode_sentences,
    split_sentences,
)

# A model's vocabulary may be padded to a multiple of 8.
MOST_PADDING = 7


class Translator:
    """Translates, scores and aligns lists of sentences.

    Sentences are sorted by length, run in batches and returned in the order in which they came. An
    empty sentence, or one of white space alone, has the empty translation (its prefix, if it has
    one).

    Args:
        model: a model from `build_transformer`, or one that was reloaded; or a list of several, an
            ensemble, which takes the mean of their probabilities. What training changes in them
            later, the translator sees.
        tokenizer: the `SentencePieceTokenizer` of the target that the models were trained with.
            Their vocabulary may be padded, to a size that is less than 8 larger.
        source_tokenizer: that of the source; None: the same one.
        beam_size: number of hypotheses of the beam search; 1 is greedy search.
        alpha: exponent of the length penalty, at least 0.
        extra_length: most output tokens beyond the source's own number.
        batch_size: most sentences of a batch.
        min_length: least number of output tokens, end of sentence not counted. A sentence whose
            limit is less has that.
        no_repeat_ngram: no output has the same so many tokens in a row twice; 0: it may.
        max_source_length: most tokens of a sentence, end of sentence counted; also of a prefix, and
            of a target that is scored or aligned. Models with fewer positions have that limit.
        long_sentences: what becomes of a longer sentence: `"refuse"` raises `SentenceTooLong`,
            `"cut"` drops what is beyond the limit, and `"split"` translates the sentences in it one
            by one (`translate` alone, without prefixes). Both warn with a `LongSentenceWarning`.
            Prefixes, and what is scored or aligned, are refused always.
        source_language: code of the source's language, by whose rules `"split"` finds where a
            sentence ends; general rules where that has none.

    The arguments are attributes, `models` always a list; so is `origins`, a list with the
    `RunDirectory` and the file of weights of each model that was loaded from a run.

    Raises:
        ValueError: an argument breaks its rule.
        UserInputError: model and tokenizer do not fit each other.

    Example:
        >>> translator = Translator.load("runs/number_words/latest")  # doctest: +SKIP
        >>> translator.translate(["forty-two", ""])  # doctest: +SKIP
        ['zweiundvierzig', '']
    """

    def __init__(
        self,
        model,
        tokenizer,
        *,
        source_tokenizer=None,
        beam_size=4,
        alpha=0.6,
        extra_length=50,
        batch_size=32,
        min_length=0,
        no_repeat_ngram=0,
        max_source_length=MAX_SOURCE_LENGTH,
        long_sentences="refuse",
        source_language="en",
    ):
        check_positive_int("beam_size", beam_size)
        check_alpha(alpha)
        check_positive_int("extra_length", extra_length)
        check_positive_int("batch_size", batch_size)
        check_non_negative_int("min_length", min_length)
        check_no_repeat_ngram(no_repeat_ngram)
        check_max_source_length(max_source_length)
        check_one_of("long_sentences", long_sentences, LONG_SENTENCES)
        self.tokenizer = tokenizer
        self.source_tokenizer = source_tokenizer or tokenizer
        self.beam_size = beam_size
        self.alpha = alpha
        self.extra_length = extra_length
        self.batch_size = batch_size
        self.min_length = min_length
        self.no_repeat_ngram = no_repeat_ngram
        self.max_source_length = max_source_length
        self.long_sentences = long_sentences
        self.source_language = source_language
        self.origins = []
        self.models = list(model) if isinstance(model, (list, tuple)) else [model]
        if not self.models:
            raise ValueError("`model` must be one model or several. Received: model=[]")
        layers = TransformerStacks.of(self.models[0])
        _check_fit("source", self.source_tokenizer, layers.source_vocabulary_size, layers)
        _check_fit("target", tokenizer, layers.vocabulary_size, layers)
        self._generator = CompiledGenerator(
            self.models,
            tokenizer.special_tokens,
            tokenizer.vocabulary_size,
            extra_length=extra_length,
            min_length=min_length,
            no_repeat_ngram=no_repeat_ngram,
        )

    @classmethod
    def load(cls, run_directory, checkpoint=None, **options):
        """The translator of a run, or of an ensemble.

        Args:
            run_directory: path of the run, or a list of paths.
            checkpoint: name or path of the weights; None: those with which the run ended. A list:
                several of one run, or one for each run.
            **options: the keyword arguments of `Translator`.

        Raises:
            UserInputError: no run is there, its files do not fit each other, or the members of an
                ensemble have different vocabularies.
        """
        members = [
            (run, run.find_weights(name))
            for run, name in ensemble_members(run_directory, checkpoint)
        ]
        runs = {run.path: run for run, _ in members}.values()
        tokenizers = [run.load_tokenizers() for run in runs]
        fingerprints = {tuple(one.fingerprint for one in pair) for pair in tokenizers}
        models = [run.load_model(weights) for run, weights in members]
        if len(fingerprints) > 1 or len({model.output_shape[-1] for model in models}) > 1:
            raise UserInputError(
                "The runs of an ensemble must have the same tokenizers and vocabulary sizes. "
                f"Received: {', '.join(str(run.path) for run in runs)}"
            )
        source_tokenizer, tokenizer = tokenizers[0]
        translator = cls(models, tokenizer, source_tokenizer=source_tokenizer, **options)
        translator.origins = members
        return translator

    @property
    def max_length(self):
        """Most positions of a sentence, or None where the models have no limit."""
        return self._generator.max_length

    def translate(self, sentences, prefixes=None, progress=False):
        """The best translation of each sentence.

        Args:
            sentences: iterable of strings.
            prefixes: iterable of as many strings, with which the translations begin; an empty one
                forces nothing. None: all are empty. A prefix may end within a word.
            progress: whether to show a progress bar on stderr.

        Returns:
            A list of strings, in the order of `sentences`. A prefix is part of the translation, as
            the tokenizer spells it. The translations of a split sentence's parts have a space
            between them.

        Raises:
            SentenceTooLong: a sentence, or a prefix, is longer than `max_source_length` and is to
                be refused. It is a `UserInputError`, and all methods raise it.
        """
        if self.long_sentences == "split" and prefixes is None:
            return self._translate_parts(sentences, progress)
        found = self._search(sentences, 1, prefixes, progress)
        return [best[0] for best, *_ in found]

    def translate_nbest(self, sentences, n, prefixes=None, progress=False):
        """The n best translations of each sentence, with their scores.

        Args:
            sentences: iterable of strings.
            n: how many translations, at most `beam_size`.
            prefixes: as in `translate`.
            progress: whether to show a progress bar on stderr.

        Returns:
            A list of lists of `(text, score)`, best first; the score is the log-probability divided
            by the length penalty. Different tokens may spell the same text. A list is shorter than
            n where the search found fewer; that of an empty sentence is `[("", 0.0)]`, or its
            prefix.
        """
        check_positive_int("n", n)
        if n > self.beam_size:
            raise UserInputError(
                f"`n` must be at most the beam size. Received: n={n}, beam_size={self.beam_size}"
            )
        return self._search(sentences, n, prefixes, progress)

    def sample(
        self,
        sentences,
        n=1,
        *,
        temperature=1.0,
        top_k=None,
        top_p=None,
        seed=0,
        first_index=0,
        prefixes=None,
        progress=False,
    ):
        """Translations of each sentence, drawn token by token from the model's distribution.

        A result depends on the seed, the sentence and its index alone: not on the batch, nor on the
        number of samples.

        Args:
            sentences: iterable of strings.
            n: how many translations of each.
            temperature: number > 0 that divides the logits; below 1, likely tokens become likelier.
            top_k: draw among so many of the likeliest tokens; None: all.
            top_p: draw among the likeliest tokens that together have this probability, in (0, 1];
                None: all.
            seed: integer >= 0; another one gives other samples.
            first_index: index of the first sentence, where `sentences` go on from an earlier call.
            prefixes: as in `translate`.
            progress: whether to show a progress bar on stderr.

        Returns:
            A list of lists of n `(text, log_prob)`, as drawn: the model's own log-probability, of
            temperature 1 and all tokens. Those of an empty sentence are `("", 0.0)`, or its prefix.
        """
        check_positive_int("n", n)
        check_non_negative_int("seed", seed)
        check_non_negative_int("first_index", first_index)

        def sample(indices, source_ids, prefix_ids):
            return self._generator.sample(
                source_ids,
                prefix_ids,
                seeds=[[seed, first_index + i] for i in indices],
                num_samples=n,
                temperature=temperature,
                top_k=top_k,
                top_p=top_p,
            )

        return self._generate(sample, sentences, n, prefixes, progress)

    def score(self, sources, targets, *, normalize=False, progress=False):
        """Natural-log probability of given translations, EOS included, without length penalty.

        Args:
            sources: iterable of strings.
            targets: iterable of as many strings, the translations.
            normalize: whether to divide by the number of target tokens, EOS included.
            progress: whether to show a progress bar on stderr.

        Returns:
            A list of floats, in the order of `sources`.
        """
        source_rows, target_rows = self._encode_pairs(sources, targets)
        scores = [0.0] * len(source_rows)
        eos = self.tokenizer.special_tokens.eos
        for indices, *inputs in self._batches_of_pairs(source_rows, target_rows, progress):
            labels = self._pad([[*target_rows[i], eos] for i in indices])
            values = self._generator.score(*inputs, labels)
            for i, value in zip(indices, values, strict=False):
                scores[i] = float(value) / (len(target_rows[i]) + 1 if normalize else 1)
        return scores

    def align(self, sources, targets, *, progress=False):
        """Which source pieces and words given translations go back to, by the cross-attention.

        Args:
            sources: iterable of strings.
            targets: iterable of as many strings, the translations.
            progress: whether to show a progress bar on stderr.

        Returns:
            A list of `Alignment`, in the order of `sources`.

        Reference:
            Garg et al., "Jointly Learning to Align and Translate with Transformer Models", 2019,
            section 4.2: the attention of the last layer but one, as the mean of its heads.
        """
        source_rows, target_rows = self._encode_pairs(sources, targets)
        alignments = [None] * len(source_rows)
        for indices, *inputs in self._batches_of_pairs(source_rows, target_rows, progress):
            found = self._generator.alignment(*inputs)
            for i, weights in zip(indices, found, strict=False):
                source, target = [*source_rows[i], self._source_eos], target_rows[i]
                alignments[i] = Alignment(
                    self.source_tokenizer.pieces(source),
                    self.tokenizer.pieces(target),
                    weights[: len(target), : len(source)],
                )
        return alignments

    def check_lengths(self, sources, targets=()):
        """Raise `SentenceTooLong` where a source, or one of the targets, would be refused.

        Args:
            sources: iterable of strings, of which none is cut or split here.
            targets: iterable of strings: translations to be scored or aligned, or prefixes.
        """
        self._encode("sources", sources, self.source_tokenizer)
        self._encode("targets", targets, self.tokenizer)

    def _translate_parts(self, sentences, progress):
        """As `translate`, of sentences that are split where they are too long."""
        limit, language = self._max_source_length, self.source_language
        parts = split_sentences("sentences", sentences, self.source_tokenizer, limit, language)
        rows = [row for rows_of_one in parts for row in rows_of_one]
        found = iter(
            self._generate_of_rows(self._searcher(1), rows, [[] for _ in rows], 1, progress)
        )
        texts = [[next(found)[0][0] for _ in rows_of_one] for rows_of_one in parts]
        return [" ".join(filter(None, texts_of_one)) for texts_of_one in texts]

    def _search(self, sentences, n, prefixes, progress):
        """The n best `(text, score)` of each sentence."""
        return self._generate(self._searcher(n), sentences, 1, prefixes, progress)

    def _searcher(self, n):
        """The function for `_generate` that finds the n best."""

        def search(indices, source_ids, prefix_ids):
            return self._generator.search(
                source_ids,
                prefix_ids,
                beam_size=self.beam_size,
                alpha=self.alpha,
                num_results=n,
            )

        return search

    def _generate(self, generate, sentences, num_of_empty, prefixes, progress):
        """Lists of `(text, score)` by `generate(indices, source_ids, prefix_ids)` of each batch."""
        if self.long_sentences == "split":
            raise UserInputError(
                '`long_sentences="split"` goes with `translate` alone, and without prefixes: there '
                "is no one list of results, and no one prefix, of several sentences."
            )
        tokenizer, long = self.source_tokenizer, self.long_sentences
        rows = self._encode("sentences", sentences, tokenizer, long)
        prefix_rows = [[] for _ in rows]
        if prefixes is not None:
            prefix_rows = self._encode("prefixes", prefixes, self.tokenizer)
            check_equal_numbers("sentences", rows, "prefixes", prefix_rows)
        return self._generate_of_rows(generate, rows, prefix_rows, num_of_empty, progress)

    def _generate_of_rows(self, generate, rows, prefix_rows, num_of_empty, progress):
        """As `_generate`, of sentences and prefixes as lists of ids."""
        results = [[(text, 0.0)] * num_of_empty for text in self.tokenizer.decode(prefix_rows)]
        not_empty = [i for i, row in enumerate(rows) if row]
        lengths = [1 + len(row) for row in rows]
        for indices in batches_by_length(not_empty, lengths, self.batch_size, progress):
            source_ids = self._pad([[*rows[i], self._source_eos] for i in indices])
            prefix_ids = None
            if any(prefix_rows):
                prefix_ids = self._pad([prefix_rows[i] for i in indices])
            ids, scores = generate(indices, source_ids, prefix_ids)
            for i, ids_of_one, scores_of_one in zip(indices, ids, scores, strict=False):
                found = np.isfinite(scores_of_one)
                if not found.any():
                    raise UserInputError(
                        "The model's scores are not finite numbers: its weights are damaged, or "
                        "its training has diverged."
                    )
                texts = self.tokenizer.decode(ids_of_one[found])
                results[i] = list(zip(texts, scores_of_one[found].tolist(), strict=True))
        return results

    def _encode(self, name, sentences, tokenizer, long_sentences="refuse"):
        return encode_sentences(name, sentences, tokenizer, self._max_source_length, long_sentences)

    @property
    def _max_source_length(self):
        """Most tokens of a sentence, EOS counted: as was asked for, or as the models can read."""
        return min(self.max_source_length, self.max_length or self.max_source_length)

    def _encode_pairs(self, sources, targets):
        source_rows = self._encode("sources", sources, self.source_tokenizer)
        target_rows = self._encode("targets", targets, self.tokenizer)
        check_equal_numbers("sources", source_rows, "targets", target_rows)
        return source_rows, target_rows

    def _batches_of_pairs(self, source_rows, target_rows, progress):
        """Yield indices with the encoder's and the decoder's input of these pairs."""
        bos = self.tokenizer.special_tokens.bos
        lengths = [1 + max(map(len, pair)) for pair in zip(source_rows, target_rows, strict=True)]
        for indices in batches_by_length(range(len(lengths)), lengths, self.batch_size, progress):
            yield (
                indices,
                self._pad([[*source_rows[i], self._source_eos] for i in indices]),
                self._pad([[bos, *target_rows[i]] for i in indices]),
            )

    def _pad(self, rows):
        return pad_ids(rows, self.tokenizer.special_tokens.pad)

    @property
    def _source_eos(self):
        return self.source_tokenizer.special_tokens.eos


def _check_fit(side, tokenizer, vocabulary_size, layers):
    """Require a tokenizer whose ids are the model's, up to its vocabulary's padding."""
    if not 0 <= vocabulary_size - tokenizer.vocabulary_size <= MOST_PADDING:
        raise UserInputError(
            f"The {side} tokenizer must have the model's vocabulary. Received: "
            f"{tokenizer.vocabulary_size} pieces, {vocabulary_size} {side} tokens of the model"
        )
    if tokenizer.special_tokens.pad != layers.padding_id:
        raise UserInputError(
            f"The {side} tokenizer must have the model's padding id. Received: "
            f"{tokenizer.special_tokens.pad}, {layers.padding_id} of the model"
        )


def ensemble_members(run_directory, checkpoint):
    """Pairs of a `RunDirectory` and a checkpoint, one for each model of `Translator.load`."""
    runs = run_directory if isinstance(run_directory, (list, tuple)) else [run_directory]
    runs = [RunDirectory.open(path) for path in runs]
    names = checkpoint if isinstance(checkpoint, (list, tuple)) else [checkpoint]
    if len(runs) == 1:
        runs = runs * len(names)
    elif len(names) == 1:
        names = names * len(runs)
    if not runs or len(runs) != len(names):
        raise UserInputError(
            "There must be one run, one checkpoint, or as many checkpoints as runs. "
            f"Received: {len(runs)} runs, {len(names)} checkpoints"
        )
    return zip(runs, names, strict=True)
