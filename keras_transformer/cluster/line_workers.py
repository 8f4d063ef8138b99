"""Workers on a Ray cluster that answer lines, each worker a block at a time."""

import collections
import contextlib
import enum
import io
import itertools
import os
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future
from types import ModuleType
from typing import Any, NamedTuple, NoReturn, Protocol

from keras_transformer.backend_start import CORES, THREADS, backend_name
from keras_transformer.cli.text_streams import line_bar
from keras_transformer.cluster.block_folder import BlockFolder, BlockName
from keras_transformer.cluster.cluster_inputs import InputFile, scan_file
from keras_transformer.cluster.ray_start import last_line
from keras_transformer.cluster.worker_resources import Resources, Workers, has_room, resources_of
from keras_transformer.data.text_files import unequal_lines
from keras_transformer.errors import UserInputError
from keras_transformer.files.standard_streams import tell

MOST_LOSSES = 4  # Spark's default
_PATIENCE_SECONDS = 60


class LineWork(Protocol):
    """The work of a worker; it must be picklable."""

    def load(self) -> "AnswerLines":
        """Load the model; called once in each worker, when it starts."""


class AnswerLines(Protocol):
    """Answers lines of an input: `answer(lines, paths, first_index)`.

    `lines` are strings, or tuples of strings of parallel files; `paths` are their files, and
    `first_index` is the number of lines before them. A `UserInputError` ends the job.
    """

    def __call__(self, lines: list[Any], paths: Sequence[str], first_index: int) -> list[str]: ...


class Block(NamedTuple):
    """Lines that a worker answers; `paths`, `first_index` and `lines` are as in `AnswerLines`."""

    name: BlockName
    paths: list[str]
    first_index: int
    lines: list[Any]


class _Task(enum.Enum):
    """A worker's current task, other than a block."""

    LOAD = enum.auto()  # loading its model
    PING = enum.auto()  # showing that it is still alive


class _Call(NamedTuple):
    worker: Any
    task: Block | _Task


class _Answer(NamedTuple):
    """Lines, output on standard error, and the message of a `UserInputError`."""

    lines: list[str]
    messages: str
    error: str | None


