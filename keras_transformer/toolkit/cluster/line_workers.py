"""A pool of Ray Data actors that answer lines on a Ray cluster."""

import collections
import contextlib
import dataclasses
import functools
import io
import os
import time
import traceback
from collections.abc import Callable, Generator, Iterator, Sequence
from types import ModuleType
from typing import Any, NamedTuple, TypeAlias

from keras_transformer.data.parallel_text import unequal_lines
from keras_transformer.errors import UserInputError
from keras_transformer.files import tell
from keras_transformer.installation import CORES, THREADS, backend_name
from keras_transformer.toolkit.cluster.cluster_inputs import ScannedFile, scan_file
from keras_transformer.toolkit.cluster.ray_start import found_by, given, ordered_rows
from keras_transformer.toolkit.cluster.worker_resources import Resources, Workers, room

MOST_LOSSES = 4  # Spark's default
_POLL_SECONDS = 1


# Answers input lines: `answer(lines, paths, first_index)`. The lines are strings, or tuples of
# strings from parallel files; `paths` are the files, and `first_index` is the number of preceding
# lines. A `UserInputError` stops the job.
AnswerLines: TypeAlias = Callable[[list[Any], Sequence[str], int], list[str]]
# A picklable function that loads the model and returns the function that answers lines. It is
# called once in each worker, before the first lines.
LineWork: TypeAlias = Callable[[], AnswerLines]


@dataclasses.dataclass(frozen=True)
class _Part:
    """Lines to answer."""

    paths: list[str]
    first_index: int
    lines: list[Any]

    @property
    def name(self) -> str:
        last = self.first_index + len(self.lines)
        return f"lines {self.first_index + 1:,} to {last:,} of {self.paths[0]}"


class WorkerFailed(RuntimeError):
    """A worker raised an error. The message is the traceback."""


class AnsweredPart(NamedTuple):
    """The answers to the next `lines_read` lines of an input."""

    lines: list[str]
    lines_read: int


@dataclasses.dataclass(frozen=True)
class _Answer:
    """A worker's messages, with its result or an error (which Ray would wrap if raised)."""

    found: AnsweredPart | UserInputError | WorkerFailed
    messages: str


def scan_inputs(
    ray: ModuleType, outputs: Sequence[Sequence[tuple[str, str]]], part_lines: int
) -> list[list[ScannedFile]]:
    """Count the lines of all inputs with one task per file.

    Args:
        ray: the module, connected.
        outputs: `(path, column)` inputs of each output; multiple inputs are parallel.
        part_lines: number of lines in a part.

    Raises:
        UserInputError: a file cannot be read, or parallel files have different numbers of lines.
    """
    scan = ray.remote(found_by)  # each uses a CPU, because the workers are not running yet
    tasks = [[scan.remote(scan_file, *file, part_lines) for file in files] for files in outputs]
    found = [[given(scanned) for scanned in ray.get(files)] for files in tasks]
    for (first, *_), *others in found:
        for other, *_ in others:
            if other.lines != first.lines:
                raise unequal_lines(first.path, first.lines, other.path, other.lines)
    return found


def answered_parts(
    ray: ModuleType,
    work: LineWork,
    inputs: Sequence[Sequence[ScannedFile]],
    done: list[int],
    workers: Workers,
) -> Generator[AnsweredPart, None, None]:
    """Yield the answers to all remaining parts in order.

    If a worker is lost, Ray Data replaces it and repeats its part. A new pool with as many workers
    as possible continues after the last part in three cases: the cluster has no room for another
    worker, there is room again, or a worker raises an error, which its machine may have caused.

    Args:
        ray: the module, connected.
        work: function that loads the model in each worker.
        inputs: inputs of each output.
        done: number of finished lines of each output; read before the first part and then updated.
        workers: number and size of the workers.

    Raises:
        UserInputError: an input cannot be read, a worker raised this error (for example, for a line
            that is too long), or `MOST_LOSSES` workers were lost on the same part.
    """
    failures = 0
    while any(lines < files[0].file.lines for lines, files in zip(done, inputs, strict=True)):
        resources = _wait_for_room(ray, workers)
        try:
            with contextlib.closing(_answers_of(ray, work, inputs, done, resources)) as answers:
                for output, part in answers:
                    yield part
                    done[output] += part.lines_read
                    failures = 0
                    if room(ray, workers) not in (None, resources):
                        break
        except (ray.exceptions.RayError, WorkerFailed) as error:
            failures += 1
            if failures == MOST_LOSSES:
                raise
            reason = str(error).strip().rpartition("\n")[2][:300]
            tell(f"A worker was lost ({reason}): the others continue")


