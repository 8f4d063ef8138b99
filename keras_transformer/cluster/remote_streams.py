"""What a worker of a Ray cluster prints, on the streams of the process that waits for it."""

import contextlib
import io
from collections.abc import Iterator
from types import ModuleType
from typing import Any, TextIO

_WAIT_SECONDS = 0.2


class RemoteStreams:
    """Streams of this process on which a worker can print, until `close`.

    Args:
        ray: the module, connected.
        stdout, stderr: the streams.

    Attributes:
        of_worker: the `WorkerStreams` to send to the worker.
    """

    def __init__(self, ray: ModuleType, stdout: TextIO, stderr: TextIO) -> None:
        from ray.util.queue import Queue
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        here = ray.get_runtime_context().get_node_id()
        strategy = NodeAffinitySchedulingStrategy(here, soft=False)
        self._queue = Queue(actor_options={"num_cpus": 0, "scheduling_strategy": strategy})
        self._streams = {"stdout": stdout, "stderr": stderr}
        terminals = {name: stream.isatty() for name, stream in self._streams.items()}
        self.of_worker = WorkerStreams(self._queue, terminals)

    def show_rest(self) -> None:
        """Show all that was printed so far."""
        while not self._queue.empty():
            self.show()

    def close(self) -> None:
        """End the queue between the processes."""
        self._queue.shutdown(force=True)

    def show(self) -> None:
        """Show what comes next, or return after a moment without anything."""
        from ray.util.queue import Empty

        with contextlib.suppress(Empty):
            name, text = self._queue.get(timeout=_WAIT_SECONDS)
            self._streams[name].write(text)
            self._streams[name].flush()


class WorkerStreams:
    """Lets a worker print on the streams of another process.

    Args:
        queue: a Ray queue of `(name, text)`.
        terminals: whether each of the other process's streams is a terminal.
    """

    def __init__(self, queue: Any, terminals: dict[str, bool]) -> None:
        self._queue = queue
        self._terminals = terminals

    @contextlib.contextmanager
    def redirected(self) -> Iterator[None]:
        """A context in which this process prints there."""
        stdout, stderr = (
            _RemoteStream(self._queue, name, is_terminal)
            for name, is_terminal in self._terminals.items()
        )
        with contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(stderr):
            try:
                yield
            finally:
                stdout.flush()
                stderr.flush()


class _RemoteStream(io.TextIOBase):
    """A stream that sends whole lines, and what is flushed."""

    encoding = "utf-8"

    def __init__(self, queue: Any, name: str, is_terminal: bool) -> None:
        self._queue = queue
        self._name = name
        self._is_terminal = is_terminal
        self._pending: list[str] = []

    def isatty(self) -> bool:
        return self._is_terminal

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self._pending.append(text)
        if "\n" in text:
            self.flush()
        return len(text)

    def flush(self) -> None:
        text = "".join(self._pending)
        self._pending.clear()
        if text:
            # Without the other process the training ends, but not because of a message.
            with contextlib.suppress(Exception):
                self._queue.put((self._name, text))