class LineWorkers:
    """Workers that share the blocks of a job: a worker gets a block when it is free.

    If a worker dies, another one starts as soon as the cluster has room for it, and the next free
    worker gets the block. A worker that raises an error other than a `UserInputError` is also
    replaced: the fault may lie with its machine. The workers' output on standard error appears on
    this process's standard error.

    Args:
        ray: the module, connected.
        work: the work of the workers.
        resources: number and size of the workers.
    """

    def __init__(self, ray: ModuleType, work: LineWork, resources: Resources) -> None:
        self._ray = ray
        self._resources = resources
        options = {"num_cpus": resources.num_cpus, "num_gpus": resources.num_gpus}
        self._actor = ray.remote(**options)(_LineWorker)
        self._arguments = (work, resources.num_cpus, os.getcwd(), backend_name())
        self._calls: dict[Any, _Call] = {}  # by the reference of the answer
        self._free: list[Any] = []
        self._again: collections.deque[Block] = collections.deque()
        self._left = 0  # blocks without an answer
        self._losses: collections.Counter[BlockName] = collections.Counter()
        self._lost_loads = 0  # since a worker last loaded its model or answered
        self._most_lost_loads = 0
        self._told_of_room = False

    def answers(
        self, blocks: Iterable[Block], number: int
    ) -> Generator[tuple[Block, list[str]], None, None]:
        """Yield each block with its answer, as the answers arrive.

        Args:
            blocks: the blocks; read in a thread, one ahead.
            number: number of blocks.

        Raises:
            UserInputError: a worker raised it, such as for a line that is too long; a worker cannot
                start; or loading the model or the same block ended workers `MOST_LOSSES` times.
        """
        coming = _read_ahead(iter(blocks))
        workers = min(self._resources.number, number)
        self._most_lost_loads = MOST_LOSSES * workers
        try:
            for _ in range(workers):
                self._start()
            for self._left in range(number, 0, -1):
                answered = self._next_answer(coming)
                try:
                    self._give(coming)  # before the caller takes its time
                except UserInputError:  # from reading the next block: this block is answered
                    yield answered
                    raise
                yield answered
        finally:
            for worker in [*self._free, *(call.worker for call in self._calls.values())]:
                self._ray.kill(worker)

    def _start(self) -> None:
        worker = self._actor.remote(*self._arguments)
        self._calls[worker.load.remote()] = _Call(worker, _Task.LOAD)

    def _give(self, coming: Iterator[Block]) -> None:
        """Give each free worker a block while there are blocks."""
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
            done = self._next_done()
            worker, task = self._calls.pop(done)
            try:
                answer: _Answer = self._ray.get(done)
            except self._ray.exceptions.RayError as error:
                self._replace(worker, task, error)
                continue
            self._free.append(worker)
            if answer.messages:
                tell(answer.messages.rstrip("\n"))
            if answer.error is not None:
                raise UserInputError(answer.error)
            if task is not _Task.PING:
                self._lost_loads = 0
            if isinstance(task, Block):
                return task, answer.lines

    def _next_done(self) -> Any:
        """Wait for one of the calls; tell the user if no machine is left that could answer."""
        one = self._resources._replace(number=1)
        while True:
            done, _ = self._ray.wait(list(self._calls), num_returns=1, timeout=_PATIENCE_SECONDS)
            if done:
                return done[0]
            if not self._told_of_room and not has_room(self._ray, one):
                tell("The cluster has no machine left for a worker: waiting for one")
                self._told_of_room = True

    def _replace(self, worker: Any, task: Block | _Task, error: Exception) -> None:
        """Continue without a worker; raise an error if this happens again and again."""
        self._ray.kill(worker)  # it may only be unreachable
        if isinstance(task, Block):
            self._count_loss(task, error)
            self._again.append(task)
        elif task is _Task.LOAD:
            self._count_lost_load(error)
        if len(self._calls) + len(self._free) < self._left:
            self._start()
        # Other workers may be lost with the machine: only a living worker gets a block.
        for free in self._free:
            self._calls[free.ping.remote()] = _Call(free, _Task.PING)
        self._free.clear()

    def _count_lost_load(self, error: Exception) -> None:
        if isinstance(error, self._ray.exceptions.RayTaskError):  # an error of the code
            raise error
        if getattr(error, "actor_init_failed", False):
            raise UserInputError(
                f"A worker cannot start: {last_line(error)}. All machines of a cluster need the "
                "same versions of Python, Ray and this package"
            ) from error
        self._lost_loads += 1
        if self._lost_loads == self._most_lost_loads:
            _give_up("Loading the model ended workers again and again", error)
        tell("A worker was lost while it loaded its model: another one is started")

    def _count_loss(self, block: Block, error: Exception) -> None:
        first, last = block.first_index + 1, block.first_index + len(block.lines)
        lines = f"lines {first:,} to {last:,} of {block.paths[0]}"
        is_raised = isinstance(error, self._ray.exceptions.RayTaskError)
        self._losses[block.name] += 1
        if self._losses[block.name] == MOST_LOSSES:
            if is_raised:
                raise error
            _give_up(f"{MOST_LOSSES} workers were lost with {lines}", error)
        reason = f" ({last_line(error)})" if is_raised else ""
        tell(f"A worker was lost with {lines}{reason}: another one answers them")


class _LineWorker:
    """A worker, as a Ray actor."""

    def __init__(self, work: LineWork, num_cpus: int, folder: str, backend: str) -> None:
        os.environ.pop(THREADS, None)  # as many as the work needs
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

    def ping(self) -> _Answer:
        """Return an empty answer."""
        return _answer(list)

    def answer(self, block: Block) -> _Answer:
        """Answer a block."""
        return _answer(lambda: self._answer(block.lines, block.paths, block.first_index))

    def _load(self) -> list[str]:
        self._answer = self._work.load()
        return []


def _answer(lines_of: Callable[[], list[str]]) -> _Answer:
    """Return what a function returns, prints on standard error and raises."""
    lines, error = [], None
    with contextlib.redirect_stderr(io.StringIO()) as messages:
        try:
            lines = lines_of()
        except UserInputError as raised:  # Ray would wrap it
            error = str(raised)
    return _Answer(lines, messages.getvalue(), error)


