"""Workers of a Ray cluster that answer lines, each a block at a time."""

import collections
import contextlib
import io
import os
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType
from typing import Any, NamedTuple, NoReturn, Protocol

from keras_transformer.backend_start import CORES, THREADS, backend_name
from keras_transformer.cluster.block_folder import BlockName
from keras_transformer.cluster.worker_resources import Resources
from keras_transformer.errors import UserInputError
from keras_transformer.files.standard_streams import tell

MOST_LOSSES = 4  # Spark's default


class LineWork(Protocol):
    """What a worker does; it must be picklable."""

    def load(self) -> "AnswerLines":
        """Load the model; called once in each worker, when it starts."""


class AnswerLines(Protocol):
    """Answers lines of an input: `answer(lines, paths, first_index)`.

    `lines` are strings, or tuples of strings of parallel files; `paths` are their files, and
    `first_index` is the number of lines before them. A `UserInputError` ends the job.
    """

    def __call__(self, lines: list[Any], paths: Sequence[str], first_index: int) -> list[str]: ...


class Block(NamedTuple):
    """Lines that a worker answers; `paths`, `first_index` and `lines` as of `AnswerLines`."""

    name: BlockName
    paths: list[str]
    first_index: int
    lines: list[Any]


class _Call(NamedTuple):
    """What a worker is at: a block, or without one loading its model."""

    worker: Any
    block: Block | None


class _Answer(NamedTuple):
    """Lines, what was said on standard error, and the message of a `UserInputError`."""

    lines: list[str]
    messages: str
    error: str | None


class LineWorkers:
    """Workers that share the blocks of a job: each gets one when it is free.

    In place of a worker that dies another one starts as soon as the cluster has room for it, and
    whichever worker is free next gets its block. What workers say on their standard error appears
    on this process's.

    Args:
        ray: the module, connected.
        work: what the workers do.
        resources: how many workers, and how large.
    """

    def __init__(self, ray: ModuleType, work: LineWork, resources: Resources) -> None:
        self._ray = ray
        self._number = resources.number
        options = {"num_cpus": resources.num_cpus, "num_gpus": resources.num_gpus}
        self._actor = ray.remote(**options)(_LineWorker)
        self._arguments = (work, resources.num_cpus, os.getcwd(), backend_name())
        self._calls: dict[Any, _Call] = {}  # by the reference of their answer
        self._free: list[Any] = []
        self._again: collections.deque[Block] = collections.deque()
        self._losses: collections.Counter[BlockName] = collections.Counter()
        self._lost_loads = 0  # since a worker loaded its model

    def answers(
        self, blocks: Iterable[Block], number: int
    ) -> Generator[tuple[Block, list[str]], None, None]:
        """Yield each block with its answer, as they come.

        Args:
            blocks: the blocks; read in a thread, one ahead.
            number: of the blocks.

        Raises:
            UserInputError: a worker's, such as of a line that is too long; or loading the model or
                the same block ended workers `MOST_LOSSES` times.
        """
        with _read_ahead(iter(blocks)) as coming:
            try:
                for _ in range(min(self._number, number)):
                    self._start()
                for _ in range(number):
                    answered = self._next_answer(coming)
                    self._give(coming)  # before the caller takes its time
                    yield answered
            finally:
                for worker in [*self._free, *(call.worker for call in self._calls.values())]:
                    self._ray.kill(worker)

    def _start(self) -> None:
        worker = self._actor.remote(*self._arguments)
        self._calls[worker.load.remote()] = _Call(worker, None)

    def _give(self, coming: Iterator[Block]) -> None:
        """Give each free worker a block while there are some."""
        while self._free:
            block = self._again.popleft() if self._again else next(coming, None)
            if block is None:
                return
            worker = self._free.pop()
            self._calls[worker.answer.remote(block)] = _Call(worker, block)

    def _next_answer(self, coming: Iterator[Block]) -> tuple[Block, list[str]]:
        """Wait until a block is answered."""
        while True:
            self._give(coming)
            (done,), _ = self._ray.wait(list(self._calls), num_returns=1)
            worker, block = self._calls.pop(done)
            try:
                answer: _Answer = self._ray.get(done)
            except self._ray.exceptions.RayTaskError:  # an error of the code
                raise
            except self._ray.exceptions.RayError as error:
                self._ray.kill(worker)  # it may only be out of reach
                self._count_loss(block, error)
                self._start()
                continue
            self._free.append(worker)
            if answer.messages:
                tell(answer.messages.rstrip("\n"))
            if answer.error is not None:
                raise UserInputError(answer.error)
            if block is not None:
                return block, answer.lines
            self._lost_loads = 0

    def _count_loss(self, block: Block | None, error: Exception) -> None:
        """Note that a worker was lost; raise an error if that happens again and again."""
        if block is None:
            if getattr(error, "actor_init_failed", False):  # an error of the code
                raise error
            self._lost_loads += 1
            if self._lost_loads == MOST_LOSSES * self._number:
                _give_up("Loading the model ended workers again and again", error)
            tell("A worker was lost as it loaded its model: another one is started")
            return
        first, last = block.first_index + 1, block.first_index + len(block.lines)
        lines = f"lines {first:,} to {last:,} of {block.paths[0]}"
        self._losses[block.name] += 1
        if self._losses[block.name] == MOST_LOSSES:
            _give_up(f"{MOST_LOSSES} workers were lost with {lines}", error)
        tell(f"A worker was lost with {lines}: another one answers them")
        self._again.append(block)


class _LineWorker:
    """An actor."""

    def __init__(self, work: LineWork, num_cpus: int, folder: str, backend: str) -> None:
        os.environ.pop(THREADS, None)  # so many as the work needs
        for name in (CORES, "TF_NUM_INTEROP_THREADS", "OMP_NUM_THREADS"):
            os.environ[name] = str(num_cpus)
        os.environ["KERAS_BACKEND"] = backend  # read when Keras is imported
        with contextlib.suppress(OSError):  # a machine without this folder has no relative paths
            os.chdir(folder)
        self._work = work
        self._answer: AnswerLines

    def load(self) -> _Answer:
        """Load the model."""
        return _answer(self._load)

    def answer(self, block: Block) -> _Answer:
        """Answer a block."""
        return _answer(lambda: self._answer(block.lines, block.paths, block.first_index))

    def _load(self) -> list[str]:
        self._answer = self._work.load()
        return []


def _answer(lines_of: Callable[[], list[str]]) -> _Answer:
    """What a function returns, says and raises."""
    lines, error = [], None
    with contextlib.redirect_stderr(io.StringIO()) as messages:
        try:
            lines = lines_of()
        except UserInputError as raised:  # Ray would wrap it
            error = str(raised)
    return _Answer(lines, messages.getvalue(), error)


@contextlib.contextmanager
def _read_ahead(blocks: Iterator[Block]) -> Iterator[Iterator[Block]]:
    """Read blocks in a thread, each while the one before it is at work."""
    with ThreadPoolExecutor(1) as thread:

        def read() -> Iterator[Block]:
            coming = thread.submit(next, blocks, None)
            while (block := coming.result()) is not None:
                coming = thread.submit(next, blocks, None)
                yield block

        yield read()


def _give_up(what: str, error: Exception) -> NoReturn:
    raise UserInputError(
        f"{what}, as happens where memory runs out. A smaller batch size and fewer workers, "
        "`--worker-cpus`, need less of it"
    ) from error
