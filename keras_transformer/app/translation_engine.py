"""A run that translates, at work in the app."""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any, ClassVar

from keras_transformer.app.engine import MOST_SEARCHES, USUAL_N_BEST, Engine, Kind, Work
from keras_transformer.app.limits import AppLimits
from keras_transformer.inference.translator import Translator
from keras_transformer.search_options import SearchOptions

_BATCH_SIZE = 8  # small, so that the first sentences are there soon


class TranslationEngine(Engine):
    """A run that translates; its items are sentences, or pairs of a source and a target.

    Args:
        name: the name by which requests ask for it.
        translator: the run's translator.
        limits: the app's limits.
    """

    kind: ClassVar[Kind] = "translation"

    def __init__(self, name: str, translator: Translator, limits: AppLimits) -> None:
        super().__init__(name, translator.search_options, limits, _BATCH_SIZE)
        self._translator = translator
        # Takes targets as long as any output; sources were checked before.
        longest = translator.max_source_length + self.most("extra_length")
        self._aligner = translator.with_search(max_source_length=longest)
        self._translator_of = functools.lru_cache(MOST_SEARCHES)(self._new_translator)

    @property
    def target_languages(self) -> tuple[str, ...]:
        """The codes of the languages that a model of several translates into."""
        return self._translator.source_tokenizer.target_languages

    def check_lengths(self, sources: Sequence[str], targets: Sequence[str] = ()) -> None:
        """Raise `SentenceTooLong` if a source or a target has too many tokens."""
        self._translator.check_lengths(sources)
        self._aligner.check_lengths([], targets)

    def warm_up(self) -> None:
        """Compile the run's own search and the alignment, so that no user waits for them."""
        options = self.search_options
        self.compute(Work("translate", options, min(USUAL_N_BEST, options.beam_size)), ["a"])
        self.compute(Work("align", options), [("a", "a")])

    def compute(self, work: Work, items: Sequence[Any]) -> Sequence[Any]:
        """The `(text, score)` pairs of sentences, or the alignment or attention of pairs."""
        translator = self._translator_of(work.options).into(work.target_language)
        if work.task == "translate":
            # One compiled search for all numbers that are usual.
            most = max(work.n_best, min(USUAL_N_BEST, translator.beam_size))
            return [found[: work.n_best] for found in translator.translate_nbest(items, most)]
        aligner = self._aligner.into(work.target_language)
        if work.task == "align":
            sources, targets = zip(*items, strict=True)
            return aligner.align(sources, targets)
        from keras_transformer.interpretation import attention_maps

        return [
            attention_maps(translator if target is None else aligner, source, target).to_json()
            for source, target in items
        ]

    def _new_translator(self, options: SearchOptions) -> Translator:
        """A translator of the same models with this search."""
        own = self._translator
        if options == own.search_options:
            return own
        return Translator(
            own.models,
            own.tokenizer,
            source_tokenizer=own.source_tokenizer,
            **dataclasses.asdict(options),
        )
