"""A run that parses, at work in the app."""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any, ClassVar

from keras_transformer.app.engine import MOST_SEARCHES, Engine, Kind, Work
from keras_transformer.app.limits import AppLimits
from keras_transformer.inference.parser import Parser
from keras_transformer.search_options import SearchOptions

_BATCH_SIZE = 4  # a tree has many steps and a large beam


class ParsingEngine(Engine):
    """A run that parses; its items are sentences.

    Args:
        name: the name by which requests ask for it.
        parser: the run's parser.
        limits: the app's limits.
    """

    kind: ClassVar[Kind] = "parsing"

    def __init__(self, name: str, parser: Parser, limits: AppLimits) -> None:
        super().__init__(name, parser.search_options, limits, _BATCH_SIZE)
        self._parser = parser
        self._parser_of = functools.lru_cache(MOST_SEARCHES)(self._new_parser)

    def check_lengths(self, sources: Sequence[str], targets: Sequence[str] = ()) -> None:
        """Raise `SentenceTooLong` if a sentence has too many tokens."""
        self._parser.check_lengths(sources)

    def warm_up(self) -> None:
        """Compile the run's own search, so that no user waits for it."""
        self.compute(Work("parse", self.search_options), ["a"])

    def compute(self, work: Work, items: Sequence[Any]) -> Sequence[Any]:
        """The `Parse` of each sentence."""
        return self._parser_of(work.options).parse_with_scores(items)

    def _new_parser(self, options: SearchOptions) -> Parser:
        """A parser of the same model with this search."""
        own = self._parser
        if options == own.search_options:
            return own
        return Parser(
            own.model,
            own.tokenizer,
            own.source_tokenizer,
            **dataclasses.asdict(options),
        )