def _answers_of(
    ray: ModuleType,
    work: LineWork,
    inputs: Sequence[Sequence[ScannedFile]],
    done: Sequence[int],
    resources: Resources,
) -> Generator[tuple[int, AnsweredPart], None, None]:
    """Yield pairs of output index and answer from a single pool."""
    from ray.data import ActorPoolStrategy

    losses = ray.remote(num_cpus=0)(_Losses).remote()
    read = functools.partial(_read, inputs, list(done))
    missing = [output for output, files in enumerate(inputs) if done[output] < files[0].file.lines]
    number = sum(inputs[output][0].num_parts(done[output]) for output in missing)
    # Reading reserves no CPU, because the workers may use all CPUs.
    parts = ordered_rows(missing).flat_map(read, num_cpus=0)
    answers = parts.map(
        _LineWorker,
        fn_constructor_args=(work, resources.num_cpus, os.getcwd(), backend_name(), losses),
        compute=ActorPoolStrategy(
            size=min(resources.number, number), max_tasks_in_flight_per_actor=1
        ),
        num_cpus=resources.num_cpus,
        num_gpus=resources.num_gpus,
    )
    for row in answers.iter_rows():
        answer: _Answer = row["answer"]
        if answer.messages:
            tell(answer.messages.rstrip("\n"))
        yield row["output"], given(answer.found)


def _read(
    inputs: Sequence[Sequence[ScannedFile]], done: Sequence[int], row: dict[str, int]
) -> Iterator[dict[str, Any]]:
    """Yield the remaining parts of an output's inputs."""
    output = row["item"]
    files, first = inputs[output], done[output]
    paths = [scanned.file.path for scanned in files]
    try:
        for columns in zip(*(scanned.parts(first) for scanned in files), strict=True):
            lines = columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))
            yield {"output": output, "part": _Part(paths, first, lines)}
            first += len(lines)
    except UserInputError as error:
        yield {"output": output, "part": UserInputError(str(error))}


class _LineWorker:
    """A worker, run as a Ray Data actor."""

    def __init__(
        self, work: LineWork, num_cpus: int, folder: str, backend: str, losses: Any
    ) -> None:
        os.environ.pop(THREADS, None)  # do not limit the threads
        for name in (CORES, "TF_NUM_INTEROP_THREADS", "OMP_NUM_THREADS"):
            os.environ[name] = str(num_cpus)
        os.environ["KERAS_BACKEND"] = backend  # read when Keras is imported
        with contextlib.suppress(OSError):  # the folder may be missing on this machine
            os.chdir(folder)
        self._losses = losses
        self._loaded = functools.cache(work)

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        with contextlib.redirect_stderr(io.StringIO()) as messages:
            found = found_by(self._answer, row["part"])
        return {"output": row["output"], "answer": _Answer(found, messages.getvalue())}

    def _answer(self, found: _Part | UserInputError) -> AnsweredPart | WorkerFailed:
        part: _Part = given(found)
        try:
            self._check_losses(part)
            lines = self._loaded()(part.lines, part.paths, part.first_index)
        except UserInputError:
            raise
        except Exception:
            return WorkerFailed(traceback.format_exc())
        return AnsweredPart(lines, len(part.lines))

    def _check_losses(self, part: _Part) -> None:
        import ray

        lost = ray.get(self._losses.before.remote(part.name))
        if lost == MOST_LOSSES:
            raise UserInputError(
                f"{lost} workers were lost while processing {part.name}, as happens if memory runs "
                "out. To use less memory, choose a smaller batch size, or fewer workers (with a "
                "larger `--worker-cpus`)"
            )
        if lost:
            tell(f"A worker was lost while processing {part.name}: another worker repeats them")


class _Losses:
    """An actor that counts the attempts for each part, because Ray Data retries forever."""

    def __init__(self) -> None:
        self._begun: collections.Counter[str] = collections.Counter()

    def before(self, part: str) -> int:
        """Return how many workers have already been lost while processing a part."""
        self._begun[part] += 1
        return self._begun[part] - 1


def _wait_for_room(ray: ModuleType, workers: Workers) -> Resources:
    """Wait until there is room for at least one worker and return resources for all that fit."""
    has_told = False
    while (resources := room(ray, workers)) is None:
        if not has_told:
            tell("The cluster has no machine left for a worker: waiting for one")
            has_told = True
        time.sleep(_POLL_SECONDS)
    return resources
