"""The results of a queue as they arrive, for the request that waits for them."""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from starlette.requests import Request

from keras_transformer.app.loaded_runs import LoadedRun, Work
from keras_transformer.app.request_errors import RequestRefused, too_long
from keras_transformer.app.work_queue import Job, QueueClosed, QueueFull
from keras_transformer.errors import SentenceTooLong, UserInputError, is_out_of_memory

FAILED = RequestRefused(500, "internal_error", "The app has failed; its log says more.")
LOG = logging.getLogger("keras_transformer.app")


class ClientGone(Exception):
    """The client no longer waits for the answer."""


class Answers:
    """The results of a request's items; when the iteration ends, items that remain are dropped.

    Args:
        request: the request.
        run: the run that computes.
        work: what to compute.
        items: the items to compute it for.
        refused: the refusals of items that must not be computed, by their indices.

    Raises:
        RequestRefused: too many requests are waiting already.
    """

    def __init__(
        self,
        request: Request,
        run: LoadedRun,
        work: Work,
        items: Sequence[Any],
        refused: Mapping[int, RequestRefused] | None = None,
    ) -> None:
        loop = asyncio.get_running_loop()
        self._arrived: asyncio.Queue[Any] = asyncio.Queue()
        self._run = run
        self._request = request
        self._number = len(items)
        self._refused = refused or {}
        accepted = [item for index, item in enumerate(items) if index not in self._refused]

        def deliver(result: Any) -> None:  # in the thread that computes
            loop.call_soon_threadsafe(self._arrived.put_nowait, result)

        self._job = Job(work, accepted, deliver)
        try:
            run.queue.submit(self._job)
        except (QueueFull, QueueClosed) as error:
            raise refusal(error) from error

    async def __aiter__(self) -> AsyncIterator[Any]:
        """Yield the results in the order of the items; for a refused item, yield its refusal.

        Raises:
            RequestRefused: an item cannot be computed.
            ClientGone: the client has closed the connection.
        """
        gone = asyncio.ensure_future(_disconnected(self._request))
        try:
            for index in range(self._number):
                yield self._refused.get(index) or await self._next(index, gone)
        finally:
            gone.cancel()
            self._run.queue.cancel(self._job)

    async def all(self) -> list[Any]:
        """Return the results of all items; raises the same errors as the iteration."""
        return [result async for result in self]

    async def _next(self, index: int, gone: asyncio.Future[None]) -> Any:
        arrival = asyncio.ensure_future(self._arrived.get())
        try:
            await asyncio.wait((arrival, gone), return_when=asyncio.FIRST_COMPLETED)
            if not arrival.done():
                raise ClientGone
            result = arrival.result()
        finally:
            arrival.cancel()
        if isinstance(result, Exception):
            raise refusal(result, index) from result
        return result


async def _disconnected(request: Request) -> None:
    """Wait until the client closes the connection."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def refusal(error: Exception, index: int = 0) -> RequestRefused:
    """Return the answer for an item that could not be computed.

    Args:
        error: the exception.
        index: the item's index.
    """
    if isinstance(error, QueueFull):
        return RequestRefused(
            503,
            "busy",
            f"{error} Please try again then.",
            {"Retry-After": str(error.seconds)},
        )
    if isinstance(error, QueueClosed):
        return RequestRefused(503, "ending", "The app is ending.", {"Retry-After": "5"})
    if isinstance(error, SentenceTooLong):
        return too_long(error, index)
    if isinstance(error, UserInputError):
        return RequestRefused(422, "refused", str(error))
    if is_out_of_memory(error):
        return RequestRefused(503, "out_of_memory", "There is not enough memory for this text.")
    LOG.error("An item could not be computed.", exc_info=error)
    return FAILED