def _read_ahead(blocks: Iterator[Block]) -> Iterator[Block]:
    """Read blocks in a thread, each while the block before it is being answered.

    Nothing waits for the thread at the end: reaching a block may take hours of reading.
    """

    def read() -> "Future[Block | None]":
        coming: Future[Block | None] = Future()

        def run() -> None:
            try:
                coming.set_result(next(blocks, None))
            except BaseException as error:  # raised to the thread that waits for the block
                coming.set_exception(error)

        threading.Thread(target=run, daemon=True).start()
        return coming

    coming = read()
    while (block := coming.result()) is not None:
        coming = read()
        yield block


def _give_up(what: str, error: Exception) -> NoReturn:
    raise UserInputError(
        f"{what}, as happens if memory runs out. To need less memory, use a smaller batch size, or "
        "fewer workers by a larger `--worker-cpus`"
    ) from error


def scan_inputs(
    ray: ModuleType, outputs: Sequence[Sequence[tuple[str, str]]], block_lines: int
) -> list[list[InputFile]]:
    """Count the lines of all inputs, in one task for each file.

    Args:
        ray: the module, connected.
        outputs: the inputs of each output, as `(path, column)`: one, or several parallel inputs.
        block_lines: number of lines in a block.

    Raises:
        UserInputError: a file cannot be read, or parallel files differ in their number of lines.
    """
    scan = ray.remote(_scanned)  # with a CPU each, because the workers do not run yet
    tasks = [[scan.remote(*file, block_lines) for file in files] for files in outputs]
    found = [[_given(file) for file in ray.get(files)] for files in tasks]
    for first, *others in found:
        for other in others:
            if other.lines != first.lines:
                raise unequal_lines(first.path, first.lines, other.path, other.lines)
    return found


def run_lines(
    ray: ModuleType,
    work: LineWork,
    inputs: Sequence[Sequence[InputFile]],
    folder: BlockFolder,
    workers: Workers,
) -> None:
    """Answer the missing blocks of a folder, and write them as they arrive.

    This process reads the inputs, each starting at its first missing block.

    Args:
        ray: the module, connected.
        work: the work of the workers.
        inputs: the folder's inputs.
        folder: the folder, entered.
        workers: number and size of the workers.

    Raises:
        UserInputError: an input cannot be read, or the same errors as `LineWorkers.answers`. The
            finished blocks stay.
    """
    missing = len(folder.missing)
    total = sum(files[0].lines for files in inputs)
    if missing < sum(files[0].num_blocks for files in inputs):
        tell(f"{folder.path}: resuming after {folder.lines_done:,} of {total:,} lines")
    if not missing:
        return
    # A machine may have been lost since the workers were requested.
    line_workers = LineWorkers(ray, work, resources_of(ray, workers, or_fewer=True))
    answers = line_workers.answers(_missing_blocks(inputs, folder), missing)
    with line_bar(total, folder.lines_done) as bar, contextlib.closing(answers):
        for block, lines in answers:
            folder.write(block.name, lines)
            bar.update(len(block.lines))


def _missing_blocks(inputs: Sequence[Sequence[InputFile]], folder: BlockFolder) -> Iterator[Block]:
    """Read the missing blocks of a folder."""
    for file, names in itertools.groupby(folder.missing, key=lambda name: name.file):
        of_file, files = list(names), inputs[file]
        paths = [one.path for one in files]
        sides = [one.part([name.block for name in of_file]).read() for one in files]
        for name, *columns in zip(of_file, *sides, strict=True):
            lines = columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))
            yield Block(name, paths, files[0].first_line(name.block), lines)


def _scanned(path: str, column: str, block_lines: int) -> InputFile | UserInputError:
    """`scan_file` for a task, which returns errors because Ray would wrap them."""
    try:
        return scan_file(path, column, block_lines)
    except UserInputError as error:
        return error


def _given(found: InputFile | UserInputError) -> InputFile:
    if isinstance(found, UserInputError):
        raise found
    return found
