"""The models of the app, each with its own queue and compute thread."""

import abc
import contextlib
import dataclasses
import functools
import math
import os
import threading
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, TypeVar

from keras_transformer.errors import refuse
from keras_transformer.inference.parser import Parser
from keras_transformer.inference.translator import Translator
from keras_transformer.runs.run_directory import RunDirectory
from keras_transformer.search_options import SearchOptions, changed_search
from keras_transformer.text.glossary import Glossary
from keras_transformer.toolkit.app import AppLimits
from keras_transformer.types import NONE, MarkupKind, PathLike

MOST_SECONDS_TO_WAIT = 60


class QueueFull(Exception):
    """Too many requests are waiting. `seconds` estimates when capacity will be available."""

    def __init__(self, seconds: int) -> None:
        super().__init__(f"The queue is full for about {seconds} seconds.")
        self.seconds = seconds


class QueueClosed(Exception):
    """The app is shutting down and does not accept more work."""


@dataclasses.dataclass(eq=False)
class Job:
    """The items of one request.

    Args:
        work: type of computation. Items with equal work may be computed together.
        items: inputs to compute, such as sentences.
        deliver: callback that receives the result of each item in order, or an exception that ends
            the job. It is called in the compute thread.
        started: number of items started.
        has_failed: whether an exception has ended the job.
    """

    work: Hashable
    items: Sequence[Any]
    deliver: Callable[[Any], None]
    started: int = 0
    has_failed: bool = False

    @property
    def waiting(self) -> int:
        """Number of items that have not been started."""
        return len(self.items) - self.started


