"""Answering the lines of many files on a Ray cluster: a worker for each device, block by block."""

import contextlib
import io
import itertools
import os
from collections.abc import Generator, Iterable, Iterator, Sequence
from types import ModuleType
from typing import Any, NamedTuple, Protocol

from keras_transformer.backend_start import CORES, THREADS, backend_name
from keras_transformer.cluster.attempts import MOST, start_attempts
from keras_transformer.cluster.block_folder import BlockFolder, BlockName
from keras_transformer.cluster.input_files import FilePart, InputFile, scan_file
from keras_transformer.cluster.worker_resources import Workers, resources_of
from keras_transformer.command_line.line_stream import line_bar
from keras_transformer.errors import UserInputError
from keras_transformer.files.standard_streams import tell

# A read task reads so many blocks one after another.
_BLOCKS_A_READ = 16
# Of a CPU. Reading waits for the disk most of the time; workers leave it this much of theirs, since
# tasks that fit nowhere would never run.
_READ_CPUS = 0.01
_LEFT_CPUS = 0.1


class LineWork(Protocol):
    """What a worker does; it must be picklable."""

    def load(self) -> "AnswerLines":
        """Load the model; called once in each worker, when it starts."""


class AnswerLines(Protocol):
    """Answers lines of an input: `answer(lines, place, first_index)`.

    `lines` are strings, or tuples of strings of parallel files; `paths` are their files, and
    `first_index` is the number of lines before them. A `UserInputError` ends the job.
    """

    def __call__(self, lines: list[Any], paths: Sequence[str], first_index: int) -> list[str]: ...


class _Piece(NamedTuple):
    """What a task reads: blocks of an output, and what they are made of."""

    file: int
    blocks: list[int]
    parts: list[FilePart]


def scan_inputs(
    ray: ModuleType, outputs: Sequence[Sequence[tuple[str, str]]], block_lines: int
) -> list[list[InputFile]]:
    """Count the lines of all inputs, a task for each file.

    Args:
        ray: the module, connected.
        outputs: the inputs of each output, as `(path, column)`: one, or several parallel ones.
        block_lines: number of lines of a block.

    Raises:
        UserInputError: a file cannot be read, or parallel files differ in their lines.
    """
    scan = ray.remote(_scanned)  # with a CPU each, as the workers do not run yet
    tasks = [[scan.remote(*file, block_lines) for file in files] for files in outputs]
    found = [[_given(file) for file in ray.get(files)] for files in tasks]
    for first, *others in found:
        for other in others:
            if other.lines != first.lines:
                raise UserInputError(
                    f"Parallel files must have the same number of lines: {first.path} has "
                    f"{first.lines}, {other.path} has {other.lines}"
                )
    return found


def run_lines(
    ray: ModuleType,
    work: LineWork,
    inputs: Sequence[Sequence[InputFile]],
    folder: BlockFolder,
    workers: Workers,
) -> None:
    """Answer the blocks that a folder misses, and write them as they come.

    A worker that dies is started again, and its blocks are given out again, at most
    `attempts.MOST` times. What workers say on their standard error appears on this process's.

    Args:
        ray: the module, connected.
        work: what the workers do.
        inputs: as of the folder.
        folder: the folder, entered.
        workers: how many workers, and how large.

    Raises:
        UserInputError: a worker's, such as of a line that is too long; or loading the model or the
            same block ended workers `attempts.MOST` times. The finished blocks stay.
    """
    missing = folder.missing
    total = sum(files[0].lines for files in inputs)
    if len(missing) < sum(files[0].num_blocks for files in inputs):
        tell(f"{folder.path}: going on behind {folder.lines_done:,} of {total:,} lines")
    if not missing:
        return
    with line_bar(total, folder.lines_done) as bar:
        answers = _answers(ray, work, list(_pieces(inputs, missing)), workers)
        with contextlib.closing(answers):
            for row in answers:
                if row["messages"]:
                    tell(row["messages"].rstrip("\n"))
                if row["error"] is not None:
                    raise UserInputError(row["error"])
                name = BlockName(int(row["file"]), int(row["block"]))
                folder.write(name, list(row["lines"]))
                bar.update(inputs[name.file][0].size(name.block))
    if left := folder.missing:
        raise RuntimeError(f"Ray ended without an answer to {len(left)} blocks")


def _scanned(path: str, column: str, block_lines: int) -> InputFile | UserInputError:
    """`scan_file` for a task, whose errors Ray would wrap."""
    try:
        return scan_file(path, column, block_lines)
    except UserInputError as error:
        return error


def _given(found: InputFile | UserInputError) -> InputFile:
    if isinstance(found, UserInputError):
        raise found
    return found


def _pieces(
    inputs: Sequence[Sequence[InputFile]], missing: Iterable[BlockName]
) -> Iterator[_Piece]:
    """What each read task reads: files that have no offsets are read once, from their start."""
    for file, names in itertools.groupby(missing, key=lambda name: name.file):
        blocks = [name.block for name in names]
        has_offsets = all(one.offsets is not None for one in inputs[file])
        most = _BLOCKS_A_READ if has_offsets else len(blocks)
        for start in range(0, len(blocks), most):
            some = blocks[start : start + most]
            yield _Piece(file, some, [one.part(some) for one in inputs[file]])


