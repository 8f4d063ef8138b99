"""Tokenizing and filtering a corpus on a Ray cluster."""

import collections
import functools
from collections.abc import Callable, Iterable, Iterator
from types import ModuleType
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from keras_transformer.argument_checks import check_positive_int
from keras_transformer.cluster.ray_start import LOCAL, ray_cluster, told_by_ray
from keras_transformer.data.pair_filters import pair_hashes
from keras_transformer.data.pair_sifting import (
    CHUNK_PAIRS,
    Chunk,
    KeptPairs,
    PairSifter,
    chunks,
    progress_bar,
)
from keras_transformer.data.parallel_text import ParallelText
from keras_transformer.errors import UserInputError

# A group of chunks has a million pairs; a part of all hashes has at most about 16 million.
GROUP_CHUNKS = 100
PART_PAIRS = 1 << 24
_MOST_RETRIES = 20  # of a task whose worker or machine is lost

Remote: TypeAlias = Callable[..., Any]  # `ray.remote` with the options of all tasks


class RaySifter:
    """A `sift` for `data.prepare_corpus` that runs on a Ray cluster.

    Chunks of pairs go to any free worker and come back in order, so that the corpus is the same to
    the byte. This process reads the text and writes the corpus. Repeated pairs are found by a
    shuffle: the hashes of all pairs are divided into parts, each of which fits into the memory of a
    worker; the text is then read twice. A sifter that is called in a worker, as in a training,
    starts tasks in addition to the CPUs that the workers have reserved.

    Args:
        address: address of the cluster, as in `ray_cluster`.
        window: most chunks in flight. None means two for each CPU of the cluster.

    Example:

    ```python
    text = data.ParallelFiles("web/*.en.gz", "web/*.de.gz")
    filters = data.PairFilters(duplicates=True)
    data.prepare_corpus(text, tokenizer, "prepared", filters=filters, sift=RaySifter("auto"))
    ```
    """

    def __init__(self, address: str = LOCAL, window: int | None = None) -> None:
        if window is not None:
            check_positive_int("window", window)
        self.address = address
        self.window = window

    def __call__(self, text: ParallelText, sifter: PairSifter) -> Iterator[KeptPairs]:
        """Yield the kept pairs of a text, in order."""
        with ray_cluster(self.address) as ray:
            cpus = max(1, int(ray.cluster_resources().get("CPU", 1)))
            in_worker = ray.get_runtime_context().get_actor_id() is not None
            remote = functools.partial(ray.remote, max_retries=_MOST_RETRIES, num_cpus=1)
            if in_worker:
                # Tasks without CPUs would all run on this machine.
                remote = functools.partial(remote, num_cpus=0, scheduling_strategy="SPREAD")
            window = self.window or (cpus if in_worker else 2 * cpus)
            with told_by_ray(ray, f"Tasks of the Ray cluster that prepare {text.name}"):
                yield from _sifted_chunks(ray, remote, text, sifter, window)


def _sifted_chunks(
    ray: ModuleType, remote: Remote, text: ParallelText, sifter: PairSifter, window: int
) -> Iterator[KeptPairs]:
    groups = None
    if sifter.filters.duplicates:
        groups = _find_repeated(ray, remote, text, window)
    tasks = _sift_tasks(ray, remote, text, sifter, groups)
    with progress_bar(text, "Tokenizing") as progress:
        for number_of_pairs, kept in _in_order(ray, tasks, window):
            yield kept
            progress.update(number_of_pairs)


class _Positions(NamedTuple):
    """Hashes of pairs in a group, and the pairs' places in the group."""

    hashes: NDArray[np.uint64]
    places: NDArray[np.uint32]


def _sift_tasks(
    ray: ModuleType,
    remote: Remote,
    text: ParallelText,
    sifter: PairSifter,
    groups: list[list[Any]] | None,
) -> Iterator[tuple[int, Any]]:
    """Yield each chunk's number of pairs and its task, which is started when it is requested."""
    sift = remote()(_sifted)
    shared = ray.put(sifter)
    for index, chunk in enumerate(chunks(text)):
        group, place = divmod(index, GROUP_CHUNKS)
        if groups is not None and group >= len(groups):
            raise UserInputError(f"{text.name} changed while it was read. Start again.")
        repeated = [] if groups is None else groups[group]
        yield len(chunk.sources), sift.remote(shared, chunk, place, groups is not None, *repeated)


def _sifted(
    sifter: PairSifter, chunk: Chunk, place: int, is_known: bool, *repeated: NDArray[np.uint32]
) -> KeptPairs:
    """Return the kept pairs of a chunk; `place` is its place in its group.

    If `is_known`, `repeated` are the places of the group's repeated pairs.
    """
    if not is_known:
        return sifter.sift(chunk)
    mask = np.zeros(len(chunk.sources), bool)
    first = place * CHUNK_PAIRS
    for places in repeated:
        inside = places[(places >= first) & (places < first + len(mask))]
        mask[inside - first] = True
    return sifter.sift(chunk, repeated=mask)