class WorkQueue:
    """Computes jobs in a separate thread, one small batch at a time.

    The job that has waited longest goes first. Jobs with the same work share its batch, alternating
    between jobs, so a short request never waits for an entire long request. After a compilation,
    work that is already compiled goes first, so it waits for at most one compilation.

    Args:
        compute: function `compute(work, items)` that returns the results of items with equal work.
        is_compiled: function that returns whether work is already compiled; None means always.
        batch_size: maximum number of items to compute together.
        most_jobs: maximum number of waiting jobs.
        name: thread name.

    Example:
        >>> import queue
        >>> results = queue.Queue()
        >>> work_queue = WorkQueue(lambda work, items: [work + item for item in items])
        >>> with contextlib.closing(work_queue):
        ...     work_queue.submit(Job("say ", ["one", "two"], results.put))
        ...     results.get(), results.get()
        ('say one', 'say two')
    """

    def __init__(
        self,
        compute: Callable[[Any, list[Any]], Sequence[Any]],
        *,
        is_compiled: Callable[[Any], bool] | None = None,
        batch_size: int = 8,
        most_jobs: int = 64,
        name: str = "model",
    ) -> None:
        self._compute = compute
        self._is_compiled = is_compiled or (lambda work: True)
        self._has_compiled = False  # whether the last batch required compilation
        self._batch_size = batch_size
        self._most_jobs = most_jobs
        self._jobs: list[Job] = []  # jobs with items to start
        self._computing: list[Job] = []  # jobs with items in the current batch
        self._changed = threading.Condition()
        self._closed = False
        self._seconds_per_item = 0.1  # initial guess
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def submit(self, job: Job) -> None:
        """Append a job to the queue.

        Raises:
            QueueFull: `most_jobs` jobs are already waiting.
            QueueClosed: `stop` or `close` was called.
        """
        with self._changed:
            if self._closed:
                raise QueueClosed
            if len(self._jobs) >= self._most_jobs:
                waiting = sum(waits.waiting for waits in self._jobs)
                seconds = math.ceil(waiting * self._seconds_per_item)
                raise QueueFull(min(max(1, seconds), MOST_SECONDS_TO_WAIT))
            if job.items:
                self._jobs.append(job)
                self._changed.notify()

    def cancel(self, job: Job) -> None:
        """Drop the waiting items of a job whose results are no longer needed."""
        with self._changed:
            if job in self._jobs:
                self._jobs.remove(job)

    def waiting(self) -> int:
        """Return the number of waiting items."""
        with self._changed:
            return sum(job.waiting for job in self._jobs)

    def stop(self) -> None:
        """Drop all jobs. Each unfinished job receives a `QueueClosed` as its last result."""
        with self._changed:
            self._closed = True
            dropped = dict.fromkeys([*self._computing, *self._jobs])
            self._jobs.clear()
            self._computing.clear()
            self._changed.notify()
            for job in dropped:
                job.deliver(QueueClosed())

    def close(self) -> None:
        """Stop and wait for the current batch to finish."""
        self.stop()
        self._thread.join()

    def _run(self) -> None:
        while batch := self._next_batch():
            start = time.monotonic()
            self._answer(batch)
            with self._changed:
                self._computing.clear()
            seconds = (time.monotonic() - start) / len(batch)
            self._seconds_per_item += 0.2 * (seconds - self._seconds_per_item)

    def _next_batch(self) -> list[tuple[Job, Any]]:
        """Wait for jobs and return the next items with their jobs, or an empty list at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._jobs or self._closed)
            if self._closed:
                return []
            work = self._next_work()
            same = [job for job in self._jobs if job.work == work]
            batch: list[tuple[Job, Any]] = []
            while same and len(batch) < self._batch_size:
                for job in same[: self._batch_size - len(batch)]:
                    batch.append((job, job.items[job.started]))
                    job.started += 1
                same = [job for job in same if job.waiting]
            self._computing = list(dict.fromkeys(job for job, _ in batch))
            before = [job for job in self._jobs if job not in self._computing]
            behind = [job for job in self._jobs if job in self._computing and job.waiting]
            self._jobs = before + behind
            return batch

    def _next_work(self) -> Hashable:
        """Return the work of the next job."""
        works = [job.work for job in self._jobs]
        compiled = [work for work in works if self._is_compiled(work)]
        work = compiled[0] if self._has_compiled and compiled else works[0]
        self._has_compiled = not self._is_compiled(work)
        return work

    def _answer(self, batch: list[tuple[Job, Any]]) -> None:
        """Compute a batch and deliver the results. A failed item affects only its own job."""
        (first, _), *others = batch
        try:
            results = self._compute(first.work, [item for _, item in batch])
            answers = list(zip(batch, results, strict=True))
        except Exception as error:
            if not others:
                first.has_failed = True
                self.cancel(first)
                self._deliver(first, error)
            for one in batch if others else ():
                if not one[0].has_failed:
                    self._answer([one])
            return
        for (job, _), result in answers:
            self._deliver(job, result)

    def _deliver(self, job: Job, result: Any) -> None:
        with self._changed:  # after `stop`, the event loop may be closed
            if not self._closed:
                job.deliver(result)


TRANSLATION_BATCH = 8  # small, to return the first sentences quickly
PARSING_BATCH = 4  # a tree requires many steps and a large beam
# Number of compiled search graphs to keep per run. A new graph replaces the oldest.
MOST_SEARCHES = 8
# Number of translations that the page requests by default.
USUAL_N_BEST = 3

Kind = Literal["translation", "parsing"]
_Engine = TypeVar("_Engine", Translator, Parser)
Limited = Literal["beam_size", "extra_length"]  # options limited by the app


class Work(NamedTuple):
    """The computation to perform on the items of a request.

    Args:
        task: "translate" or "parse" for sentences, "align" or "attention" for pairs of source and
            target.
        options: search options.
        n_best: number of translations per sentence.
        target_language, glossary, keep, markup: as in `Translator`. With `markup`, the items are
            documents.
    """

    task: Literal["translate", "align", "attention", "parse"]
    options: SearchOptions
    n_best: int = 1
    target_language: str | None = None
    glossary: Glossary | None = None
    keep: str | None = None
    markup: MarkupKind | None = None

    @property
    def has_terms(self) -> bool:
        """Whether the search may have terms, whose number determines what has to be compiled."""
        return bool(self.glossary or self.markup or self.keep not in (None, NONE))


class LoadedRun(abc.ABC):
    """A run loaded by the app, with its request queue.

    Args:
        name: the run's name in requests.
        search_options: default search options of the run.
        limits: the app's limits.
        batch_size: maximum number of sentences to compute together.

    Attributes:
        source_language, target_language: codes such as "en", or None.
        target_languages: target language codes of a multilingual model; otherwise empty.
        takes_terms: whether the run supports `glossary`, `keep` and `markup`.
        examples: example sentences, if the run provides them.
    """

    kind: ClassVar[Kind]
    source_language: str | None = None
    target_language: str | None = None
    target_languages: Sequence[str] = ()
    takes_terms: bool = False
    examples: Sequence[str] = ()

    def __init__(
        self, name: str, search_options: SearchOptions, limits: AppLimits, batch_size: int
    ) -> None:
        self.name = name
        self.search_options = search_options
        self.limits = limits
        self._engines: dict[SearchOptions, Any] = {}  # least recently used first
        self.queue = WorkQueue(
            self.compute,
            is_compiled=self.is_compiled,
            batch_size=batch_size,
            most_jobs=limits.waiting,
            name=name,
        )

    @abc.abstractmethod
    def compute(self, work: Work, items: Sequence[Any]) -> Sequence[Any]:
        """Return the results for items in order.

        Raises:
            UserInputError: an item is invalid, or the model is damaged.
        """

    @abc.abstractmethod
    def first_work(self) -> list[tuple[Work, Any]]:
        """Return the work of the run's own search, each with an item."""

    def warm_up(self) -> None:
        """Begin to compile the run's own search. A request that comes too early waits for it."""
        for work, item in self.first_work():
            self.queue.submit(Job(work, [item], lambda result: None))

    def is_compiled(self, work: Work) -> bool:
        """Return whether the search uses the run's defaults or was used recently, without terms."""
        is_known = work.options == self.search_options or work.options in self._engines
        return is_known and not work.has_terms

    def _engine(
        self, own: _Engine, options: SearchOptions, make: Callable[..., _Engine]
    ) -> _Engine:
        """Return the translator or parser for a search. The last `MOST_SEARCHES` are cached.

        Args:
            own: translator or parser with the run's default search.
            options: search options.
            make: function that creates a translator or parser for other search options.
        """
        engine = self._engines.pop(options, None)
        if engine is None:
            is_own = options == own.search_options
            engine = own if is_own else make(**dataclasses.asdict(options))
        self._engines[options] = engine
        if len(self._engines) > MOST_SEARCHES:
            del self._engines[next(iter(self._engines))]
        return engine

    def search(self, given: Mapping[str, Any]) -> SearchOptions:
        """Return the run's search options, updated with the options in a request.

        Raises:
            ValueError: an option is invalid or exceeds the limit of the app.
        """
        options = changed_search(self.search_options, given)
        limited: tuple[Limited, ...] = ("beam_size", "extra_length")
        for name in limited:
            if getattr(options, name) > self.most(name):
                refuse(name, f"be at most {self.most(name)}", getattr(options, name))
        return options

    def most(self, name: Limited) -> int:
        """Return an option's maximum: the app's limit, or the run's default if it is larger."""
        return max(getattr(self.limits, name), getattr(self.search_options, name))

    @abc.abstractmethod
    def check_lengths(self, sources: Sequence[str], targets: Sequence[str] = ()) -> None:
        """Raise `SentenceTooLong` if a source or target is too long."""


