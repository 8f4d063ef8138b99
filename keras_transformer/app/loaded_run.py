"""A run that the app has loaded: what it computes, and the queue of its requests."""

import abc
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, NamedTuple

from keras_transformer.app.limits import AppLimits
from keras_transformer.app.work_queue import WorkQueue
from keras_transformer.errors import UserInputError
from keras_transformer.search_options import SearchOptions, search_over

# Searches whose compiled graphs are kept for a run; a further one replaces the oldest.
MOST_SEARCHES = 8
# What the page asks for where nothing else is chosen.
USUAL_N_BEST = 3

Kind = Literal["translation", "parsing"]
Limited = Literal["beam_size", "extra_length"]  # options that the app limits


class Work(NamedTuple):
    """What to do with the items of a request.

    Args:
        task: "translate" and "parse" take sentences; "align" and "attention" take pairs of source
            and target.
        options: options of the search.
        n_best: number of translations of a sentence.
        target_language: as in `Translator`.
    """

    task: Literal["translate", "align", "attention", "parse"]
    options: SearchOptions
    n_best: int = 1
    target_language: str | None = None


class LoadedRun(abc.ABC):
    """A run that the app has loaded, with the queue of its requests.

    Args:
        name: the name by which requests ask for it.
        search_options: the run's own search.
        limits: the app's limits.
        batch_size: most sentences to compute together.
    """

    kind: ClassVar[Kind]

    def __init__(
        self, name: str, search_options: SearchOptions, limits: AppLimits, batch_size: int
    ) -> None:
        self.name = name
        self.search_options = search_options
        self.limits = limits
        self.queue = WorkQueue(
            self.compute, batch_size=batch_size, most_jobs=limits.waiting, name=name
        )

    @property
    def target_languages(self) -> tuple[str, ...]:
        """The codes of the languages that a model of several translates into."""
        return ()

    @abc.abstractmethod
    def compute(self, work: Work, items: Sequence[Any]) -> Sequence[Any]:
        """The results of items, in their order.

        Raises:
            UserInputError: an item is refused, or the model is damaged.
        """

    @abc.abstractmethod
    def warm_up(self) -> None:
        """Compile the run's own search, so that no user waits for it."""

    def search(self, given: Mapping[str, Any]) -> SearchOptions:
        """The run's search with the options that a request gives.

        Raises:
            ValueError: an option breaks its rule, or exceeds the app's limit.
        """
        own: Any = dataclasses.asdict(self.search_options)
        options = SearchOptions(**search_over(own, given))
        limited: tuple[Limited, ...] = ("beam_size", "extra_length")
        for name in limited:
            if getattr(options, name) > self.most(name):
                raise UserInputError(
                    f"`{name}` must be at most {self.most(name)}. "
                    f"Received: {name}={getattr(options, name)}"
                )
        return options

    def most(self, name: Limited) -> int:
        """The largest value of an option: the app's limit, or the run's own where it is larger."""
        return max(getattr(self.limits, name), getattr(self.search_options, name))

    @abc.abstractmethod
    def check_lengths(self, sources: Sequence[str], targets: Sequence[str] = ()) -> None:
        """Raise `SentenceTooLong` if a source or a target is too long, before it is computed."""
