"""Sentence translation based on a generator of token ids. This module does not require Keras."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np

from keras_transformer.argument_checks import (
    check_equal_numbers,
    check_one_of,
    check_positive_int,
    checked_strings,
    of_one_or_many,
)
from keras_transformer.errors import UserInputError, refuse
from keras_transformer.search_options import (
    HasSearchOptions,
    SearchOptions,
    explains_search_keywords,
)
from keras_transformer.text import SentencePieceTokenizer
from keras_transformer.text.alignment import Alignment
from keras_transformer.text.glossary import Glossary, TermEncoder, Terms, TermTags, glossary_of
from keras_transformer.text.icu_messages import TextsToTranslate
from keras_transformer.text.sentence_encoding import (
    LONG_SENTENCES,
    LongSentences,
    TargetTags,
    encode_sentences,
    is_longer,
    split_sentences,
)
from keras_transformer.text.shortlist import Shortlist
from keras_transformer.text.stand_ins import KeptSentence, RestoredText, StandIns
from keras_transformer.text.variables import check_keep, find_variables
from keras_transformer.types import AUTO, NONE, MarkupKind, TermForm

Rows = Sequence[Sequence[int]]  # ids without BOS or EOS


class Generator(Protocol):
    """Interface for running a model on rows of ids, like `RowGenerator`."""

    def search(
        self, rows: Rows, prefix_rows: Rows, num_results: int, progress: bool = False
    ) -> Iterator[tuple[int, Iterable[Sequence[int]], list[float]]]: ...

    def score(
        self, source_rows: Rows, target_rows: Rows, progress: bool = False
    ) -> Iterator[tuple[int, float]]: ...

    def alignment(
        self, source_rows: Rows, target_rows: Rows, progress: bool = False
    ) -> Iterator[tuple[int, np.ndarray]]: ...


class SentenceTranslator(HasSearchOptions):
    """Translates, scores and aligns lists of sentences. See `Translator` for the arguments."""

    max_length: int | None
    _generator: Generator
    _has_terms = False  # whether the generator's `search` has the argument `terms`
    _is_guided = False  # whether the generator's `alignment` is that of a trained head
    shortlist: Shortlist | None = None

    def __init__(
        self,
        source_tokenizer: SentencePieceTokenizer,
        tokenizer: SentencePieceTokenizer,
        search_options: SearchOptions,
        *,
        batch_size: int,
        long_sentences: LongSentences,
        source_language: str,
        target_language: str | None = None,
    ) -> None:
        check_positive_int("batch_size", batch_size)
        check_one_of("long_sentences", long_sentences, LONG_SENTENCES)
        self.search_options = search_options
        self.source_tokenizer = source_tokenizer
        self.tokenizer = tokenizer
        self.batch_size = batch_size
        self.long_sentences = long_sentences
        self.source_language = source_language
        self._set_target_language(target_language)

    def _set_target_language(self, target_language: str | None) -> None:
        self.target_language = target_language
        self._tags = TargetTags(self.source_tokenizer, target_language)

    @of_one_or_many
    @explains_search_keywords
    def translate(
        self,
        sentences: Iterable[str],
        prefixes: Iterable[str] | None = None,
        progress: bool = False,
        *,
        glossary: Terms | None = None,
        glossary_tags: bool = False,
        keep: str | None = None,
        markup: MarkupKind | None = None,
    ) -> list[str]:
        """Return the best translation of each sentence.

        Args:
            sentences: sentences to translate, or a single sentence.
            prefixes: forced start of each translation. A prefix should end with a complete word,
                because a partial word is tokenized differently. An empty prefix has no effect.
            progress: whether to show a progress bar on stderr.
            glossary: terms that the translations must contain: a `text.Glossary`, or a dict from
                each source term to its target or its targets, such as inflected forms. For each
                occurrence of a source term in a sentence, the translation contains one target, as
                whole words. CTranslate2 does not support a glossary.
            glossary_tags: instead of constraining the translations, put the first target of each
                term into the source, as a model that was trained with `train --glossary-tags` reads
                it; see `text.Glossary.inline`. The model decides on the form of the term. Also
                supported with exports that take token ids.
            keep: the parts of a sentence that its translation must contain unchanged, exactly once:
                "auto" for variables such as `{name}` and `%s`, URLs and e-mail addresses; "none";
                or a regular expression; see `text.find_variables`. With "auto", the text in plural
                and select arguments of ICU messages is translated; see `text.IcuMessage`. The
                default is "auto" with `markup`, otherwise "none". CTranslate2 does not
                support it.
            markup: "html", "xml" or "markdown": each of `sentences` is a document or a part of it,
                which is returned with its text translated; see `text.parse_markup`. Not supported
                with prefixes or by CTranslate2.

        Returns:
            The translations in the order of `sentences`; for a single sentence, a string. Each
            translation includes its prefix as normalized by the tokenizer. If a sentence is split,
            the translations of its parts are joined with spaces. With `markup`, the documents.

        Raises:
            SentenceTooLong: a sentence or a prefix is rejected because it is longer than
                `max_source_length`. All methods can raise this subclass of `UserInputError`.
            UserInputError: the terms of a sentence do not fit into the output limit, the
                vocabulary cannot write a term or does not have the tags, or an XML document is not
                well-formed.
        """
        glossary, inline = self._checked_terms(glossary, glossary_tags)
        if markup is not None:
            if prefixes is not None:
                raise UserInputError("`prefixes` cannot be combined with `markup`.")
            return self._translate_marked_up(sentences, markup, progress, glossary, inline, keep)
        if prefixes is None:
            return self._translate_texts(sentences, progress, glossary, inline, keep)
        found = self._search(sentences, 1, prefixes, progress, glossary, inline, keep)
        return [best[0] for best, *_ in found]

    __call__ = translate

    @explains_search_keywords
    def translate_nbest(
        self,
        sentences: Iterable[str],
        n: int,
        prefixes: Iterable[str] | None = None,
        progress: bool = False,
        *,
        glossary: Terms | None = None,
        glossary_tags: bool = False,
        keep: str | None = None,
    ) -> list[list[tuple[str, float]]]:
        """Return the n best translations of each sentence with their scores.

        Args:
            sentences: the sentences to translate.
            n: number of translations per sentence, at most `beam_size`.
            prefixes: as in `translate`.
            progress: whether to show a progress bar on stderr.
            glossary, glossary_tags, keep: as in `translate`; they apply to all n translations. ICU
                messages stay as they are.

        Returns:
            A list of `(text, score)` pairs for each sentence, best first. The score is the
            log-probability divided by the length penalty. The same text can occur twice with
            different tokens. A list has fewer than n pairs if the search finds fewer translations.
            The list for an empty sentence is `[("", 0.0)]`, with the prefix, if any, in place of
            `""`.
        """
        check_positive_int("n", n)
        if n > self.beam_size:
            refuse("n", "be at most the beam size", n, beam_size=self.beam_size)
        glossary, inline = self._checked_terms(glossary, glossary_tags)
        return self._search(sentences, n, prefixes, progress, glossary, inline, keep)

    def score(
        self,
        sources: Iterable[str],
        targets: Iterable[str],
        *,
        normalize: bool = False,
        progress: bool = False,
    ) -> list[float]:
        """Return the log-probabilities of translations, including EOS but without a length penalty.

        Args:
            sources: the source sentences.
            targets: one translation of each source.
            normalize: whether to divide each value by the number of target tokens, including EOS.
            progress: whether to show a progress bar on stderr.

        Returns:
            The natural-log probabilities in the order of `sources`.
        """
        source_rows, target_rows = self.encode_pairs(sources, targets)
        found = dict(self._generator.score(source_rows, target_rows, progress))
        return [found[i] / (len(row) + 1 if normalize else 1) for i, row in enumerate(target_rows)]

    def align(
        self, sources: Iterable[str], targets: Iterable[str], *, progress: bool = False
    ) -> list[Alignment]:
        """Align translations with their sources.

        Args:
            sources: the source sentences.
            targets: one translation of each source.
            progress: whether to show a progress bar on stderr.

        Returns:
            The alignments in the order of `sources`.

        Reference:
            Garg et al., "Jointly Learning to Align and Translate with Transformer Models", 2019,
            section 4.2. Without an alignment head, the cross-attention of the penultimate layer is
            averaged over its heads.
        """
        sources = checked_strings("sources", sources)
        source_rows, target_rows = self.encode_pairs(sources, targets)
        found = dict(self._generator.alignment(source_rows, target_rows, progress))
        alignments = []
        for i, (source, row) in enumerate(zip(sources, source_rows, strict=True)):
            pieces = self.source_tokenizer.pieces([*row, self.source_tokenizer.special_tokens.eos])
            # An inserted tag is not a word of the sentence.
            first = 1 if self._tags.is_put_before(source, row) else 0
            target, weights = self.tokenizer.pieces(target_rows[i]), found[i]
            if self.source_tokenizer.right_to_left:
                pieces[:-1], weights[:, :-1] = pieces[-2::-1], weights[:, -2::-1]
            if self.tokenizer.right_to_left:
                target, weights = target[::-1], weights[::-1]
            weights = weights[:, first:]
            alignments.append(Alignment(pieces[first:], target, weights, self._is_guided))
        return alignments

    def encode_pairs(self, sources: Iterable[str], targets: Iterable[str]) -> tuple[Rows, Rows]:
        """Return the token ids of sentence pairs as read by the model, without BOS or EOS.

        Args:
            sources: the source sentences.
            targets: one translation of each source.

        Returns:
            Two lists of id rows: the sources, including their target-language tags, and the
            targets.
        """
        rows = self._encode_sources("sources", sources)
        return rows, self._encode_beside(rows, "sources", "targets", targets)

    def translate_ids(self, sources: Iterable[str]) -> tuple[Rows, Rows]:
        """Return the token ids of sentences and of their best translations.

        Args:
            sources: the source sentences.

        Returns:
            Two lists of id rows, as returned by `encode_pairs`. Only the search limits the length
            of the translations.
        """
        rows = self._encode_sources("sources", sources)
        translations: list[list[int]] = [[] for _ in rows]
        eos = self.tokenizer.special_tokens.eos
        for i, (best, *_), _ in self._generator.search(rows, [[]] * len(rows), 1):
            tokens = itertools.takewhile(lambda token: token != eos, best)
            translations[i] = [int(token) for token in tokens]
        return rows, translations

    def check_lengths(self, sources: Iterable[str], targets: Iterable[str] = ()) -> None:
        """Raise `SentenceTooLong` if a source or a target is too long.

        Args:
            sources: source sentences, checked regardless of `long_sentences`.
            targets: prefixes, or translations to score or align.
        """
        self._encode_sources("sources", sources)
        self._encode("targets", targets)

    def _most_tokens(self) -> int:
        """Maximum number of tokens in a sentence, including EOS."""
        return self.search_options.source_limit(self.max_length)

    def _translate_texts(
        self,
        sentences: Iterable[str],
        progress: bool,
        glossary: Glossary | None,
        inline: Glossary | None,
        keep: str | None,
    ) -> list[str]:
        """Return the translations, without prefixes. Messages and long sentences are divided."""
        keep = self._checked_keep(keep)
        found = [TextsToTranslate(each, keep) for each in checked_strings("sentences", sentences)]
        indices = [i for i, each in enumerate(found) for _ in each.texts]
        kept = [
            self._stand_ins.replace(text, variables)
            for each in found
            for text, variables in zip(each.texts, each.variables, strict=True)
        ]
        parts = self._parts(self._sources(kept, inline), indices)
        rows, texts, of_rows = [], [], []
        for each, its_rows in zip(kept, parts, strict=True):
            is_split = len(its_rows) > 1
            rows += its_rows
            texts += self.source_tokenizer.decode(its_rows) if is_split else [each.text]
            of_rows += [each] * len(its_rows)
        prefix_rows: Rows = [[]] * len(rows)
        search = self._search_with(texts, rows, glossary, of_rows)
        results = search(rows, prefix_rows, 1, progress)
        texts = [best[0] for best, *_ in self._texts(results, prefix_rows, kept=of_rows)]
        translations = iter(joined(parts, texts))
        return [each.join(itertools.islice(translations, len(each.texts))) for each in found]

    def _translate_marked_up(
        self,
        documents: Iterable[str],
        markup: MarkupKind,
        progress: bool,
        glossary: Glossary | None,
        inline: Glossary | None,
        keep: str | None,
    ) -> list[str]:
        """Return documents with their text translated."""
        self._check_has_terms("markup")
        if self.long_sentences == "cut":
            raise UserInputError('`markup` cannot be combined with `long_sentences="cut"`.')
        # Few programs translate documents, and the import takes a while.
        from keras_transformer.text.markup.marked_up_texts import (
            MOST_VARIABLES,
            MarkedUpTexts,
            PartLimits,
        )

        max_length = self._most_tokens() - self._tags.length
        limits = PartLimits(
            self.source_tokenizer,
            self.tokenizer,
            self._stand_ins,
            max_length=max_length,
            most_variables=min(MOST_VARIABLES, self.extra_length),
            splits=self.long_sentences == "split",
            language=self.source_language,
        )
        documents = checked_strings("sentences", documents)
        keep = self._checked_keep(AUTO if keep is None else keep)
        texts = MarkedUpTexts(documents, markup, keep, limits)
        sentences = [each.text for each in texts.kept]
        sources = self._sources(texts.kept, inline)
        if inline is not None:  # the text was divided without its terms
            sources = [
                text if is_longer(source, self.source_tokenizer, max_length) else source
                for text, source in zip(sentences, sources, strict=True)
            ]
        rows = self._encode_sources("sentences", sources, indices=texts.documents)
        search = self._search_with(sentences, rows, glossary, texts.kept)
        outputs = [RestoredText("", {})] * len(rows)
        for i, (ids, *_), _ in search(rows, [[]] * len(rows), 1, progress):
            outputs[i] = self._stand_ins.restore(texts.kept[i], ids)
        pairs = texts.to_align(outputs)
        sides = [[pair[side] for pair in pairs.values()] for side in (0, 1)]
        alignments = self.align(*sides, progress=progress)
        return texts.render(outputs, dict(zip(pairs, alignments, strict=True)))

    def _parts(self, sentences: Sequence[str], indices: Sequence[int]) -> list[list[list[int]]]:
        """Return the id rows of sentences, several for a long one if `long_sentences="split"`."""
        if self.long_sentences == "split":
            return self._split(sentences, indices)
        rows = self._encode_sources("sentences", sentences, self.long_sentences, indices)
        return [[row] for row in rows]

    def _split(
        self, sentences: Iterable[str], indices: Sequence[int] | None = None
    ) -> list[list[list[int]]]:
        """Return the id rows of each sentence's parts. A short sentence has a single part."""
        limit, language = self._most_tokens() - self._tags.length, self.source_language
        if limit < 2:
            raise UserInputError(
                "`max_source_length` must leave room for a tag, a token and the end of the "
                f"sentence if sentences are split. Received: {self._most_tokens()}"
            )
        parts = split_sentences(
            "sentences", sentences, self.source_tokenizer, limit, language, indices
        )
        return [self._tags.before(rows) for rows in parts]

    def _search(
        self,
        sentences: Iterable[str],
        n: int,
        prefixes: Iterable[str] | None,
        progress: bool,
        glossary: Glossary | None,
        inline: Glossary | None,
        keep: str | None,
    ) -> list[list[tuple[str, float]]]:
        """Return the n best `(text, score)` pairs for each sentence."""
        keep = self._checked_keep(keep)
        kept = [
            self._stand_ins.replace(sentence, find_variables(sentence, keep))
            for sentence in checked_strings("sentences", sentences)
        ]
        texts = [each.text for each in kept]
        rows, prefix_rows = self._rows(self._sources(kept, inline), prefixes)
        search = self._search_with(texts, rows, glossary, kept)
        return self._texts(search(rows, prefix_rows, n, progress), prefix_rows, kept=kept)

    def _checked_keep(self, keep: str | None) -> str:
        if keep is None or keep == NONE:
            return NONE
        self._check_has_terms("keep")
        return check_keep(keep)

    def _checked_terms(
        self, glossary: Terms | None, glossary_tags: bool
    ) -> tuple[Glossary | None, Glossary | None]:
        """Return the terms of translations, and the terms to put into sources."""
        if glossary is None:
            if glossary_tags:
                raise UserInputError("`glossary_tags` needs `glossary`.")
            return None, None
        if not glossary_tags:
            self._check_has_terms("glossary")
            return glossary_of(glossary), None
        if self.shortlist is not None and not self.shortlist.copies:
            raise UserInputError(
                "`glossary_tags` with a shortlist needs a vocabulary shared by source and target, "
                "because the shortlist may not have the tokens of a term."
            )
        return None, glossary_of(glossary)

    def _sources(self, kept: Sequence[KeptSentence], inline: Glossary | None) -> list[str]:
        """Return the sentences for the model, with the targets of `inline` terms."""
        if inline is None:
            return [each.text for each in kept]
        sources = []
        for each in kept:
            source = self._term_tags.put_in(each.text, inline)
            if each.stand_ins:  # a target must not have the token of a stand-in
                (row,) = self.source_tokenizer.encode([source])
                source = source if each.has_stand_ins_once(row) else each.text
            sources.append(source)
        return sources

    def _search_with(
        self,
        texts: Sequence[str],
        rows: Rows,
        glossary: Glossary | None,
        kept: Sequence[KeptSentence],
    ) -> Callable[..., Any]:
        """Return the generator's `search` for the terms and the stand-ins of the rows."""
        search: Callable[..., Any] = self._generator.search
        if glossary is None and not any(each.variables for each in kept):
            return search
        terms: list[list[TermForm]] = [[] for _ in texts]
        if glossary is not None:
            encoder = TermEncoder(self.tokenizer)  # keeps the terms that it has encoded
            terms = [encoder.forms(text, glossary) for text in texts]
        forms = [
            [*own, *each.forms(row, first_term=1 + max((form.term for form in own), default=-1))]
            for own, row, each in zip(terms, rows, kept, strict=True)
        ]
        return functools.partial(search, terms=forms)

    def _check_has_terms(self, name: str) -> None:
        if not self._has_terms:
            raise UserInputError(f"`{name}` is not supported by `{type(self).__name__}`.")
        if self.tokenizer.right_to_left:
            raise UserInputError(f"`{name}` needs a model that writes from left to right.")

    @functools.cached_property
    def _stand_ins(self) -> StandIns:
        return StandIns(self.source_tokenizer, self.tokenizer)

    @functools.cached_property
    def _term_tags(self) -> TermTags:
        return TermTags(self.source_tokenizer)

    def _rows(self, sentences: Iterable[str], prefixes: Iterable[str] | None) -> tuple[Rows, Rows]:
        """Return the id rows of sentences and of their prefixes."""
        if self.long_sentences == "split":
            raise UserInputError(
                '`long_sentences="split"` works only with `translate`, and without prefixes: the '
                "parts of a split sentence have their own results and prefixes."
            )
        rows = self._encode_sources("sentences", sentences, self.long_sentences)
        if prefixes is None:
            return rows, [[]] * len(rows)
        return rows, self._encode_beside(rows, "sentences", "prefixes", prefixes)

    def _texts(
        self,
        found: Iterator[tuple[int, Iterable[Sequence[int]], list[float]]],
        prefix_rows: Rows,
        num_of_empty: int = 1,
        kept: Sequence[KeptSentence] = (),
    ) -> list[list[tuple[str, float]]]:
        """Return each sentence's `(text, score)` pairs; an empty sentence yields its prefix."""
        results = [[(text, 0.0)] * num_of_empty for text in self.tokenizer.decode(prefix_rows)]
        for i, ids, scores in found:
            if kept and kept[i].variables:
                texts = [self._stand_ins.restore(kept[i], row).text for row in ids]
            else:
                texts = self.tokenizer.decode(ids)
            results[i] = list(zip(texts, scores, strict=True))
        return results

    def _encode_sources(
        self,
        name: str,
        sentences: Iterable[str],
        long_sentences: LongSentences = "refuse",
        indices: Sequence[int] | None = None,
    ) -> list[list[int]]:
        return self._tags.encode(name, sentences, self._most_tokens(), long_sentences, indices)

    def _encode(self, name: str, sentences: Iterable[str]) -> list[list[int]]:
        return encode_sentences(name, sentences, self.tokenizer, self._most_tokens())

    def _encode_beside(
        self, source_rows: Rows, source_name: str, name: str, texts: Iterable[str]
    ) -> list[list[int]]:
        rows = self._encode(name, texts)
        check_equal_numbers(source_name, source_rows, name, rows)
        return rows


def joined(parts: Sequence[Rows], texts: Iterable[str]) -> list[str]:
    """Return each sentence's translation by joining the consecutive translations of its parts."""
    each = iter(texts)
    return [" ".join(filter(None, [next(each) for _ in rows])) for rows in parts]