class LoadedTranslator(LoadedRun):
    """A translation run. Items are sentences, or pairs of source and target.

    Args:
        name: the run's name in requests.
        translator: translator of the run.
        limits: the app's limits.
    """

    kind: ClassVar[Kind] = "translation"

    def __init__(self, name: str, translator: Translator, limits: AppLimits) -> None:
        super().__init__(name, translator.search_options, limits, TRANSLATION_BATCH)
        self._translator = translator
        self.target_languages = translator.source_tokenizer.target_languages
        self.takes_terms = not translator.tokenizer.right_to_left
        # Accept targets as long as any output. Sources have already been checked.
        longest = translator.max_source_length + self.most("extra_length")
        self._aligner = translator.with_search(max_source_length=longest)

    def check_lengths(self, sources: Sequence[str], targets: Sequence[str] = ()) -> None:
        """Raise `SentenceTooLong` if a source or target has too many tokens."""
        self._translator.check_lengths(sources)
        self._aligner.check_lengths([], targets)

    def first_work(self) -> list[tuple[Work, Any]]:
        """Return the work of the run's own search and of the alignment."""
        options = self.search_options
        search = Work("translate", options, min(USUAL_N_BEST, options.beam_size))
        return [(search, "a"), (Work("align", options), ("a", "a"))]

    def compute(self, work: Work, items: Sequence[Any]) -> Sequence[Any]:
        """Return `(text, score)` pairs for sentences, translated documents, or the alignment or
        attention of pairs.
        """
        own = self._translator
        translator = self._engine(own, work.options, own.with_search).into(work.target_language)
        if work.markup is not None:
            return translator.translate(
                items, glossary=work.glossary, keep=work.keep, markup=work.markup
            )
        if work.task == "translate":
            most = work.n_best
            if most > 1 or not translator.has_graph(len(items)):
                # Share one compiled search for all common values.
                most = max(most, min(USUAL_N_BEST, translator.beam_size))
            found = translator.translate_nbest(items, most, glossary=work.glossary, keep=work.keep)
            return [best[: work.n_best] for best in found]
        aligner = self._aligner.into(work.target_language)
        if work.task == "align":
            sources, targets = zip(*items, strict=True)
            return aligner.align(sources, targets)
        from keras_transformer.inference.attention_maps import attention_maps

        return [
            attention_maps(translator if target is None else aligner, source, target).to_json()
            for source, target in items
        ]


