"""One model's work: a thread that computes, and the requests that wait, each in turn."""

import collections
import math
import threading
import time
from collections.abc import Callable, Hashable, Sequence
from typing import Any

MOST_SECONDS_TO_WAIT = 60


class QueueFull(Exception):
    """Too many requests are waiting; `seconds` estimates when there will be room."""

    def __init__(self, seconds: int) -> None:
        super().__init__(f"The queue is full for about {seconds} seconds.")
        self.seconds = seconds


class QueueClosed(Exception):
    """The app is ending: nothing is computed any more."""


class Job:
    """The items of one request.

    Args:
        work: what to do with the items. Items of equal work may be computed together.
        items: what to compute, such as sentences.
        deliver: called from the computing thread with the result of each item, in order, and with
            the exception if one ends the job.
    """

    def __init__(
        self, work: Hashable, items: Sequence[Any], deliver: Callable[[Any], None]
    ) -> None:
        self.work = work
        self.items = items
        self.deliver = deliver
        self.started = 0  # number of items taken
        self.has_failed = False

    @property
    def waiting(self) -> int:
        """Number of items that are not taken yet."""
        return len(self.items) - self.started


class WorkQueue:
    """Computes jobs in its own thread, a small batch at a time.

    The job that has waited longest goes first. Jobs with the same work share its batch, one item of
    each job in turn, so that a short request never waits for a whole long request. After work that
    had to be compiled, compiled work goes first, so that it waits for one compilation at most.

    Args:
        compute: returns the results of items with the same work: `compute(work, items)`.
        is_compiled: whether work is computed at once; None means that all work is.
        batch_size: most items to compute together.
        most_jobs: most waiting jobs.
        name: name of the thread.

    Example:
        >>> import queue
        >>> results = queue.Queue()
        >>> with WorkQueue(lambda work, items: [work + item for item in items]) as work_queue:
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
        self._has_compiled = False  # the work of the last batch
        self._batch_size = batch_size
        self._most_jobs = most_jobs
        self._jobs: collections.deque[Job] = collections.deque()  # with items to take
        self._computing: list[Job] = []  # with items in the batch
        self._changed = threading.Condition()
        self._closed = False
        self._seconds_per_item = 0.1  # a guess, until items have been computed
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def __enter__(self) -> "WorkQueue":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def submit(self, job: Job) -> None:
        """Put a job at the end of the queue.

        Raises:
            QueueFull: `most_jobs` jobs are waiting already.
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
        """Drop everything: each unfinished job gets a `QueueClosed`, and nothing after it."""
        with self._changed:
            self._closed = True
            dropped = {id(job): job for job in (*self._computing, *self._jobs)}
            self._jobs.clear()
            self._computing.clear()
            self._changed.notify()
            for job in dropped.values():
                job.deliver(QueueClosed())

    def close(self) -> None:
        """Stop, and wait for the batch that is being computed."""
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
        """Wait for jobs and take the next items with their jobs; empty at the end."""
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
            taken = {id(job): job for job, _ in batch}
            behind = [job for job in self._jobs if id(job) in taken and job.waiting]
            before = [job for job in self._jobs if id(job) not in taken]
            self._jobs = collections.deque(before + behind)
            self._computing = list(taken.values())
            return batch

    def _next_work(self) -> Hashable:
        """The work of the job that goes first."""
        works = [job.work for job in self._jobs]
        compiled = [work for work in works if self._is_compiled(work)]
        work = compiled[0] if self._has_compiled and compiled else works[0]
        self._has_compiled = not self._is_compiled(work)
        return work

    def _answer(self, batch: list[tuple[Job, Any]]) -> None:
        """Compute a batch and deliver its results; an item that fails affects only its own job."""
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
        with self._changed:  # after `stop`, nobody waits, and the event loop may be gone
            if not self._closed:
                job.deliver(result)