def _find_repeated(
    ray: ModuleType, remote: Remote, text: ParallelText, window: int
) -> list[list[Any]]:
    """Return, for each group of chunks, references to the places of its repeated pairs by part."""
    hash_chunk, join = remote()(_hashes), remote()(_joined)
    pairs = 0
    group: list[Any] = []  # chunks' hashes, small objects that this process holds
    groups: list[Any] = []
    with progress_bar(text, "Hashing") as progress:
        tasks = ((len(x.sources), hash_chunk.remote(x.sources, x.targets)) for x in chunks(text))
        for number_of_pairs, reference in _started(ray, tasks, window):
            group.append(reference)
            if len(group) == GROUP_CHUNKS:
                groups.append(join.remote(*group))
                group.clear()
            pairs += number_of_pairs
            progress.update(number_of_pairs)
    if group:
        groups.append(join.remote(*group))
        group.clear()
    if not groups:
        return []
    num_parts = -(-pairs // PART_PAIRS)
    divide = remote(num_returns=1 + num_parts)(_divided)
    divided = [divide.remote(num_parts, hashes) for hashes in groups]
    groups.clear()  # they are freed as soon as they are divided
    repeated_inside = [inside for inside, *_ in divided]
    pieces = [parts for _, *parts in divided]
    divided.clear()
    find = remote(num_returns=len(pieces))(_repeated_places)
    searches = (_listed(find.remote(*part)) for part in zip(*pieces, strict=True))
    # A few at once: each has the hashes of a part in memory.
    found = [group for _, group in _started(ray, ((0, x) for x in searches), window)]
    return [list(references) for references in zip(repeated_inside, *found, strict=True)]


def _hashes(sources: list[str], targets: list[str]) -> NDArray[np.uint64]:
    return pair_hashes(sources, targets)


def _joined(*hashes: NDArray[np.uint64]) -> NDArray[np.uint64]:
    return np.concatenate(hashes)


def _divided(num_parts: int, hashes: NDArray[np.uint64]) -> Any:
    """Return the places of pairs that are repeated in a group, and other hashes in parts by value.

    This keeps a part small even if a pair is repeated millions of times.
    """
    repeated = _occurred_before(hashes)
    places = np.arange(len(hashes), dtype=np.uint32)
    inside = places[repeated]
    hashes, places = hashes[~repeated], places[~repeated]
    part = hashes % np.uint64(num_parts)
    found = [_Positions(hashes[part == i], places[part == i]) for i in range(num_parts)]
    return inside, *found


def _repeated_places(*groups: _Positions) -> Any:
    """Return, for each group of one part, the places of pairs whose hash occurred earlier."""
    repeated = _occurred_before(np.concatenate([group.hashes for group in groups]))
    ends = np.cumsum([len(group.hashes) for group in groups])[:-1]
    masks = np.split(repeated, ends)
    return _single([group.places[mask] for group, mask in zip(groups, masks, strict=True)])


def _occurred_before(hashes: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Return a mask of the hashes that equal an earlier hash."""
    order = np.argsort(hashes, kind="stable")
    in_order = hashes[order]
    mask = np.zeros(len(hashes), bool)
    mask[order[1:]] = in_order[1:] == in_order[:-1]
    return mask


def _in_order(
    ray: ModuleType, tasks: Iterable[tuple[int, Any]], window: int
) -> Iterator[tuple[int, Any]]:
    """Yield the results of tasks in order; at most `window` tasks are in flight."""
    for number, reference in _started(ray, tasks, window):
        yield number, ray.get(reference)


def _started(
    ray: ModuleType, tasks: Iterable[tuple[int, Any]], window: int
) -> Iterator[tuple[int, Any]]:
    """Yield finished tasks in order; at most `window` tasks are in flight.

    A task is a number and a reference, or a number and the references of its results.
    """
    pending: collections.deque[tuple[int, Any]] = collections.deque()
    for task in tasks:
        pending.append(task)
        if len(pending) >= window:
            ray.wait(_listed(pending[0][1])[:1])
            yield pending.popleft()
    while pending:
        ray.wait(_listed(pending[0][1])[:1])
        yield pending.popleft()


def _single(values: list[Any]) -> Any:
    """Return a task's results as Ray expects them: a single result by itself."""
    return values[0] if len(values) == 1 else tuple(values)


def _listed(references: Any) -> list[Any]:
    """Return references to a task's results as a list: Ray gives a single reference by itself."""
    return references if isinstance(references, list) else [references]
