"""Strings in, strings out: trained models with their tokenizers."""

import itertools

from keras_transformer.argument_checks import check_one_of, check_positive_int
from keras_transformer.errors import UserInputError
from keras_transformer.inference.alignment import Alignment
from keras_transformer.inference.ensemble_loading import load_ensemble
from keras_transformer.inference.row_generator import RowGenerator
from keras_transformer.search_options import HasSearchOptions, SearchOptions, takes_search_options
from keras_transformer.text.sentence_batches import check_equal_numbers
from keras_transformer.text.sentence_encoding import (
    LONG_SENTENCES,
    encode_sentences,
    split_sentences,
)


class Translator(HasSearchOptions):
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
        batch_size: most sentences of a batch.
        long_sentences: what becomes of a longer sentence: `"refuse"` raises `SentenceTooLong`,
            `"cut"` drops what is beyond the limit, and `"split"` translates the sentences in it one
            by one (`translate` alone, without prefixes). Both warn with a `LongSentenceWarning`.
            Prefixes, and what is scored or aligned, are refused always.
        source_language: code of the source's language, by whose rules `"split"` finds where a
            sentence ends; general rules where that has none.
        **options: fields of `SearchOptions`: `beam_size`, `alpha`, `extra_length`, `min_length`,
            `no_repeat_ngram` and so on. `max_source_length` is the limit of prefixes too, and of
            targets that are scored or aligned.

    The arguments are attributes, `models` always a list; so are `origins`, a list with the
    `RunDirectory` and the file of weights of each model that was loaded from a run, and
    `max_length`, the models' number of positions, None where they have no limit.

    Raises:
        ValueError: an argument breaks its rule.
        UserInputError: model and tokenizer do not fit each other.

    Example:

    ```python
    translator = Translator.load("runs/number_words/latest")
    translator.translate(["forty-two", ""])  # ["zweiundvierzig", ""]
    ```
    """

    @takes_search_options()
    def __init__(
        self,
        model,
        tokenizer,
        *,
        source_tokenizer=None,
        batch_size=32,
        long_sentences="refuse",
        source_language="en",
        **options,
    ):
        self.search_options = SearchOptions(**options)
        check_positive_int("batch_size", batch_size)
        check_one_of("long_sentences", long_sentences, LONG_SENTENCES)
        self.tokenizer = tokenizer
        self.source_tokenizer = source_tokenizer or tokenizer
        self.batch_size = batch_size
        self.long_sentences = long_sentences
        self.source_language = source_language
        self.origins = []
        self.models = list(model) if isinstance(model, (list, tuple)) else [model]
        self._generator = RowGenerator(
            self.models, self.source_tokenizer, tokenizer, self.search_options, batch_size
        )
        self.max_length = self._generator.max_length
        self._most_tokens = self.search_options.source_limit(self.max_length)

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
        models, source_tokenizer, tokenizer, origins = load_ensemble(run_directory, checkpoint)
        translator = cls(models, tokenizer, source_tokenizer=source_tokenizer, **options)
        translator.origins = origins
        return translator

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
        return [best[0] for best, *_ in self._search(sentences, 1, prefixes, progress)]

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

        rows, prefix_rows = self._rows(sentences, prefixes)
        found = self._generator.sample(
            rows,
            prefix_rows,
            n,
            seed=seed,
            first_index=first_index,
            progress=progress,
            temperature=temperature,
            top_k=top_k,
            top_p=top_p,
        )
        return self._texts(found, prefix_rows, n)

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
        found = dict(self._generator.score(source_rows, target_rows, progress))
        return [found[i] / (len(row) + 1 if normalize else 1) for i, row in enumerate(target_rows)]

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
        found = dict(self._generator.alignment(source_rows, target_rows, progress))
        eos = self.source_tokenizer.special_tokens.eos
        return [
            Alignment(
                self.source_tokenizer.pieces([*source, eos]),
                self.tokenizer.pieces(target),
                found[i],
            )
            for i, (source, target) in enumerate(zip(source_rows, target_rows, strict=True))
        ]

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
        limit, language = self._most_tokens, self.source_language
        parts = split_sentences("sentences", sentences, self.source_tokenizer, limit, language)
        rows = list(itertools.chain(*parts))
        prefix_rows = [[]] * len(rows)
        found = self._generator.search(rows, prefix_rows, 1, progress)
        best = iter(self._texts(found, prefix_rows))
        texts = [[next(best)[0][0] for _ in rows_of_one] for rows_of_one in parts]
        return [" ".join(filter(None, texts_of_one)) for texts_of_one in texts]

    def _search(self, sentences, n, prefixes, progress):
        """The n best `(text, score)` of each sentence."""
        rows, prefix_rows = self._rows(sentences, prefixes)
        return self._texts(self._generator.search(rows, prefix_rows, n, progress), prefix_rows)

    def _rows(self, sentences, prefixes):
        """The ids of sentences and of their prefixes."""
        if self.long_sentences == "split":
            raise UserInputError(
                '`long_sentences="split"` works with `translate` only, and without prefixes: the '
                "parts of a split sentence have results and prefixes of their own."
            )
        rows = self._encode("sentences", sentences, self.source_tokenizer, self.long_sentences)
        if prefixes is None:
            return rows, [[]] * len(rows)
        return rows, self._encode_beside(rows, "sentences", "prefixes", prefixes)

    def _texts(self, found, prefix_rows, num_of_empty=1):
        """Lists of `(text, score)` of what was found; an empty sentence has its prefix."""
        results = [[(text, 0.0)] * num_of_empty for text in self.tokenizer.decode(prefix_rows)]
        for i, ids, scores in found:
            results[i] = list(zip(self.tokenizer.decode(ids), scores, strict=True))
        return results

    def _encode(self, name, sentences, tokenizer, long_sentences="refuse"):
        return encode_sentences(name, sentences, tokenizer, self._most_tokens, long_sentences)

    def _encode_pairs(self, sources, targets):
        rows = self._encode("sources", sources, self.source_tokenizer)
        return rows, self._encode_beside(rows, "sources", "targets", targets)

    def _encode_beside(self, source_rows, source_name, name, texts):
        rows = self._encode(name, texts, self.tokenizer)
        check_equal_numbers(source_name, source_rows, name, rows)
        return rows