class LoadedParser(LoadedRun):
    """A parsing run. Items are sentences.

    Args:
        name: the run's name in requests.
        parser: parser of the run.
        limits: the app's limits.
    """

    kind: ClassVar[Kind] = "parsing"

    def __init__(self, name: str, parser: Parser, limits: AppLimits) -> None:
        super().__init__(name, parser.search_options, limits, PARSING_BATCH)
        self._parser = parser

    def check_lengths(self, sources: Sequence[str], targets: Sequence[str] = ()) -> None:
        """Raise `SentenceTooLong` if a sentence has too many tokens."""
        self._parser.check_lengths(sources)

    def first_work(self) -> list[tuple[Work, Any]]:
        """Return the work of the run's own search."""
        return [(Work("parse", self.search_options), "a")]

    def compute(self, work: Work, items: Sequence[Any]) -> Sequence[Any]:
        """Return the `Parse` of each sentence."""
        own = self._parser
        make = functools.partial(Parser, own.model, own.tokenizer, own.source_tokenizer)
        return self._engine(own, work.options, make).parse_with_scores(items)


@contextlib.contextmanager
def loaded_runs(paths: Sequence[PathLike], limits: AppLimits) -> Iterator[list[LoadedRun]]:
    """Load runs. Their threads stop at the end of the `with` block.

    Args:
        paths: run directories of translators and parsers.
        limits: the app's limits.

    Yields:
        The loaded runs, which begin to compile their default searches.

    Raises:
        UserInputError: a path is not a run directory, or its files are damaged.
    """
    directories = [RunDirectory.open(path) for path in paths]
    runs: list[LoadedRun] = []
    with contextlib.ExitStack() as stack:
        names = run_names(directory.path for directory in directories)
        for directory, name in zip(directories, names, strict=True):
            run, record = _load(directory, name, limits), directory.record()
            run.source_language = record.source_language
            run.target_language = record.target_language
            run.examples = record.examples or ()
            stack.callback(run.queue.close)
            runs.append(run)
        for run in runs:
            run.warm_up()
        yield runs


def run_names(paths: Iterable[Path]) -> list[str]:
    """Return names for runs: the last components of their paths, numbered if not unique.

    Example:
        >>> run_names([Path("runs/en_de"), Path("old/en_de"), Path("runs/parser")])
        ['en_de', 'en_de (2)', 'parser']
    """
    names: list[str] = []
    for path in paths:
        name = wanted = (
            Path(os.path.abspath(path)).name.encode("utf-8", "replace").decode() or "run"
        )
        number = 1
        while name in names:
            number += 1
            name = f"{wanted} ({number})"
        names.append(name)
    return names


def _load(run: RunDirectory, name: str, limits: AppLimits) -> LoadedRun:
    record = run.record()
    if record.output == "trees":
        parser = Parser.load(run.path, max_source_length=limits.tokens)
        return LoadedParser(name, parser, limits)
    most = run.search_defaults().get("max_source_length", limits.tokens)
    translator = Translator.load(
        run.path,
        max_source_length=min(most, limits.tokens),
        batch_size=TRANSLATION_BATCH,  # a search with terms needs a lot of memory per sentence
        source_language=record.source_language or "en",
    )
    return LoadedTranslator(name, translator, limits)