def _answers(
    ray: ModuleType, work: LineWork, pieces: list[_Piece], workers: Workers
) -> Generator[dict[str, Any], None, None]:
    """The answers of the workers, as they come."""
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    context.target_max_block_size = 1  # each block by itself
    context.execution_no_progress_timeout_s = -1  # a block may take long
    resources = resources_of(ray, workers)
    attempts = start_attempts(ray, resources.number)
    rows = ray.data.read_datasource(
        _datasource(ray, pieces),
        num_cpus=_READ_CPUS,
        concurrency=min(resources.number, len(pieces)),
        override_num_blocks=len(pieces),
    )
    answers = rows.map_batches(
        _Worker,
        fn_constructor_args=(
            work,
            attempts,
            resources.num_cpus,
            os.getcwd(),
            backend_name(),
        ),
        batch_size=1,
        compute=ray.data.ActorPoolStrategy(size=resources.number),
        num_cpus=resources.num_cpus - _LEFT_CPUS,
        num_gpus=resources.num_gpus,
    )
    yield from answers.iter_rows()


def _datasource(ray: ModuleType, pieces: list[_Piece]) -> Any:
    """The blocks as rows of a Ray data set."""
    import pyarrow
    from ray.data.block import BlockMetadata

    def read(piece: _Piece) -> Iterator[Any]:
        sides = [part.read() for part in piece.parts]
        firsts = [first for first, _ in piece.parts[0].blocks]
        try:
            for block, first, *lines in zip(piece.blocks, firsts, *sides, strict=True):
                yield _row(piece, block, first, lines, None)
        except UserInputError as error:
            yield _row(piece, piece.blocks[0], firsts[0], [], str(error))

    def _row(
        piece: _Piece, block: int, first: int, lines: list[list[str]], error: str | None
    ) -> Any:
        return pyarrow.table(
            {
                "file": [piece.file],
                "block": [block],
                "first_index": [first],
                "paths": [[part.path for part in piece.parts]],
                "sides": pyarrow.array(
                    [lines], pyarrow.list_(pyarrow.list_(pyarrow.large_string()))
                ),
                "error": pyarrow.array([error], pyarrow.string()),
            }
        )

    class Blocks(ray.data.Datasource):  # type: ignore[name-defined]  # imported when needed
        def estimate_inmemory_data_size(self) -> int | None:
            return None

        def get_read_tasks(self, parallelism: int, *_: Any, **__: Any) -> list[Any]:
            tasks = []
            for piece in pieces:
                metadata = BlockMetadata(
                    num_rows=None, size_bytes=None, input_files=None, exec_stats=None
                )
                tasks.append(ray.data.ReadTask(lambda piece=piece: read(piece), metadata))
            return tasks

    return Blocks()


class _Worker:
    """An actor: it loads its model while the first block is read."""

    def __init__(
        self, work: LineWork, attempts: Any, num_cpus: int, folder: str, backend: str
    ) -> None:
        os.environ.pop(THREADS, None)  # so many as the work needs
        for name in (CORES, "TF_NUM_INTEROP_THREADS", "OMP_NUM_THREADS"):
            os.environ[name] = str(num_cpus)
        os.environ["KERAS_BACKEND"] = backend  # read when Keras is imported
        with contextlib.suppress(OSError):  # a machine without this folder has no relative paths
            os.chdir(folder)
        self._attempts = attempts
        self._answer: AnswerLines | UserInputError
        self._messages = io.StringIO()
        try:
            self._check(attempts.begin_load, "Loading the model ended workers again and again")
            with contextlib.redirect_stderr(self._messages):
                self._answer = work.load()
        except UserInputError as error:  # ends the job with the first block
            self._answer = error

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        (error,) = batch["error"]
        lines: list[str] = []
        messages, self._messages = self._messages, io.StringIO()
        if error is None:
            try:
                with contextlib.redirect_stderr(messages):
                    lines = self._answered(batch)
            except UserInputError as raised:
                error = str(raised)
        return {
            "file": batch["file"],
            "block": batch["block"],
            "lines": [lines],
            "messages": [messages.getvalue()],
            "error": [error],
        }

    def _answered(self, batch: dict[str, Any]) -> list[str]:
        if isinstance(self._answer, UserInputError):
            raise self._answer
        paths = list(batch["paths"][0])
        columns = [list(side) for side in batch["sides"][0]]
        lines = columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))
        first_index = int(batch["first_index"][0])
        self._check(
            self._attempts.begin_block,
            f"Lines {first_index + 1:,} to {first_index + len(lines):,} of {paths[0]} ended "
            f"{MOST} workers",
            int(batch["file"][0]),
            int(batch["block"][0]),
        )
        return self._answer(lines, paths, first_index)

    @staticmethod
    def _check(begin: Any, message: str, *block: int) -> None:
        """Raise a `UserInputError` if nothing more may be tried."""
        import ray

        if not ray.get(begin.remote(*block)):
            raise UserInputError(
                f"{message}, as happens where memory runs out. A smaller batch size and fewer "
                "workers, `--worker-cpus`, need less of it"
            )
