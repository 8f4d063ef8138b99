"""The results of a request's items, which a run computes in its thread."""

import asyncio
import logging
import types
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from fastapi import Request

from keras_transformer.errors import SentenceTooLong, UserInputError, is_out_of_memory
from keras_transformer.toolkit.app.loaded_runs import Job, LoadedRun, QueueClosed, QueueFull, Work
from keras_transformer.toolkit.app.request_guard import RequestRefused, too_long

FAILED = RequestRefused(500, "internal_error", "The app has failed. See its log for details.")
LOG = logging.getLogger("keras_transformer.toolkit.app")


class ClientGone(Exception):
    """The client has disconnected."""


def computed(
    request: Request,
    run: LoadedRun,
    work: Work,
    items: Sequence[Any],
    refused: Mapping[int, RequestRefused] = types.MappingProxyType({}),
) -> AsyncIterator[Any]:
    """Compute the items of a request. When the iteration ends, the remaining items are dropped.

    Args:
        request: request that contains the items.
        run: run that computes the items.
        work: type of computation.
        items: items to compute.
        refused: refusals keyed by item index; these items are not computed.

    Returns:
        The results in the order of the items, with refusals in place of refused items.

    Raises:
        RequestRefused: too many requests are waiting, or an item cannot be computed.
        ClientGone: the client closed the connection during the iteration.
    """
    loop = asyncio.get_running_loop()
    arrived: asyncio.Queue[Any] = asyncio.Queue()

    def deliver(result: Any) -> None:  # runs in the compute thread
        loop.call_soon_threadsafe(arrived.put_nowait, result)

    job = Job(work, [item for index, item in enumerate(items) if index not in refused], deliver)
    try:
        run.queue.submit(job)
    except (QueueFull, QueueClosed) as error:
        raise refusal(error) from error

    async def results() -> AsyncIterator[Any]:
        gone = asyncio.ensure_future(_disconnected(request))
        try:
            for index in range(len(items)):
                yield refused.get(index) or await _next(arrived, index, gone)
        finally:
            gone.cancel()
            run.queue.cancel(job)

    return results()


async def _next(arrived: asyncio.Queue[Any], index: int, gone: asyncio.Future[None]) -> Any:
    arrival = asyncio.ensure_future(arrived.get())
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
    """Return the response for an item that could not be computed.

    Args:
        error: exception raised for the item.
        index: index of the item in the request.
    """
    if isinstance(error, QueueFull):
        return RequestRefused(
            503,
            "busy",
            f"{error} Please try again later.",
            {"Retry-After": str(error.seconds)},
        )
    if isinstance(error, QueueClosed):
        return RequestRefused(503, "ending", "The app is shutting down.", {"Retry-After": "5"})
    if isinstance(error, SentenceTooLong):
        return too_long(error, index)
    if isinstance(error, UserInputError):
        return RequestRefused(422, "refused", str(error))
    if is_out_of_memory(error):
        return RequestRefused(503, "out_of_memory", "There is not enough memory for this text.")
    LOG.error("An item could not be computed.", exc_info=error)
    return FAILED
